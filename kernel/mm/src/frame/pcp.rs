//! Per-CPU lists of free blocks: most allocations and frees touch nothing that other CPUs touch.
//!
//! A list is a stack of indices in the frame table. It is refilled from a zone when it is empty and
//! gives its oldest quarter or a little more back when it is full. Orders with a list: 0, 2 to 4
//! (up to the contpte block) and 9 (a PMD); in between the zeros take longest by far.
//!
//! Only the CPU itself writes its words, and nothing interrupts the kernel, so there is neither a
//! lock nor a read-modify-write; the words are atomics because other CPUs may read how much is in
//! the lists, and request it.

use super::meta::Kind;
use super::pageblock::Mobility;
use super::table::FrameTable;
use crate::addr::{Order, Pfn};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use alloc::boxed::Box;
use arrayvec::ArrayVec;

/// The lists of a CPU: what is in them, and the most blocks that one holds (1 to 16 MiB).
const LISTS: [(Order, Mobility, u64); 6] = [
    (Order(0), Mobility::Movable, 256),
    (Order(0), Mobility::Unmovable, 256),
    (Order(2), Mobility::Movable, 128),
    (Order(3), Mobility::Movable, 64),
    (Order(4), Mobility::Movable, 64),
    (Order(9), Mobility::Movable, 8),
];
/// A list holds at most this part of all frames, divided by the CPUs.
const SHARE: u64 = 64;

/// Which list is for blocks of an order (times two) and a mobility; past the lists when there is
/// none.
const LIST_OF: [u8; 64] = {
    let mut table = [u8::MAX; 64];
    let mut list = 0;
    while list < LISTS.len() {
        let (order, mobility, _) = LISTS[list];
        table[2 * order.0 as usize + mobility as usize] = list as u8;
        list += 1;
    }
    table
};

// Single frames are most: their lists are found without the table.
const _: () = assert!(LIST_OF[0] == 0 && LIST_OF[1] == 1);

/// A stack of free blocks of one CPU.
#[derive(Debug)]
pub struct List {
    /// The order of its blocks.
    pub order: Order,
    /// The mobility of its blocks.
    pub mobility: Mobility,
    /// Indices in the frame table; the first `len` are valid.
    slots: Box<[AtomicU32]>,
    len: AtomicUsize,
}

impl List {
    /// Takes the block that was freed last.
    #[inline]
    pub(super) fn pop(&self) -> Option<u32> {
        let last = self.len().checked_sub(1)?;
        let index = self.slots.get(last)?.load(Ordering::Relaxed);
        self.len.store(last, Ordering::Relaxed);
        Some(index)
    }
    /// Adds a block; `false` when the list is full.
    #[inline]
    pub(super) fn push(&self, index: u32) -> bool {
        let len = self.len();
        let Some(slot) = self.slots.get(len) else {
            return false;
        };
        slot.store(index, Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Relaxed);
        true
    }
    /// Blocks in the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
    /// Whether it has no room for another block.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }
    /// Where the blocks are in the frame table, the oldest first.
    pub(super) fn blocks(&self) -> Oldest<'_> {
        Oldest(self.slots[..self.len()].iter())
    }
    /// The most blocks it holds; 0 where memory is too small for a list.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
    /// Blocks that move at once between the list and a zone.
    pub fn batch(&self) -> usize {
        self.slots.len().div_ceil(4)
    }
    /// Blocks that the empty list takes at most when it is refilled.
    pub(super) fn refill_most(&self) -> usize {
        (2 * self.batch()).min(self.capacity())
    }
    /// Cuts pieces into blocks of the empty list, so that the first of the first piece is the first
    /// taken: without a lock, since they are nobody else's.
    ///
    /// Of unmovable blocks every other one is taken first: the locks and figures of page tables are
    /// in the metadata of their frames, two of which share a line, and tables that are allocated
    /// one after the other are those of neighbouring memory, where two CPUs may be.
    pub(super) fn refill(&self, table: &FrameTable, pieces: &Pieces) {
        debug_assert!(self.len() == 0, "a list that is not empty needs no refill");
        for &(pfn, order) in pieces.iter().rev() {
            let (first, blocks) = (table.index(pfn), 1_u32 << (order.0 - self.order.0));
            let put = |part: u32| {
                let index = first + (part << self.order.0);
                table.at(index).set_cached(self.order);
                self.push(index);
            };
            if self.mobility == Mobility::Unmovable {
                (1..blocks).step_by(2).rev().for_each(put);
                (0..blocks).step_by(2).rev().for_each(put);
            } else {
                (0..blocks).rev().for_each(put);
            }
        }
    }
    /// How many blocks a full list gives back: a batch, and what follows on its last block up to an
    /// aligned end. What comes later then begins there, and goes in one piece.
    pub(super) fn surplus(&self) -> usize {
        let (len, step) = (self.len(), self.order.pages() as u32);
        let aligned = step * self.batch() as u32;
        let at = |n: usize| self.slots[n].load(Ordering::Relaxed);
        let mut n = self.batch().min(len);
        while 0 < n && n < len && at(n) == at(n - 1) + step && !at(n).is_multiple_of(aligned) {
            n += 1;
        }
        n
    }
    /// Removes the `n` blocks that are in the list longest, after `give` has taken them.
    pub(super) fn remove_oldest<'a>(&'a self, n: usize, give: impl FnOnce(Oldest<'a>)) {
        let len = self.len();
        let n = n.min(len);
        give(Oldest(self.slots[..n].iter()));
        for (to, from) in self.slots.iter().zip(&self.slots[n..len]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.len.store(len - n, Ordering::Relaxed);
    }
}

