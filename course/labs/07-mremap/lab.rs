//! Lab 7: mremap by whole tables. A solution moves all that a range of addresses maps to another
//! address, by the largest entries of page tables that can be moved.

use core::ops::Range;

include!(concat!(env!("OUT_DIR"), "/mremap.rs"));
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

pub use machine::Machine;

/// Entries of a page table.
pub const ENTRIES: u64 = 512;

/// The level of a page table, and of its entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// An entry is for 4 KiB: a page.
    Pte,
    /// An entry is for 2 MiB: a table of PTEs, or a leaf.
    Pmd,
    /// An entry is for 1 GiB: a table of PMD entries.
    Pud,
    /// An entry is for 512 GiB: a table of PUD entries. The table of these is the root.
    Pgd,
}

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing.
    Absent,
    /// Where the table of the next lower level is.
    Table,
    /// Where memory is: a page, or 2 MiB. A table that other processes have, too, is also one.
    Leaf,
}

/// There is no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// The page tables of a space, which is locked, while CPUs use them.
pub trait Tables {
    /// The highest level of which entries may move whole.
    fn most(&self) -> Level;
    /// What the entry of a level for an address says, hidden or not; `Absent` where there is no
    /// table that has such an entry.
    fn entry(&self, level: Level, at: u64) -> Entry;
    /// Whether all entries of a level for a range are absent. They are of one table.
    fn is_absent(&self, level: Level, range: &Range<u64>) -> bool;
    /// Makes the table that has the entry of a level for an address, and those above it, where
    /// there are none.
    fn make(&mut self, level: Level, to: u64) -> Result<(), NoMemory>;
    /// Replaces the PMD leaf for an address by a table of 512 PTEs.
    fn split(&mut self, at: u64) -> Result<(), NoMemory>;
    /// Hides the entries of a level for a range from the CPUs. They are of one table, and stay
    /// there.
    fn hide(&mut self, level: Level, range: &Range<u64>);
    /// Drops what the TLB of any CPU holds of what is hidden.
    fn flush(&mut self);
    /// Moves the entries of a level for a range to another address, where they are seen again. They
    /// are of one table, and go to one.
    fn carry(&mut self, level: Level, range: &Range<u64>, to: u64);
    /// Frees the tables for a range that hold nothing.
    fn free_empty(&mut self, range: &Range<u64>);
}

lab! {
    /// A solution.
    pub trait Mover {
        /// Moves all that `from` maps to the addresses from `to` on, where nothing is mapped. The
        /// two do not overlap. `Err`: all is where it was.
        fn move_range(
            &self,
            tables: &mut dyn Tables,
            from: Range<u64>,
            to: u64
        ) -> Result<(), NoMemory>;
    }
}

impl Level {
    /// What an entry is for.
    pub fn bytes(self) -> u64 {
        4096 * ENTRIES.pow(self as u32)
    }
    /// The next lower one.
    pub fn below(self) -> Option<Level> {
        match self {
            Level::Pte => None,
            Level::Pmd => Some(Level::Pte),
            Level::Pud => Some(Level::Pmd),
            Level::Pgd => Some(Level::Pud),
        }
    }
}
