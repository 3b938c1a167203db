//! The small numbers that address spaces are known by in the account.

use crate::MmId;

const WORDS: usize = (MmId::LAST as usize + 1) / 64;

/// Which ids are free. The lowest free one is handed out first, so that ids stay small; both directions take a fixed number
/// of steps. An id goes back only after the last mapping of its owner is gone: after its last flush.
pub struct Ids {
    /// One bit for each id that somebody has, and for 0, which nobody gets.
    taken: [u64; WORDS],
    /// One bit for each full word of `taken`.
    full: [u64; WORDS / 64],
    count: usize,
}

impl Default for Ids {
    fn default() -> Self {
        Self::new()
    }
}

impl Ids {
    /// All 32767 ids are free.
    pub const fn new() -> Self {
        let mut taken = [0; WORDS];
        taken[0] = 1;
        Ids {
            taken,
            full: [0; WORDS / 64],
            count: 0,
        }
    }

    /// The lowest free id; `None` when all are taken.
    pub fn take(&mut self) -> Option<MmId> {
        let group = self.full.iter().position(|f| *f != u64::MAX)?;
        let word = group * 64 + self.full[group].trailing_ones() as usize;
        let bit = self.taken[word].trailing_ones() as usize;
        self.taken[word] |= 1 << bit;
        if self.taken[word] == u64::MAX {
            self.full[group] |= 1 << (word % 64);
        }
        self.count += 1;
        Some(MmId((word * 64 + bit) as u16))
    }

    /// Gives an id back. One that nobody has is our own mistake and panics.
    pub fn give(&mut self, id: MmId) {
        assert!(self.has(id), "{id:?} is given back and nobody has it");
        let (word, bit) = (id.0 as usize / 64, id.0 % 64);
        self.taken[word] &= !(1 << bit);
        self.full[word / 64] &= !(1 << (word % 64));
        self.count -= 1;
    }

    /// Whether somebody has the id.
    pub fn has(&self, id: MmId) -> bool {
        id.0 != 0 && self.taken[id.0 as usize / 64] >> (id.0 % 64) & 1 != 0
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_one_comes_first() {
        let mut ids = Ids::new();
        let first: [_; 70] = core::array::from_fn(|_| ids.take().unwrap().0);
        assert_eq!(first, core::array::from_fn(|i| i as u16 + 1));
        [5, 64, 3].into_iter().for_each(|id| ids.give(MmId(id)));
        assert_eq!(
            [3, 5, 64, 71].map(|_| ids.take().unwrap().0),
            [3, 5, 64, 71]
        );
        assert_eq!(ids.count(), 71);
    }

    #[test]
    fn there_are_32767_and_zero_is_none_of_them() {
        let mut ids = Ids::new();
        for id in 1..=MmId::LAST {
            assert_eq!(ids.take(), Some(MmId(id)));
        }
        assert_eq!(ids.take(), None);
        assert!(!ids.has(MmId(0)));
        ids.give(MmId(20000));
        assert_eq!([ids.take(), ids.take()], [Some(MmId(20000)), None]);
    }

    #[test]
    #[should_panic(expected = "nobody has it")]
    fn twice_is_once_too_often() {
        let mut ids = Ids::new();
        let id = ids.take().unwrap();
        ids.give(id);
        ids.give(id);
    }

    #[test]
    #[should_panic(expected = "nobody has it")]
    fn zero_is_not_given_back() {
        Ids::new().give(MmId(0));
    }
}
