//! A machine for tests: free lists, and the cache of a CPU. Each step of a solution is checked.

use super::referee::{self, Owner};
use super::{Cpu, Lists, MAX_ORDER, Subject, frames};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Free memory; all else is in use.
pub struct Machine {
    /// The blocks of each order, the first of the list last.
    lists: Vec<Vec<u64>>,
    /// By first frame, the order of each free block.
    free: BTreeMap<u64, u8>,
    /// The oldest first.
    cache: VecDeque<u64>,
    /// Order of the cache's blocks, and how many it holds.
    order: u8,
    capacity: usize,
    locks: usize,
}

impl Machine {
    /// A machine with these free blocks: first frame and order. It has no cache.
    pub fn new(blocks: &[(u64, u8)]) -> Machine {
        let mut machine = Machine {
            lists: vec![Vec::new(); usize::from(MAX_ORDER) + 1],
            free: BTreeMap::new(),
            cache: VecDeque::new(),
            order: 0,
            capacity: 0,
            locks: 0,
        };
        for (frame, order) in blocks {
            machine.push(*frame, *order);
        }
        machine
    }
    /// The CPU gets an empty cache for so many blocks of an order.
    pub fn with_cache(self, order: u8, capacity: usize) -> Machine {
        Machine {
            order,
            capacity,
            ..self
        }
    }

    /// The free blocks, by first frame.
    pub fn free(&self) -> Vec<(u64, u8)> {
        self.free
            .iter()
            .map(|(frame, order)| (*frame, *order))
            .collect()
    }
    /// The blocks in the cache, the oldest first.
    pub fn cached(&self) -> Vec<u64> {
        self.cache.iter().copied().collect()
    }
    /// How often the cache was filled or drained, each time with the lock of the lists.
    pub fn locks(&self) -> usize {
        self.locks
    }

    /// Has a block taken out of the lists.
    pub fn take(&mut self, solution: &Subject, order: u8) -> Option<u64> {
        referee::take(solution, self, order)
    }
    /// Has a block that is in use put into the lists.
    pub fn give(&mut self, solution: &Subject, frame: u64, order: u8) {
        self.in_use(frame, order);
        referee::give(solution, self, frame, order);
    }
    /// What the kernel does for an allocation of the cache's order.
    pub fn alloc(&mut self, solution: &Subject) -> Option<u64> {
        if self.cache.is_empty() {
            self.locks += 1;
            // As the kernel: room for as many blocks stays.
            let (order, most) = (self.order, self.capacity / 2);
            referee::refill(solution, self, order, most);
        }
        self.cache.pop_back()
    }
    /// What the kernel does when a block of the cache's order is freed.
    pub fn free_cached(&mut self, solution: &Subject, frame: u64) {
        self.in_use(frame, self.order);
        if self.cache.len() == self.capacity {
            self.locks += 1;
            let order = self.order;
            referee::drain(solution, self, order);
        }
        self.cache.push_back(frame);
    }
    /// What the kernel does when memory is short: all cached blocks go to the lists.
    pub fn uncache(&mut self, solution: &Subject) {
        while let Some(frame) = self.cache.pop_front() {
            let order = self.order;
            referee::give(solution, self, frame, order);
        }
    }

    /// Panics where a test frees what it does not have.
    fn in_use(&self, frame: u64, order: u8) {
        let below = self.free.range(..frame + frames(order)).next_back();
        let free = below.is_some_and(|(start, order)| start + frames(*order) > frame);
        let cached = self.cache.contains(&frame);
        assert!(
            !free && !cached,
            "the test frees frame {frame:#x}, which is free"
        );
    }
}

impl Lists for Machine {
    fn orders(&self) -> u32 {
        let bit = |order: u8| u32::from(self.first(order).is_some()) << order;
        (0..=MAX_ORDER).map(bit).sum()
    }
    fn first(&self, order: u8) -> Option<u64> {
        self.lists[usize::from(order)].last().copied()
    }
    fn order(&self, frame: u64) -> Option<u8> {
        self.free.get(&frame).copied()
    }
    fn remove(&mut self, frame: u64, order: u8) {
        self.free.remove(&frame);
        self.lists[usize::from(order)].retain(|other| *other != frame);
    }
    fn push(&mut self, frame: u64, order: u8) {
        self.free.insert(frame, order);
        self.lists[usize::from(order)].push(frame);
    }
}

impl Cpu for Machine {
    fn count(&self) -> usize {
        self.cache.len()
    }
    fn batch(&self) -> usize {
        self.capacity.div_ceil(4)
    }
    fn keep(&mut self, frame: u64) {
        self.cache.push_back(frame);
    }
    fn oldest(&mut self) -> Option<u64> {
        self.cache.pop_front()
    }
}

impl Owner for Machine {
    fn restore(&mut self, _frames: Range<u64>) {
        // The test has failed: the machine is not used any more.
    }
}
