//! Lab 2: buddy lists with per-CPU caches. A solution takes blocks out of the free lists and splits
//! them, gives them back and merges them, and moves them in batches to and from a CPU's cache.

include!(concat!(env!("OUT_DIR"), "/buddy.rs"));
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

/// The largest order: 2^18 frames, 1 GiB.
pub const MAX_ORDER: u8 = 18;

/// The lists of free blocks, one for each order, with their lock held. A block of order n is 2^n
/// frames, of which the first has a number that is a multiple of 2^n.
pub trait Lists {
    /// Bit n: the list of order n is not empty.
    fn orders(&self) -> u32;
    /// The first block of the list of an order.
    fn first(&self, order: u8) -> Option<u64>;
    /// The order of the free block in the lists that begins with this frame. Nothing where none
    /// does: the frame is in use, in a cache, inside of a block, or there is no such frame.
    fn order(&self, frame: u64) -> Option<u8>;
    /// Takes a block out of its list, wherever it stands there.
    fn remove(&mut self, frame: u64, order: u8);
    /// Puts a block at the head of its list. At no time may two buddies be in the lists.
    fn push(&mut self, frame: u64, order: u8);
}

/// The lists, and the cache of this CPU for blocks of one order.
pub trait Cpu: Lists {
    /// How many blocks are in the cache.
    fn count(&self) -> usize;
    /// How many are to move at once.
    fn batch(&self) -> usize;
    /// Puts a block in the cache. The one that was put there last is handed out first.
    fn keep(&mut self, frame: u64);
    /// Takes the block out of the cache that was put there first.
    fn oldest(&mut self) -> Option<u64>;
}

lab! {
    /// A solution.
    pub trait Buddy {
        /// Takes a block of this order out of the lists; nothing where there is no memory for one.
        fn take(&self, lists: &mut dyn Lists, order: u8) -> Option<u64>;
        /// Puts a block into the lists.
        fn give(&self, lists: &mut dyn Lists, frame: u64, order: u8);
        /// Puts at most `most` blocks of this order in the cache, which is empty.
        fn refill(&self, cpu: &mut dyn Cpu, order: u8, most: usize);
        /// Makes room in the cache, which is full.
        fn drain(&self, cpu: &mut dyn Cpu, order: u8);
    }
}

/// Frames of a block.
pub fn frames(order: u8) -> u64 {
    1 << order
}
