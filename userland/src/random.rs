//! Random numbers with a seed: the same seed makes the same calls.
use crate::sys::mem::PAGE;

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

/// The contents of a page at this address: records as on a heap, of a text of 16 bytes, a pointer
/// nearby and a length; then as many random bytes.
pub fn page(at: usize) -> [u64; PAGE / 8] {
    const TEXTS: &[u8; 128] = b"GET /index.html Content-Length: text/html; utf-8User-Agent: curl\
                                Set-Cookie: sid=Accept: */*     Cache-Control:  Connection: keep";
    let mut random = Random::new((at / PAGE) as u64);
    let mut words = [0; PAGE / 8];
    let (heap, noise) = words.split_at_mut(PAGE / 16);
    for record in heap.chunks_exact_mut(4) {
        let bits = random.bits();
        let text = (bits >> 60) as usize % 8 * 16;
        for (word, bytes) in record.iter_mut().zip(TEXTS[text..].chunks_exact(8)).take(2) {
            *word = u64::from_ne_bytes(std::array::from_fn(|i| bytes[i]));
        }
        record[2] = at as u64 & !0xf_ffff | bits & 0xffff0;
        record[3] = bits >> 32 & 0x7f;
    }
    noise.fill_with(|| random.bits());
    words
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
