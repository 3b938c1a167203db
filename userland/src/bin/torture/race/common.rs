//! Memory that several processes share: every thread of each has a word in every page, which must
//! be what it wrote last, however the processes map, unmap and protect their views meanwhile, and
//! whether it is written through a mapping or by pwrite.
use crate::board::{Op, Seat};
use crate::page::{Stamp, wrong};
use crate::phase::Phase;
use std::sync::Mutex;
use userland::random::Random;
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::{Result, fault, file};

const BASE: usize = 0x4000_0000_0000;
const STRIDE: usize = 4 << 20;
/// Pages of each view, and of the file.
const PAGES: usize = 256;
/// Views of each process.
const VIEWS: usize = 3;
/// Threads of all processes at most: words of a page.
pub const MOST: usize = PAGE / 8;

/// The memory behind the views.
#[derive(Clone, Copy)]
pub struct Memory(i32);

struct View {
    at: usize,
    writable: Phase,
    changing: Mutex<()>,
}

/// The views of one process.
pub struct Common {
    memory: Memory,
    views: Vec<View>,
}

/// The last words of one thread, by page, and its place in a page.
pub struct Mine {
    slot: usize,
    words: Vec<Stamp>,
}

impl Memory {
    pub fn new() -> Result<Memory> {
        let fd = file::memfd(0)?;
        file::ftruncate(fd, (PAGES * PAGE) as i64)?;
        Ok(Memory(fd))
    }

    /// The word at this offset, without a mapping.
    fn word(self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        must(
            offset,
            "pread",
            file::pread(self.0, &mut bytes, offset as i64),
        );
        u64::from_ne_bytes(bytes)
    }

    pub fn close(self) -> Result<()> {
        file::close(self.0)
    }

    fn map(self, at: usize) -> Result<()> {
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        mem::mmap(at, PAGES * PAGE, RW, flags, self.0, 0).map(drop)
    }
}

impl Common {
    pub fn new(memory: Memory) -> Result<Common> {
        let view = |n| {
            let at = BASE + n * STRIDE;
            memory.map(at)?;
            Ok(View {
                at,
                writable: Phase::open(),
                changing: Mutex::new(()),
            })
        };
        let views: Result<Vec<_>> = (0..VIEWS).map(view).collect();
        Ok(Common {
            memory,
            views: views?,
        })
    }

    /// For the thread with this number among those of all processes; an earlier one with the same
    /// number has left its words.
    pub fn mine(&self, slot: usize) -> Mine {
        let at = |page| page * PAGE + slot * 8;
        let words = (0..PAGES)
            .map(|page| Stamp(self.memory.word(at(page))))
            .collect();
        Mine { slot, words }
    }

    pub fn step(&self, mine: &mut Mine, random: &mut Random, stamp: Stamp, seat: Seat) {
        let view = &self.views[random.below(VIEWS as u64) as usize];
        let page = random.below(PAGES as u64) as usize;
        let offset = page * PAGE + mine.slot * 8;
        match random.below(16) {
            0 => self.change(view, random, seat),
            1..8 => {
                let at = view.at + offset;
                if view
                    .writable
                    .access(at, || fault::store(at, stamp.0))
                    .is_some()
                {
                    mine.words[page] = stamp;
                }
            }
            8 => {
                let written = file::pwrite(self.memory.0, &stamp.0.to_ne_bytes(), offset as i64);
                must(offset, "pwrite", written);
                mine.words[page] = stamp;
            }
            9 => mine.compare(page, offset, self.memory.word(offset)),
            _ => {
                let at = view.at + offset;
                if let Some(found) = view.writable.read(at, || fault::load(at)) {
                    mine.compare(page, at, found);
                }
            }
        }
        seat.step();
    }

    fn change(&self, view: &View, random: &mut Random, seat: Seat) {
        let Ok(_changing) = view.changing.try_lock() else {
            return;
        };
        let (at, len) = (view.at, PAGES * PAGE);
        let (op, done) = match random.below(4) {
            0 => {
                let unmapped = view.writable.change(|| mem::munmap(at, len));
                std::thread::yield_now();
                let mapped = view.writable.change(|| self.memory.map(at));
                (Op::Unmap, unmapped.and(mapped))
            }
            1 => {
                let protect = |prot| view.writable.change(|| mem::mprotect(at, len, prot));
                let closed = protect(libc::PROT_READ);
                std::thread::yield_now();
                (Op::Protect, closed.and(protect(RW)))
            }
            2 => (Op::Discard, mem::madvise(at, len, libc::MADV_DONTNEED)),
            _ => (Op::Map, self.memory.map(at)),
        };
        if let Err(why) = done {
            wrong(at, &format!("{why:?} of a shared view"));
        }
        seat.count(op);
    }
}

/// A transfer of one word must be whole.
fn must(offset: usize, call: &str, done: Result<usize>) {
    if done != Ok(8) {
        wrong(offset, &format!("{call} gives {done:?}"));
    }
}

impl Mine {
    fn compare(&self, page: usize, at: usize, found: u64) {
        if Stamp(found) != self.words[page] {
            let text = format!("it has {}, not {}", Stamp(found), self.words[page]);
            wrong(at, &text);
        }
    }
}
