//! Lab 3: the anonymous fault and the page of zeros. A solution makes one page of private memory
//! accessible, while other threads of the process do as they like.

include!(concat!(env!("OUT_DIR"), "/anon.rs"));
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

pub use machine::{Machine, Meanwhile};

/// The largest order of a folio.
pub const MAX_ORDER: u8 = 9;

/// What the page table says of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing is mapped.
    Absent,
    /// The page of zeros, without the right to write.
    Zeros,
    /// Memory of the process.
    Own,
    /// The area was unmapped, or is another one: there is nothing to do here any more.
    Gone,
}

/// Memory that is not mapped yet: 2^order frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Folio {
    /// The number of the first.
    pub frame: u64,
    /// log2 of how many there are.
    pub order: u8,
}

/// There is no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// What can be done without the lock of the space.
pub trait Memory {
    /// Takes a folio; nothing where there is no memory for one of this order. It holds whatever was
    /// in it before.
    fn allocate(&mut self, order: u8) -> Option<Folio>;
    /// Fills a folio with zeros.
    fn clear(&mut self, folio: Folio);
}

/// The page of the fault, in a space that is locked.
pub trait Page {
    /// What the page table says of it now.
    fn entry(&self) -> Entry;
    /// The order that the policy has for a folio here, at most `most`: of what is allowed, the
    /// largest that fits into the area and where nothing is mapped now.
    fn order(&self, most: u8) -> u8;
    /// Opens the lock, does the work, and locks again. Other threads may do anything meanwhile.
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Memory));
    /// Maps the page of zeros where nothing is mapped.
    fn map_zeros(&mut self) -> Result<(), NoMemory>;
    /// Maps a folio around the page, where nothing is mapped. It can be written to. Where there is
    /// no memory for page tables, nothing is done.
    fn map(&mut self, folio: Folio) -> Result<(), NoMemory>;
    /// Makes the page absent that has the page of zeros.
    fn unmap(&mut self);
    /// Drops what the TLB of any CPU holds for the page.
    fn flush(&mut self);
    /// Gives back a folio that is not mapped.
    fn free(&mut self, folio: Folio);
    /// The process has so many pages more (RSS). The page of zeros is none.
    fn count(&mut self, pages: u64);
}

lab! {
    /// A solution.
    pub trait Anon {
        /// Resolves a fault of a read or a write.
        fn fault(&self, page: &mut dyn Page, write: bool) -> Result<(), NoMemory>;
    }
}

impl Folio {
    /// How many pages it has.
    pub fn pages(self) -> u64 {
        1 << self.order
    }
}
