//! Blocks of pages that threads discard, map anew, unmap and protect while all write: a word is the
//! last one that was written, or zero if the page was wiped since, and never one from before.
use crate::board::{Op, Seat};
use crate::page::{Stamp, wrong};
use crate::phase::Phase;
use crate::race::word;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use userland::random::Random;
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::{Result, fault};

const BASE: usize = 0x3000_0000_0000;
const STRIDE: usize = 4 << 20;
/// Pages of the blocks.
const SIZES: [usize; 6] = [1, 2, 16, 48, 512, 512];

/// How often the content of a page was taken away.
#[derive(Default)]
struct Wipes {
    begun: AtomicU64,
    done: AtomicU64,
}

struct Block {
    at: usize,
    pages: Vec<Wipes>,
    /// Whether the block may be written.
    writable: Phase,
    /// Held by the thread that changes the block's mapping.
    changing: Mutex<()>,
}

/// The blocks, which all threads share.
pub struct Wiped(Vec<Block>);

/// What one thread wrote last into a page.
#[derive(Clone, Copy)]
struct Last {
    stamp: Stamp,
    /// Wipes that had ended before the write began.
    done: u64,
    /// Wipes that had begun when the write was over.
    begun: u64,
}

impl Last {
    /// Whether the word may be `found` now, when `done` wipes had ended before it was read and
    /// `begun` had begun afterwards.
    fn allows(&self, found: Stamp, done: u64, begun: u64) -> bool {
        match found {
            Stamp::ZERO => begun > self.done || self.stamp == Stamp::ZERO,
            found => found == self.stamp && done <= self.begun,
        }
    }
}

/// The last words that one thread wrote, by block and page.
pub struct Mine(Vec<Vec<Last>>);

impl Wiped {
    pub fn new() -> Result<Wiped> {
        let block = |(n, pages): (usize, usize)| {
            let at = BASE + n * STRIDE;
            map(at, pages * PAGE)?;
            Ok(Block {
                at,
                pages: (0..pages).map(|_| Wipes::default()).collect(),
                writable: Phase::open(),
                changing: Mutex::new(()),
            })
        };
        let blocks: Result<Vec<_>> = SIZES.into_iter().enumerate().map(block).collect();
        Ok(Wiped(blocks?))
    }

    pub fn mine(&self) -> Mine {
        let never = Last {
            stamp: Stamp::ZERO,
            done: 0,
            begun: 0,
        };
        let words = |block: &Block| vec![never; block.pages.len()];
        Mine(self.0.iter().map(words).collect())
    }

    pub fn step(&self, mine: &mut Mine, random: &mut Random, stamp: Stamp, seat: Seat) {
        let n = random.below(self.0.len() as u64) as usize;
        let (block, words) = (&self.0[n], &mut mine.0[n]);
        match random.below(16) {
            0..3 => block.change(random, seat),
            3..10 => block.write(words, random, stamp),
            _ => block.read(words, random, stamp),
        }
        seat.step();
    }
}

