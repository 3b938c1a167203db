//! The hash table: open addressing with linear probing, three of four slots used.
use crate::sum::Sum;
use userland::sys::Result;
use userland::sys::mem::{self, ANON, PAGE, RW};

/// Words of a slot: the key, 0 where there is none, and its value. 64 bytes.
pub const WORDS: usize = 8;
const SLOT: usize = 8 * WORDS;

/// A table in a mapping of its own.
pub struct Store {
    at: usize,
    slots: usize,
}

impl Store {
    /// A table of so many MiB with all of its keys, each in its version 0.
    pub fn new(mib: usize) -> Result<Store> {
        let len = mib << 20;
        let at = mem::mmap(0, len, RW, ANON, -1, 0)?;
        // Written first: where an empty slot is read before, the zero page is mapped, and no large
        // folio comes in its place.
        (at..at + len)
            .step_by(PAGE)
            .for_each(|page| mem::fill_page(page, 0));
        let store = Store {
            at,
            slots: len / SLOT,
        };
        (1..=store.keys()).for_each(|key| store.set(key, 0));
        Ok(store)
    }

    /// The keys are 1 to this.
    pub fn keys(&self) -> u64 {
        self.slots as u64 / 4 * 3
    }

    /// Writes a version of a key: eight words next to each other, found by its hash.
    #[inline(never)]
    pub fn set(&self, key: u64, version: u64) {
        let at = self.slot(key);
        mem::store(at, key);
        for word in 1..WORDS {
            mem::store(at + 8 * word, value(key, version, word));
        }
    }

    /// Whether a key is in that version.
    pub fn is(&self, key: u64, version: u64) -> bool {
        let at = self.slot(key);
        mem::load(at) == key
            && (1..WORDS).all(|word| mem::load(at + 8 * word) == value(key, version, word))
    }

    /// Where a key is, or where it goes.
    fn slot(&self, key: u64) -> usize {
        let mut place = mix(key) as usize % self.slots;
        loop {
            let at = self.at + place * SLOT;
            let found = mem::load(at);
            if found == key || found == 0 {
                return at;
            }
            place = (place + 1) % self.slots;
        }
    }

    /// Calls `f` with the words of each key that there is, in the order in which they lie.
    pub fn each(&self, mut f: impl FnMut([u64; WORDS]) -> Result<()>) -> Result<()> {
        for at in (self.at..).step_by(SLOT).take(self.slots) {
            if mem::load(at) != 0 {
                f(std::array::from_fn(|word| mem::load(at + 8 * word)))?;
            }
        }
        Ok(())
    }

    /// The sum over all that is written out of it.
    pub fn sum(&self) -> Result<Sum> {
        let mut sum = Sum::default();
        self.each(|words| {
            words.iter().for_each(|word| sum.add(*word));
            Ok(())
        })?;
        Ok(sum)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = mem::munmap(self.at, self.slots * SLOT);
    }
}

/// What a word of a key's value is.
fn value(key: u64, version: u64, word: usize) -> u64 {
    mix(key ^ version << 40) ^ word as u64
}

/// splitmix64's finisher.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
