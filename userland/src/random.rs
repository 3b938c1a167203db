//! Random numbers with a seed: the same seed makes the same calls.

/// Marsaglia's xorshift of 64 bits, multiplied (Vigna, "An experimental exploration of Marsaglia's
/// xorshift generators, scrambled", 2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Any seed will do; adjacent seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        // One step of splitmix64: the state must not be 0.
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((z ^ (z >> 31)) | 1)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.bits() >> 16) % n.max(1)
    }

    /// True once in `n` calls.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_seeds_differ() {
        let row = |seed| {
            let mut r = Random::new(seed);
            [r.bits(), r.bits(), r.bits()]
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
        assert_ne!(row(0), [0; 3]);
        let mut r = Random::new(7);
        assert!((0..1000).all(|_| r.below(10) < 10));
    }
}
