//! A lock that is one bit of a word whose other bits it may cover.

use crate::atomic::{AtomicU32, Ordering};
use crate::contention;
use crate::ranks::{ranks, spin};

/// Holds a lock that is a bit of a word; unlocks on drop.
#[must_use]
#[derive(Debug)]
pub struct BitGuard<'a, const RANK: u8> {
    word: &'a AtomicU32,
    bit: u32,
}

impl<'a, const RANK: u8> BitGuard<'a, RANK> {
    /// Takes the lock, spinning until the bit is clear. The other bits change only by the holder.
    #[inline]
    pub fn lock(word: &'a AtomicU32, bit: u32) -> Self {
        ranks(|held| held.take(RANK));
        if !take(word, bit) {
            wait(word, bit, RANK);
        }
        BitGuard { word, bit }
    }
}

#[inline]
fn take(word: &AtomicU32, bit: u32) -> bool {
    let open = word.load(Ordering::Relaxed) & !bit;
    // Acquire pairs with the release in `drop`.
    let was = word.compare_exchange(open, open | bit, Ordering::Acquire, Ordering::Relaxed);
    was.is_ok()
}

#[cold]
fn wait(word: &AtomicU32, bit: u32, rank: u8) {
    let mut spins = 0;
    while word.load(Ordering::Relaxed) & bit != 0 || !take(word, bit) {
        spin(rank, spins);
        spins += 1;
    }
    contention::count(rank, spins);
}

impl<const RANK: u8> Drop for BitGuard<'_, RANK> {
    #[inline]
    fn drop(&mut self) {
        ranks(|held| held.leave(RANK));
        self.word.fetch_and(!self.bit, Ordering::Release);
    }
}