/// Maps fresh memory over whatever is there, as large folios or not.
fn map(at: usize, len: usize) -> Result<()> {
    mem::mmap(at, len, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    if !(at / STRIDE).is_multiple_of(3) {
        // A kernel without large folios refuses.
        let _ = mem::madvise(at, len, libc::MADV_HUGEPAGE);
    }
    Ok(())
}

impl Block {
    /// Changes the mapping of the block, or of a part.
    fn change(&self, random: &mut Random, seat: Seat) {
        let Ok(_changing) = self.changing.try_lock() else {
            return;
        };
        let (all, bytes) = (self.pages.len(), self.pages.len() * PAGE);
        let from = random.below(all as u64) as usize;
        let some = 1 + random.below((all - from) as u64) as usize;
        let (at, len) = (self.at + from * PAGE, some * PAGE);
        let (op, done) = match random.below(10) {
            0..3 => {
                let discard = || mem::madvise(at, len, libc::MADV_DONTNEED);
                (Op::Discard, self.wipe(from, some, discard))
            }
            3 => (Op::Map, self.wipe(0, all, || map(self.at, bytes))),
            4 => {
                let unmap = || self.writable.change(|| mem::munmap(self.at, bytes));
                let unmapped = self.wipe(0, all, unmap);
                let mapped = self.writable.change(|| map(self.at, bytes));
                (Op::Unmap, unmapped.and(mapped))
            }
            5 => {
                let protect = |prot| self.writable.change(|| mem::mprotect(self.at, bytes, prot));
                let closed = protect(libc::PROT_READ);
                std::thread::yield_now();
                (Op::Protect, closed.and(protect(RW)))
            }
            6 => (
                Op::Populate,
                mem::madvise(at, len, libc::MADV_POPULATE_READ),
            ),
            7 => (
                Op::Populate,
                mem::madvise(at, len, libc::MADV_POPULATE_WRITE),
            ),
            8 if all == 512 => {
                if mem::madvise(self.at, bytes, mem::MADV_COLLAPSE).is_err() {
                    return;
                }
                (Op::Collapse, Ok(()))
            }
            _ => {
                if !split(at, at + len) {
                    return;
                }
                (Op::Split, Ok(()))
            }
        };
        if let Err(why) = done {
            wrong(at, &format!("{why:?} of {len:#x} bytes"));
        }
        seat.count(op);
    }

    /// Runs `wipe`, which takes away the content of these pages.
    fn wipe(&self, from: usize, some: usize, wipe: impl FnOnce() -> Result<()>) -> Result<()> {
        let pages = &self.pages[from..from + some];
        pages
            .iter()
            .for_each(|page| page.begun.store(page.begun.load(SeqCst) + 1, SeqCst));
        let result = wipe();
        pages
            .iter()
            .for_each(|page| page.done.store(page.done.load(SeqCst) + 1, SeqCst));
        result
    }

    fn write(&self, words: &mut [Last], random: &mut Random, stamp: Stamp) {
        let page = random.below(self.pages.len() as u64) as usize;
        let (at, wipes) = (word(self.at + page * PAGE, stamp), &self.pages[page]);
        let done = wipes.done.load(SeqCst);
        if self
            .writable
            .access(at, || fault::store(at, stamp.0))
            .is_some()
        {
            let begun = wipes.begun.load(SeqCst);
            words[page] = Last { stamp, done, begun };
        }
    }

    fn read(&self, words: &mut [Last], random: &mut Random, stamp: Stamp) {
        let page = random.below(self.pages.len() as u64) as usize;
        let (at, wipes, last) = (
            word(self.at + page * PAGE, stamp),
            &self.pages[page],
            words[page],
        );
        let done = wipes.done.load(SeqCst);
        let Some(found) = self.writable.read(at, || fault::load(at)) else {
            return;
        };
        let begun = wipes.begun.load(SeqCst);
        if !last.allows(Stamp(found), done, begun) {
            let text = format!(
                "it has {}, the last write was {}, with {} to {} wipes before and {done} to {begun} since",
                Stamp(found),
                last.stamp,
                last.done,
                last.begun
            );
            wrong(at, &text);
        }
        // What is gone does not come back.
        words[page].stamp = Stamp(found);
    }
}

/// Splits the large folios of a range by hand, where the kernel lets us.
fn split(from: usize, end: usize) -> bool {
    let words = format!("{},{from:#x},{end:#x}", userland::sys::proc::getpid());
    std::fs::write("/sys/kernel/debug/split_huge_pages", words).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Last, Stamp};

    #[test]
    fn what_may_be_read_after_a_write() {
        let stamp = Stamp::new(7, 3, 9);
        let last = Last {
            stamp,
            done: 4,
            begun: 5,
        };
        // The fifth wipe overlapped the write.
        assert!(last.allows(stamp, 5, 5) && last.allows(Stamp::ZERO, 5, 5));
        // A sixth one came after it: it has ended, or is under way.
        assert!(last.allows(Stamp::ZERO, 6, 6) && !last.allows(stamp, 6, 6));
        assert!(last.allows(stamp, 5, 6) && last.allows(Stamp::ZERO, 5, 6));
        // No wipe since: zero is a lost write; the word of another page is wrong anyhow.
        let quiet = Last { begun: 4, ..last };
        assert!(quiet.allows(stamp, 4, 4) && !quiet.allows(Stamp::ZERO, 4, 4));
        assert!(!last.allows(Stamp::new(7, 3, 8), 5, 5));
    }
}
