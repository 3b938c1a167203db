//! Lab 4: the contiguous bit. A solution folds 16 entries into one translation, takes them apart
//! again, and knows whether their memory was used.

use core::ops::Range;

include!(concat!(env!("OUT_DIR"), "/contpte.rs"));
#[cfg(feature = "answer")]
#[path = "answer/solution.rs"]
mod answer_key;
#[path = "mutants.rs"]
mod broken_solutions;
#[cfg(feature = "answer")]
#[path = "answer/held_back.rs"]
mod held_back;
mod machine;
mod public;
pub mod referee;

pub use machine::{Machine, entries};

/// Entries of a block: 64 KiB.
pub const ENTRIES: usize = 16;

/// A valid entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The number of the frame that it maps.
    pub frame: u64,
    /// What the page may be used for, and what type of memory it is. Only whether two entries have
    /// the same matters.
    pub rights: u32,
    /// The contiguous bit.
    pub contiguous: bool,
    /// Whether and how the page was used.
    pub used: Used,
}

/// The bits that the hardware sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// It was read or written.
    pub accessed: bool,
    /// It was written.
    pub dirty: bool,
}

/// 16 aligned entries of a page table, which CPUs are using. Their indices are 0 to 15.
pub trait Block {
    /// What an entry says; nothing where it is absent.
    fn read(&self, index: usize) -> Option<Entry>;
    /// The frames of the folio that this frame belongs to.
    fn folio(&self, frame: u64) -> Range<u64>;
}

/// The same, to be changed. The space is locked: but for the hardware, nobody else changes it.
pub trait Change: Block {
    /// Makes an entry absent; returns what it said last. In one step: what the hardware has set
    /// until then is in it.
    fn take(&mut self, index: usize) -> Option<Entry>;
    /// Writes an entry, whatever was there.
    fn write(&mut self, index: usize, entry: Entry);
    /// Drops what the TLB of any CPU holds for these 64 KiB.
    fn flush(&mut self);
}

lab! {
    /// A solution.
    pub trait Contpte {
        /// Whether this block, which is not folded, may be.
        fn may_fold(&self, block: &dyn Block) -> bool;
        /// Folds a block that may be.
        fn fold(&self, block: &mut dyn Change);
        /// Takes a folded block apart.
        fn unfold(&self, block: &mut dyn Change);
        /// How the memory of a folded block was used.
        fn used(&self, block: &dyn Block) -> Used;
    }
}

impl Used {
    /// What either of the two says.
    pub fn or(self, other: Used) -> Used {
        Used {
            accessed: self.accessed | other.accessed,
            dirty: self.dirty | other.dirty,
        }
    }
}
