//! Blocks of pages with two homes each, between which mremap moves them while all threads write:
//! each write lands in the moved page, or faults.
use crate::board::{Op, Seat};
use crate::page::{Stamp, wrong};
use crate::phase::Phase;
use crate::race::word;
use std::sync::Mutex;
use userland::random::Random;
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::{Result, fault};

/// A place that nothing else uses.
const BASE: usize = 0x2000_0000_0000;
/// From one home to the next, in bytes: a PMD leaf fits, and a hole remains.
const STRIDE: usize = 4 << 20;
/// Pages of the blocks: single ones, a contiguous block of arm64, a PMD leaf.
pub const SIZES: [usize; 8] = [1, 1, 3, 16, 16, 40, 512, 512];

struct Block {
    pages: usize,
    homes: [(usize, Phase); 2],
    /// Held by the thread that moves it.
    moving: Mutex<()>,
}

/// The blocks, which all threads share.
pub struct Moved(Vec<Block>);

/// The last words that one thread wrote, by block and page.
pub struct Mine(Vec<Vec<Stamp>>);

impl Moved {
    pub fn new() -> Result<Moved> {
        let block = |(n, pages): (usize, usize)| {
            let home = |side: usize| BASE + (2 * n + side) * STRIDE;
            let at = mem::mmap(home(0), pages * PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
            // A kernel without large folios refuses.
            let _ = mem::madvise(at, pages * PAGE, libc::MADV_HUGEPAGE);
            Ok(Block {
                pages,
                homes: [(home(0), Phase::open()), (home(1), Phase::closed())],
                moving: Mutex::new(()),
            })
        };
        let blocks: Result<Vec<_>> = SIZES.into_iter().enumerate().map(block).collect();
        Ok(Moved(blocks?))
    }

    pub fn mine(&self) -> Mine {
        let zeros = |block: &Block| vec![Stamp::ZERO; block.pages];
        Mine(self.0.iter().map(zeros).collect())
    }

    pub fn step(&self, mine: &mut Mine, random: &mut Random, stamp: Stamp, seat: Seat) {
        let n = random.below(self.0.len() as u64) as usize;
        let (block, words) = (&self.0[n], &mut mine.0[n]);
        match random.below(16) {
            0 => block.carry(random, seat),
            1..9 => block.write(words, random, stamp),
            _ => block.read(words, random, stamp),
        }
        seat.step();
    }
}

impl Block {
    /// Moves the block to its other home.
    fn carry(&self, random: &mut Random, seat: Seat) {
        let Ok(_moving) = self.moving.try_lock() else {
            return;
        };
        let from = usize::from(!self.homes[0].1.is_open());
        let ((old, here), (new, there)) = (&self.homes[from], &self.homes[1 - from]);
        let len = self.pages * PAGE;
        if self.pages == 512
            && random.one_in(4)
            && mem::madvise(*old, len, mem::MADV_COLLAPSE).is_ok()
        {
            seat.count(Op::Collapse);
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let moved = here.change(|| there.change(|| mem::mremap(*old, len, len, flags, *new)));
        if moved != Ok(*new) {
            wrong(*old, &format!("mremap gives {moved:?}"));
        }
        seat.count(Op::Move);
    }

    /// Writes at a home, which may not be the right one.
    fn write(&self, words: &mut [Stamp], random: &mut Random, stamp: Stamp) {
        let page = random.below(self.pages as u64) as usize;
        let (home, phase) = &self.homes[random.below(2) as usize];
        let at = word(home + page * PAGE, stamp);
        if phase.access(at, || fault::store(at, stamp.0)).is_some() {
            words[page] = stamp;
        }
    }

    /// Finds this thread's word at one of the homes.
    fn read(&self, words: &[Stamp], random: &mut Random, stamp: Stamp) {
        let page = random.below(self.pages as u64) as usize;
        loop {
            for (home, phase) in &self.homes {
                let at = word(home + page * PAGE, stamp);
                let Some(found) = phase.access(at, || fault::load(at)) else {
                    continue;
                };
                if Stamp(found) != words[page] {
                    let text = format!("it has {}, not {}", Stamp(found), words[page]);
                    wrong(at, &text);
                }
                return;
            }
            // On its way.
            std::thread::yield_now();
        }
    }
}
