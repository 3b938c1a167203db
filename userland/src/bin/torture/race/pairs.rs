//! fork while other threads write: the child sees what a page was at one moment, and nothing that
//! is written later.
use crate::board::{Op, Seat};
use crate::page::{Stamp, wrong};
use userland::random::Random;
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result};

const BASE: usize = 0x5000_0000_0000;
/// Pages of one thread.
const PAGES: usize = 24;
/// Looks of a child at all pages.
const LOOKS: usize = 3;

/// The first and the last word of a page.
type Pair = (u64, u64);

/// Pages of which each has a writer. It writes a number to the first word, then to the last one.
pub struct Pairs {
    pages: usize,
}

/// The thread's own pages, and the number it wrote last.
pub struct Mine {
    first: usize,
    number: u64,
}

impl Pairs {
    pub fn new(threads: usize) -> Result<Pairs> {
        let pages = threads * PAGES;
        let at = mem::mmap(BASE, pages * PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
        // A kernel without large folios refuses.
        let _ = mem::madvise(at, pages * PAGE, libc::MADV_HUGEPAGE);
        Ok(Pairs { pages })
    }

    pub fn mine(&self, thread: usize) -> Mine {
        Mine {
            first: thread * PAGES,
            number: 0,
        }
    }

    fn at(page: usize) -> usize {
        BASE + page * PAGE
    }

    /// First and last word. The last is read first, so that a living page cannot seem torn.
    fn pair(page: usize) -> Pair {
        let last = mem::load(Self::at(page) + PAGE - 8);
        (mem::load(Self::at(page)), last)
    }

    pub fn step(&self, mine: &mut Mine, random: &mut Random, seat: Seat) {
        if random.one_in(64) {
            self.fork(seat);
        }
        for _ in 0..8 {
            mine.number += 1;
            let page = Self::at(mine.first + random.below(PAGES as u64) as usize);
            mem::store(page, mine.number);
            mem::store(page + PAGE - 8, mine.number);
        }
        seat.step();
    }

    fn fork(&self, seat: Seat) {
        let before: Vec<u64> = (0..self.pages).map(|page| Self::pair(page).1).collect();
        let mut seen = vec![(0, 0); self.pages];
        match proc::fork() {
            Ok(Fork::Child) => {
                self.look(&before, &mut seen);
                proc::exit_now(0)
            }
            Ok(Fork::Parent(pid)) => match proc::wait_for(pid) {
                Ok(Status::Exited(0)) => seat.count(Op::Fork),
                how => wrong(BASE, &format!("child {pid} ended with {how:?}")),
            },
            Err(Errno(libc::EAGAIN)) => {}
            Err(why) => wrong(BASE, &format!("fork gives {why:?}")),
        }
    }

    /// What the child does: the parent's threads write on.
    fn look(&self, before: &[u64], seen: &mut [Pair]) {
        for (page, pair) in seen.iter_mut().enumerate() {
            *pair = Self::pair(page);
            let (first, last) = *pair;
            if first < last || last < before[page] {
                let text = format!(
                    "torn: {first}, {last}, and at least {} before",
                    before[page]
                );
                wrong(Self::at(page), &text);
            }
        }
        for _ in 0..LOOKS {
            std::thread::yield_now();
            for (page, pair) in seen.iter().enumerate() {
                let now = Self::pair(page);
                if now != *pair {
                    let text = format!("a child sees {now:?} after {pair:?}");
                    wrong(Self::at(page), &text);
                }
            }
            // Its own copies are its own.
            let page = (seen[0].0 as usize + LOOKS) % seen.len();
            let mark = Stamp::new(proc::getpid() as u32, 0, 0).0;
            mem::store(Self::at(page), mark);
            mem::store(Self::at(page) + PAGE - 8, mark);
            seen[page] = (mark, mark);
        }
    }
}
