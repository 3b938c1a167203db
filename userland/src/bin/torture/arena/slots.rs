//! The memory that all threads share: slots of two page tables each, and what must be in their
//! pages.
use crate::page::{self, Stamp};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, RwLock};
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::{Errno, Result};

/// A place far from everything that the C library maps.
const BASE: usize = 0x1000_0000_0000;
/// Pages of a slot.
pub const SLOT: usize = 1024;
/// Pages of a folio of 64 KiB, and of arm64's contiguous block.
pub const BLOCK: usize = 16;
/// Pages of a PMD leaf.
pub const HUGE: usize = 512;
/// Slots at most: more memory would be touched too thinly.
const MOST: usize = 64;

/// Slots, each with a lock: its pages are mapped, moved, and written exactly by the thread that has
/// it. Wild accesses need none.
pub struct Arena {
    slots: Vec<Mutex<Slot>>,
    /// Threads that use it.
    pub threads: usize,
    /// No other process uses memory.
    pub alone: bool,
    /// Shared by all working threads; exclusive to the thread that uses up memory.
    pub world: RwLock<()>,
}

/// What is mapped in a slot.
pub struct Slot {
    start: usize,
    /// By page: the exact words, `None` where nothing is mapped.
    pages: Vec<Option<Stamp>>,
}

impl Arena {
    /// Of so many pages, about.
    pub fn new(pages: usize, threads: usize, alone: bool) -> Arena {
        let slot = |n| Slot {
            start: BASE + n * SLOT * PAGE,
            pages: vec![None; SLOT],
        };
        let slots = (0..(pages / SLOT).clamp(2, MOST)).map(|n| Mutex::new(slot(n)));
        Arena {
            slots: slots.collect(),
            threads,
            alone,
            world: RwLock::new(()),
        }
    }
    pub fn len(&self) -> usize {
        self.slots.len()
    }
    /// A page anywhere.
    pub fn page(&self, n: usize) -> usize {
        BASE + n % (self.slots.len() * SLOT) * PAGE
    }
    /// One slot for this thread alone. To have two, the lower one is asked for first.
    pub fn slot(&self, n: usize) -> MutexGuard<'_, Slot> {
        let slot = self.slots[n].lock();
        slot.unwrap_or_else(|_| panic!("a thread ended within slot {n}"))
    }
}

/// A verb that must not fail did.
fn refused(at: usize, verb: &str, why: Errno) -> ! {
    page::wrong(at, &format!("{verb} gives {why:?}"))
}

impl Slot {
    fn at(&self, page: usize) -> usize {
        self.start + page * PAGE
    }
    fn bytes(range: &Range<usize>) -> usize {
        range.len() * PAGE
    }
    /// Pages of the range that are mapped.
    pub fn mapped(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        range.filter(|page| self.pages[*page].is_some())
    }
    /// A verb on the range that must work.
    fn must(&self, verb: &str, range: &Range<usize>, act: impl FnOnce(usize, usize) -> Result<()>) {
        let at = self.at(range.start);
        if let Err(why) = act(at, Self::bytes(range)) {
            refused(at, verb, why);
        }
    }

    /// Maps fresh memory over whatever is there.
    pub fn map(&mut self, range: Range<usize>, advice: Option<i32>) {
        self.must("mmap", &range, |at, len| {
            mem::mmap(at, len, RW, ANON | libc::MAP_FIXED, -1, 0).map(drop)
        });
        if let Some(advice) = advice {
            // A kernel without large folios refuses.
            let _ = mem::madvise(self.at(range.start), Self::bytes(&range), advice);
        }
        self.pages[range].fill(Some(Stamp::ZERO));
    }
    pub fn unmap(&mut self, range: Range<usize>) {
        self.must("munmap", &range, mem::munmap);
        self.pages[range].fill(None);
    }
    /// Writes the page, if it is mapped.
    pub fn touch(&mut self, page: usize, stamp: Stamp) {
        let at = self.at(page);
        if self.pages[page].is_some() {
            self.pages[page] = Some(stamp);
        }
        if page::write(at, stamp) != self.pages[page].is_some() {
            page::wrong(
                at,
                "it may be written where nothing is mapped, or not where something is",
            );
        }
    }
    /// Looks at each page of the range; where nothing is mapped, which costs a signal each, at
    /// those beside what is.
    pub fn check(&self, range: Range<usize>) {
        let near = |page: usize| {
            let around = page.saturating_sub(1)..SLOT.min(page + 2);
            self.mapped(around).next().is_some()
        };
        for page in range.filter(|page| near(*page)) {
            let (found, known) = (page::read(self.at(page)), self.pages[page]);
            if found != known {
                let word = |stamp: Option<Stamp>| stamp.map_or("nothing".into(), |s| s.to_string());
                let text = format!("its words are {}, not {}", word(found), word(known));
                page::wrong(self.at(page), &text);
            }
        }
    }
    /// MADV_DONTNEED of what is mapped there.
    pub fn discard(&mut self, range: Range<usize>) {
        let hole = self.mapped(range.clone()).count() < range.len();
        let done = mem::madvise(
            self.at(range.start),
            Self::bytes(&range),
            libc::MADV_DONTNEED,
        );
        let expected = if hole {
            Err(Errno(libc::ENOMEM))
        } else {
            Ok(())
        };
        if done != expected {
            let text = format!("MADV_DONTNEED gives {done:?}, not {expected:?}");
            page::wrong(self.at(range.start), &text);
        }
        for page in range {
            self.pages[page] = self.pages[page].map(|_| Stamp::ZERO);
        }
    }
    /// Read-only and back, if all of the range is mapped; a write between must fail.
    pub fn protect(&mut self, range: Range<usize>) -> bool {
        if self.mapped(range.clone()).count() < range.len() {
            return false;
        }
        self.must("mprotect", &range, |at, len| {
            mem::mprotect(at, len, libc::PROT_READ)
        });
        if page::write(self.at(range.start), Stamp::ZERO) {
            page::wrong(self.at(range.start), "it is read-only and was written");
        }
        self.check(range.clone());
        self.must("mprotect", &range, |at, len| mem::mprotect(at, len, RW));
        true
    }
    /// MADV_COLLAPSE of 2 MiB; whether the kernel did it.
    pub fn collapse(&self, half: usize) -> bool {
        let at = self.at(half * HUGE);
        mem::madvise(at, HUGE * PAGE, mem::MADV_COLLAPSE).is_ok()
    }
}

/// Moves pages of one held slot to another or the same; whether the kernel did it.
pub fn move_pages(
    held: &mut [MutexGuard<'_, Slot>],
    from: usize,
    range: Range<usize>,
    to: usize,
    at: usize,
) -> bool {
    let target = at..at + range.len();
    if from == to && range.start < target.end && target.start < range.end {
        return false;
    }
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (old, new, len) = (
        held[from].at(range.start),
        held[to].at(at),
        range.len() * PAGE,
    );
    if mem::mremap(old, len, len, flags, new).is_err() {
        // Several mappings cannot be moved at once before Linux 6.17, and what was at the target
        // may be gone or not.
        held[from].check(range);
        held[to].unmap(target);
        return false;
    }
    // A kernel that moves several mappings leaves the target alone where nothing was.
    let moved = held[from].pages[range.clone()].to_vec();
    held[from].pages[range].fill(None);
    for (page, stamp) in target.zip(moved) {
        if stamp.is_some() {
            held[to].pages[page] = stamp;
        }
    }
    true
}