/// Blocks of a list, the oldest first.
#[derive(Clone)]
pub(super) struct Oldest<'a>(core::slice::Iter<'a, AtomicU32>);

impl Iterator for Oldest<'_> {
    type Item = u32;
    #[inline]
    fn next(&mut self) -> Option<u32> {
        Some(self.0.next()?.load(Ordering::Relaxed))
    }
}

/// The largest batch of any list.
const BATCH_MAX: usize = 64;

/// What a CPU's list is refilled with: blocks and their orders.
pub(super) type Pieces = ArrayVec<(Pfn, Order), BATCH_MAX>;

/// The lists and counts of one CPU, on cache lines of their own.
#[repr(align(128))]
pub(super) struct Local {
    pub lists: [List; LISTS.len()],
    /// Frames that this CPU has handed out and taken back since boot, by [`Kind`].
    pub allocated: [AtomicU64; Kind::COUNT],
    pub freed: [AtomicU64; Kind::COUNT],
    /// Another CPU has requested that the lists be drained.
    pub asked: AtomicBool,
}

impl Local {
    /// Empty lists for one of `cpus` CPUs of a machine with `frames` frames.
    pub fn new(frames: u64, cpus: usize) -> Self {
        let share = frames / SHARE / cpus as u64;
        let list = |(order, mobility, most): (Order, Mobility, u64)| List {
            order,
            mobility,
            slots: (0..most.min(share >> order.0))
                .map(|_| AtomicU32::new(0))
                .collect(),
            len: AtomicUsize::new(0),
        };
        let zeros = || core::array::from_fn(|_| AtomicU64::new(0));
        Local {
            lists: LISTS.map(list),
            allocated: zeros(),
            freed: zeros(),
            asked: AtomicBool::new(false),
        }
    }
    /// The list for blocks of this order and use, if there is one.
    #[inline]
    pub fn list_for(&self, order: Order, kind: Kind) -> Option<&List> {
        let mobility = Mobility::of(kind) as usize;
        if order == Order(0) {
            return Some(&self.lists[mobility]);
        }
        let place = 2 * order.0 as usize + mobility;
        // Orders are below 32: the mask spares a comparison.
        self.lists.get(LIST_OF[place % LIST_OF.len()] as usize)
    }
    /// Free frames in the lists.
    pub fn cached(&self) -> u64 {
        let frames = |l: &List| (l.len() as u64) << l.order.0;
        self.lists.iter().map(frames).sum()
    }
}

/// Adds to a word that only this CPU writes.
#[inline]
pub(super) fn add(word: &AtomicU64, n: u64) {
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(n),
        Ordering::Relaxed,
    );
}
