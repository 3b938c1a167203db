//! A lock that is one bit of a word whose other bits it may cover, and counts its turns: who has
//! looked at what it covers without it finds out whether that is still so. There is no room for
//! tickets in the word, so it is not fair: it goes to whoever finds it open, and is for what is
//! soon done.
//!
//! ```text
//!   turn = now
//!   look at what the lock covers
//!   prepare the change
//!   lock; its turn is still that one: nobody had the lock, what was seen is so
//! ```

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::contention;
use crate::mutant::{self, Mutant};
use crate::ranks::{self, ranks};

/// How often a lock was given up, in the upper bits of a word whose lower ones are the holder's.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a> {
    word: &'a AtomicU64,
    /// A power of two: the lowest of the upper bits.
    one: u64,
}

impl<'a> Turns<'a> {
    /// Those above the bits of `one - 1`.
    #[inline(always)]
    pub fn new(word: &'a AtomicU64, one: u64) -> Self {
        Turns { word, one }
    }
    /// The turn, to be compared with a later one.
    #[inline(always)]
    pub fn now(self) -> u64 {
        // Acquire pairs with the release in `pass`: what is read from now on is from this turn or
        // from a later one.
        self.word.load(Ordering::Acquire) / self.one
    }
    /// The next turn begins; the lock is held.
    #[inline(always)]
    fn pass(self) {
        let word = self.word.load(Ordering::Relaxed);
        self.word
            .store(word.wrapping_add(self.one), Ordering::Release);
    }
}

/// Holds a lock that is a bit of a word; unlocks on drop.
#[must_use]
#[derive(Debug)]
pub struct BitGuard<'a, const RANK: u8> {
    word: &'a AtomicU32,
    bit: u32,
    turns: Turns<'a>,
}

impl<'a, const RANK: u8> BitGuard<'a, RANK> {
    /// Takes the lock, spinning until the bit is clear. The other bits change only by the holder.
    #[inline]
    pub fn lock(word: &'a AtomicU32, bit: u32, turns: Turns<'a>) -> Self {
        ranks(|held| held.take(RANK));
        if !take(word, bit) {
            wait(word, bit, RANK);
        }
        BitGuard { word, bit, turns }
    }
    /// Whether nobody had the lock since [`Turns::now`] was `turn`.
    #[inline(always)]
    pub fn is_turn(&self, turn: u64) -> bool {
        self.turns.now() == turn
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
    contention::begin(rank);
    let looks = ranks::wait(rank, &mut || {
        word.load(Ordering::Relaxed) & bit == 0 && take(word, bit)
    });
    contention::end(rank, looks);
}

impl<const RANK: u8> Drop for BitGuard<'_, RANK> {
    #[inline]
    fn drop(&mut self) {
        ranks(|held| held.leave(RANK));
        if !mutant::on(Mutant::TurnNotCounted) {
            self.turns.pass();
        }
        self.word.fetch_and(!self.bit, Ordering::Release);
    }
}
