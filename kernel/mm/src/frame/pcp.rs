//! Per-CPU lists of free blocks: most allocations and frees touch nothing that other CPUs touch.
//!
//! A list is a stack of places in the frame table. It is refilled from a zone when it is empty and gives its oldest
//! quarter back when it is full. Orders with a list: 0, 4 (the contpte block) and 9 (a PMD).

use super::meta::Kind;
use super::pageblock::Mobility;
use crate::addr::Order;
use crate::sync::{Lock, rank};
use alloc::boxed::Box;

/// The lists of a CPU: what is in them, and the most blocks that one holds (1, 4 and 16 MiB).
const LISTS: [(Order, Mobility, u64); 4] = [
    (Order(0), Mobility::Unmovable, 256),
    (Order(0), Mobility::Movable, 256),
    (Order(4), Mobility::Movable, 64),
    (Order(9), Mobility::Movable, 8),
];
/// A list holds at most this part of all frames, divided by the CPUs.
const SHARE: u64 = 64;

/// The list for blocks that are used so, if there is one.
#[inline]
pub(super) const fn list_of(order: Order, kind: Kind) -> Option<usize> {
    match (order.0, Mobility::of(kind)) {
        (0, Mobility::Unmovable) => Some(0),
        (0, Mobility::Movable) => Some(1),
        (4, Mobility::Movable) => Some(2),
        (9, Mobility::Movable) => Some(3),
        _ => None,
    }
}

/// A stack of free blocks.
pub(super) struct List {
    pub order: Order,
    pub mobility: Mobility,
    /// Places in the frame table; the first `len` count.
    slots: Box<[u32]>,
    len: usize,
}

impl List {
    /// Takes the block that was freed last.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        let index = *self.slots.get(last)?;
        self.len = last;
        Some(index)
    }
    /// Adds a block; `false` when the list is full.
    #[inline]
    pub fn push(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(self.len) else {
            return false;
        };
        *slot = index;
        self.len += 1;
        true
    }
    /// Blocks in the list.
    pub fn blocks(&self) -> &[u32] {
        &self.slots[..self.len]
    }
    /// The most blocks it holds; 0 where memory is too small for a list.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
    /// Blocks that move at once between the list and a zone.
    pub fn batch(&self) -> usize {
        self.slots.len().div_ceil(4)
    }
    /// Fills the empty list with what `take` writes and counts, so that the first written is the first taken.
    pub fn refill(&mut self, take: impl FnOnce(&mut [u32]) -> usize) {
        debug_assert!(self.len == 0, "a list that is not empty needs no refill");
        let batch = self.batch();
        self.len = take(&mut self.slots[..batch]);
        self.slots[..self.len].reverse();
    }
    /// Removes the `n` blocks that are in the list longest, after `give` has taken them.
    pub fn remove_oldest(&mut self, n: usize, give: impl FnOnce(&[u32])) {
        let n = n.min(self.len);
        give(&self.slots[..n]);
        self.slots.copy_within(n..self.len, 0);
        self.len -= n;
    }
}

/// What a CPU has for itself.
pub(super) struct Local {
    pub lists: [List; LISTS.len()],
    /// Frames that this CPU has handed out and taken back since boot, by [`Kind`].
    pub allocated: [u64; Kind::COUNT],
    pub freed: [u64; Kind::COUNT],
}

/// A CPU's lists, on cache lines of their own. The lock is for the rare visitor from another CPU, who wants them drained.
#[repr(align(128))]
pub(super) struct PerCpu(pub Lock<Local, { rank::PCP }>);

impl PerCpu {
    /// Empty lists for one of `cpus` CPUs of a machine with `frames` frames.
    pub fn new(frames: u64, cpus: usize) -> Self {
        let share = frames / SHARE / cpus as u64;
        let list = |(order, mobility, most): (Order, Mobility, u64)| List {
            order,
            mobility,
            slots: (0..most.min(share >> order.0)).map(|_| 0).collect(),
            len: 0,
        };
        PerCpu(Lock::new(Local {
            lists: LISTS.map(list),
            allocated: [0; Kind::COUNT],
            freed: [0; Kind::COUNT],
        }))
    }
}

impl Local {
    /// Free frames in the lists.
    pub fn cached(&self) -> u64 {
        let frames = |l: &List| (l.blocks().len() as u64) << l.order.0;
        self.lists.iter().map(frames).sum()
    }
}
