//! A small seeded generator (xorshift64*, Vigna 2014): the same seed gives the same numbers.

use std::sync::atomic::{AtomicU64, Ordering};

pub struct Rng(AtomicU64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }
    pub fn next(&self) -> u64 {
        let mut x = self.0.load(Ordering::Relaxed);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.store(x, Ordering::Relaxed);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// True once in `n` times.
    pub fn one_in(&self, n: u64) -> bool {
        n != 0 && (self.next() >> 33).is_multiple_of(n)
    }
    /// A number below `n`.
    pub fn below(&self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
}
