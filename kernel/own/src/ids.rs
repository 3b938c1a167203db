//! The ids of address spaces in the account.

use crate::MmId;

const WORDS: usize = (MmId::COMMON.0 as usize + 1) / 64;

/// Which ids are free. The lowest free one is handed out first, so that ids stay small; both
/// directions take a fixed number of steps. An id goes back only after the last mapping of its
/// owner is gone: after its last flush.
///
/// When all ids are taken the next address spaces share one, [`MmId::COMMON`].
pub struct Ids {
    /// One bit for each id that one space has, and for 0, which no space gets.
    taken: [u64; WORDS],
    /// One bit for each full word of `taken`.
    full: [u64; WORDS / 64],
    /// Spaces with an id of their own.
    unique: usize,
    /// Spaces with the common one.
    common: usize,
}

impl Default for Ids {
    fn default() -> Self {
        Self::new()
    }
}

impl Ids {
    /// The most address spaces at a time, so that all of them together do not bring the number of
    /// references of a folio to half of what a word can hold: a folio of 16 pages that all of them
    /// map has 983,040 references, its word holds 2^21 ([`crate::unified`]; `proof/coq`).
    pub const MOST: usize = 61_440;

    /// All ids are free.
    pub const fn new() -> Self {
        let mut taken = [0; WORDS];
        taken[0] = 1;
        // Nor does any space get this one for itself.
        taken[WORDS - 1] = 1 << 63;
        Ids {
            taken,
            full: [0; WORDS / 64],
            unique: 0,
            common: 0,
        }
    }

    /// The lowest free id of 1..=`last`, at most [`MmId::LAST`]; when there is none,
    /// [`MmId::COMMON`], which others may have, too. `None` when there are [`Ids::MOST`] address
    /// spaces.
    pub fn take(&mut self, last: u16) -> Option<MmId> {
        if self.count() == Self::MOST {
            return None;
        }
        let Some(id) = self.lowest_free().filter(|id| id.0 <= last) else {
            self.common += 1;
            return Some(MmId::COMMON);
        };
        let (word, bit) = (id.0 as usize / 64, id.0 % 64);
        self.taken[word] |= 1 << bit;
        if self.taken[word] == u64::MAX {
            self.full[word / 64] |= 1 << (word % 64);
        }
        self.unique += 1;
        Some(id)
    }

    fn lowest_free(&self) -> Option<MmId> {
        let group = self.full.iter().position(|f| *f != u64::MAX)?;
        let word = group * 64 + self.full[group].trailing_ones() as usize;
        let bit = self.taken[word].trailing_ones() as usize;
        Some(MmId((word * 64 + bit) as u16))
    }

    /// Gives an id back, for one of the spaces that have it. Panics for an id that no space has,
    /// which is a bug.
    pub fn give(&mut self, id: MmId) {
        assert!(self.has(id), "{id:?} is given back and nobody has it");
        if id == MmId::COMMON {
            self.common -= 1;
            return;
        }
        let (word, bit) = (id.0 as usize / 64, id.0 % 64);
        self.taken[word] &= !(1 << bit);
        self.full[word / 64] &= !(1 << (word % 64));
        self.unique -= 1;
    }

    /// Whether a space has the id.
    pub fn has(&self, id: MmId) -> bool {
        if id == MmId::COMMON {
            return self.common != 0;
        }
        id.0 != 0 && self.taken[id.0 as usize / 64] >> (id.0 % 64) & 1 != 0
    }

    /// How many address spaces have an id.
    pub fn count(&self) -> usize {
        self.unique + self.common
    }

    /// How many of them share [`MmId::COMMON`].
    pub fn common(&self) -> usize {
        self.common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(ids: &mut Ids) -> u16 {
        ids.take(MmId::LAST).expect("few spaces").0
    }

    #[test]
    fn the_lowest_free_one_comes_first() {
        let mut ids = Ids::new();
        let first: [_; 70] = core::array::from_fn(|_| take(&mut ids));
        assert_eq!(first, core::array::from_fn(|i| i as u16 + 1));
        [5, 64, 3].into_iter().for_each(|id| ids.give(MmId(id)));
        assert_eq!([3, 5, 64, 71].map(|_| take(&mut ids)), [3, 5, 64, 71]);
        assert_eq!((ids.count(), ids.common()), (71, 0));
    }

    #[test]
    fn there_are_32766_and_then_one_for_all() {
        let mut ids = Ids::new();
        for id in 1..=MmId::LAST {
            assert_eq!(take(&mut ids), id);
        }
        assert!(!ids.has(MmId::COMMON) && !ids.has(MmId(0)));
        assert_eq!([0, 1].map(|_| take(&mut ids)), [32767, 32767]);
        assert_eq!((ids.count(), ids.common()), (32768, 2));
        // What comes back is handed out before the common one.
        ids.give(MmId(20000));
        assert_eq!([take(&mut ids), take(&mut ids)], [20000, 32767]);
        (0..3).for_each(|_| ids.give(MmId::COMMON));
        assert!(!ids.has(MmId::COMMON) && ids.has(MmId(MmId::LAST)));
        assert_eq!((ids.count(), ids.common()), (32766, 0));
    }

    #[test]
    fn fewer_may_be_unique() {
        let mut ids = Ids::new();
        let some: [_; 4] = core::array::from_fn(|_| ids.take(2).expect("few spaces").0);
        assert_eq!(some, [1, 2, 32767, 32767]);
        ids.give(MmId(1));
        assert_eq!(ids.take(2), Some(MmId(1)));
        assert_eq!(ids.take(0), Some(MmId::COMMON));
    }

    /// The proofs in `proof/coq` are about as many spaces, and the same id.
    #[test]
    fn the_proofs_have_the_same_numbers() {
        let proofs = include_str!("../../../proof/coq/Common.v");
        let most = std::format!("(fun s => 0 <= s <= {}) spaces", Ids::MOST);
        let common = std::format!("Definition common : Z := {}.", MmId::COMMON.get());
        assert!(proofs.contains(&most) && proofs.contains(&common));
    }

    #[test]
    fn there_is_an_end() {
        let mut ids = Ids::new();
        let all = core::iter::from_fn(|| ids.take(MmId::LAST)).count();
        assert_eq!((all, ids.common()), (61_440, 61_440 - 32_766));
        ids.give(MmId::COMMON);
        assert_eq!(ids.take(MmId::LAST), Some(MmId::COMMON));
    }

    #[test]
    #[should_panic(expected = "nobody has it")]
    fn twice_is_once_too_often() {
        let mut ids = Ids::new();
        let id = ids.take(MmId::LAST).expect("an id");
        ids.give(id);
        ids.give(id);
    }

    #[test]
    #[should_panic(expected = "nobody has it")]
    fn the_common_one_is_counted() {
        let mut ids = Ids::new();
        ids.take(0);
        ids.give(MmId::COMMON);
        ids.give(MmId::COMMON);
    }

    #[test]
    #[should_panic(expected = "nobody has it")]
    fn zero_is_not_given_back() {
        Ids::new().give(MmId(0));
    }
}
