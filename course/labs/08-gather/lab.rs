//! Lab 8: flush and free. A solution gathers what was changed in page tables and what memory that
//! sets free, has TLBs drop it on the CPUs that may hold it, and gives the memory back then.

use core::ops::Range;

include!(concat!(env!("OUT_DIR"), "/gather.rs"));
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

/// How many pieces of memory a batch can keep.
pub const CAPACITY: usize = 64;

/// Memory that has been unmapped: one page or many, or a page table. Its number means nothing to
/// you.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory(pub u64);

/// What is gathered of one address space, on the CPU that changes it. The space is locked, so
/// nobody else changes it; but other CPUs run threads of it, and begin and end to do so.
///
/// Pages are given by their numbers. A set of CPUs is a number with bit n for CPU n.
pub trait Batch {
    /// The pages of which TLBs may still have to drop something: what you put there; nothing at
    /// first.
    fn owed(&self) -> Range<u64>;
    /// Puts other pages there.
    fn owe(&mut self, pages: Range<u64>);
    /// How many pieces of memory are kept.
    fn kept(&self) -> usize;
    /// Keeps one more, of at most [`CAPACITY`].
    fn keep(&mut self, memory: Memory);
    /// Gives all that is kept back to the allocator. Anybody may have it from now on.
    fn free(&mut self);
    /// The CPUs that run in the space now, this one too.
    fn running(&self) -> u64;
    /// The CPUs whose TLBs may hold anything of the space: those that run in it, and those that did
    /// since they last dropped all of it.
    fn ran(&self) -> u64;
    /// Has some CPUs drop what their TLBs hold for these pages, page by page, and waits until they
    /// have. Another CPU than this one is interrupted for it.
    fn flush(&mut self, cpus: u64, pages: Range<u64>);
    /// The same of all pages of the space, in one step; what it still uses it has to look up again.
    fn flush_all(&mut self, cpus: u64);
}

lab! {
    /// A solution.
    pub trait Gather {
        /// Entries for these pages were changed just now: they are absent, or allow less. Where
        /// they were the last ones that led to some memory, `memory` is to be given back. Without
        /// pages: nothing leads to it but what was gathered before.
        fn gather(&self, batch: &mut dyn Batch, pages: Range<u64>, memory: Option<Memory>);
        /// All that was gathered is done, when this returns.
        fn finish(&self, batch: &mut dyn Batch);
    }
}
