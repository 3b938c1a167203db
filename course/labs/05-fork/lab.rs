//! Lab 5: fork in batches. A solution copies the entries of a page table of the parent to the
//! child's, shares what may be shared, and copies what may not.

use core::ops::Range;

include!(concat!(env!("OUT_DIR"), "/fork.rs"));
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

/// Entries of a page table: 2 MiB.
pub const ENTRIES: usize = 512;

/// A valid entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The number of the frame that it maps.
    pub frame: u64,
    /// Whether programs may write to the page without a fault.
    pub writable: bool,
}

/// A folio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folio {
    /// Its frames. Any of them may be mapped, at any place.
    pub frames: Range<u64>,
    /// A device reads or writes a page of it, by the number of its frame.
    pub pinned: bool,
}

/// There is no memory for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// A page table of the parent, and the child's in the same place. Both spaces are locked; the
/// parent's threads run, and use what the entries allow.
pub trait Tables {
    /// What an entry of the parent says; nothing where it is absent.
    fn read(&self, index: usize) -> Option<Entry>;
    /// The folio that a frame belongs to.
    fn folio(&self, frame: u64) -> Folio;
    /// Gives the child a reference to each of the pages that `n` entries from `index` on map: pages
    /// of one folio, one after the other. One atomic update, whatever `n` is.
    fn refer(&mut self, index: usize, n: usize);
    /// Takes the right to write from `n` entries of the parent.
    fn protect(&mut self, index: usize, n: usize);
    /// Writes `n` entries of the child: what the parent's say now.
    fn copy(&mut self, index: usize, n: usize);
    /// Copies the page that an entry maps to a new one, and maps that in the child, with the rights
    /// of the parent's entry. Or nothing happens, for want of memory.
    fn duplicate(&mut self, index: usize) -> Result<(), NoMemory>;
}

lab! {
    /// A solution.
    pub trait Fork {
        /// Gives the child what the entries of `range` map, of which its table has nothing yet. An
        /// error as soon as there is no memory.
        fn fork(&self, tables: &mut dyn Tables, range: Range<usize>) -> Result<(), NoMemory>;
    }
}
