//! One set-associative cache: which lines it holds, and which of them are modified.
//!
//! Replacement is LRU in each set, exactly. The cores of the presets have tree-PLRU or policies
//! that are not published; LRU stands for all of them. The words of a set are kept in the order of
//! their use, so that the line that was used last is found by one comparison.

use crate::config::{BadPreset, CacheShape, sets};

/// Bytes of a line as a power of two.
pub const LINE_SHIFT: u32 = 6;

const PRESENT: u64 = 1;
const MODIFIED: u64 = 2;

/// A line that was taken out of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its physical address divided by the size of a line.
    pub number: u64,
    /// Whether memory has not got its contents yet.
    pub modified: bool,
}

/// A cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// For each set its lines, the last used first: number, [`MODIFIED`], [`PRESENT`]; 0: none.
    words: Vec<u64>,
    ways: usize,
    sets: u64,
    /// `sets - 1`, if that is a mask.
    mask: Option<u64>,
}

impl Cache {
    /// An empty cache; `what` names it in the error.
    pub fn new(what: &str, shape: CacheShape) -> Result<Self, BadPreset> {
        let sets = sets(what, shape.bytes >> LINE_SHIFT, shape.ways)? as u64;
        let ways = shape.ways as usize;
        Ok(Self {
            words: vec![0; sets as usize * ways],
            ways,
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
        })
    }

    #[inline]
    fn first(&self, number: u64) -> usize {
        let set = match self.mask {
            Some(mask) => number & mask,
            None => number % self.sets,
        };
        set as usize * self.ways
    }

    #[inline]
    fn set(&mut self, number: u64) -> &mut [u64] {
        let first = self.first(number);
        &mut self.words[first..first + self.ways]
    }

    /// Fast path: whether the line is the one of its set that was used last; with `write`, and is
    /// modified. Then nothing changes by its use.
    #[inline]
    pub fn is_first(&self, number: u64, write: bool) -> bool {
        let word = self.words[self.first(number)];
        if write {
            word == number << 2 | MODIFIED | PRESENT
        } else {
            word | MODIFIED == number << 2 | MODIFIED | PRESENT
        }
    }

    /// Uses a line: whether it is there, and if so, whether it is modified.
    pub fn find(&mut self, number: u64) -> Option<bool> {
        let set = self.set(number);
        let way = position(set, number)?;
        set[..=way].rotate_right(1);
        Some(set[0] & MODIFIED != 0)
    }

    /// The same without use.
    pub fn peek(&self, number: u64) -> Option<bool> {
        let first = self.first(number);
        let set = &self.words[first..first + self.ways];
        position(set, number).map(|way| set[way] & MODIFIED != 0)
    }

    /// Puts in a line that is not there, as the last used; returns the one that had to go.
    pub fn insert(&mut self, line: Line) -> Option<Line> {
        let set = self.set(line.number);
        debug_assert!(position(set, line.number).is_none());
        let way = set
            .iter()
            .position(|&word| word == 0)
            .unwrap_or(set.len() - 1);
        let gone = set[way];
        set[..=way].rotate_right(1);
        set[0] = line.number << 2 | if line.modified { MODIFIED } else { 0 } | PRESENT;
        (gone != 0).then_some(Line {
            number: gone >> 2,
            modified: gone & MODIFIED != 0,
        })
    }

    /// Marks a line as modified or clean, without use; whether it is there.
    pub fn mark(&mut self, number: u64, modified: bool) -> bool {
        let set = self.set(number);
        let Some(way) = position(set, number) else {
            return false;
        };
        set[way] = number << 2 | if modified { MODIFIED } else { 0 } | PRESENT;
        true
    }

    /// Takes a line out: whether it was there, and if so, whether it was modified.
    pub fn remove(&mut self, number: u64) -> Option<bool> {
        let set = self.set(number);
        let way = position(set, number)?;
        let modified = set[way] & MODIFIED != 0;
        set[way] = 0;
        Some(modified)
    }

    /// The lines that it holds, in no order.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        let held = self.words.iter().filter(|&&word| word != 0);
        held.map(|&word| Line {
            number: word >> 2,
            modified: word & MODIFIED != 0,
        })
    }
}

#[inline]
fn position(set: &[u64], number: u64) -> Option<usize> {
    let wanted = number << 2 | MODIFIED | PRESENT;
    set.iter().position(|&word| word | MODIFIED == wanted)
}
