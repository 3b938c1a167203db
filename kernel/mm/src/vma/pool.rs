//! A pool of tree nodes of one fixed capacity, by number. Memory is reserved one node at a time,
//! before it is needed: taking a node never fails.

use crate::manager::Result;
use alloc::vec::Vec;

/// The number of unused nodes that keep their memory.
const KEPT: usize = 4;

/// Nodes of `N` items at most.
pub(super) struct NodePool<T, const N: usize> {
    nodes: Vec<Vec<T>>,
    /// Numbers of unused nodes; the last `ready` of them have memory.
    unused: Vec<u32>,
    ready: usize,
}

impl<T, const N: usize> NodePool<T, N> {
    pub const fn new() -> Self {
        NodePool {
            nodes: Vec::new(),
            unused: Vec::new(),
            ready: 0,
        }
    }

    /// Makes sure that `n` nodes can be taken.
    pub fn reserve(&mut self, n: usize) -> Result {
        while self.ready < n {
            if self.unused.len() == self.ready {
                self.add()?;
            } else {
                let next = self.unused[self.unused.len() - 1 - self.ready];
                fallible::reserve_exact(&mut self.nodes[next as usize], N)?;
            }
            self.ready += 1;
        }
        Ok(())
    }
    fn add(&mut self) -> Result {
        let number = self.nodes.len() as u32;
        fallible::reserve(&mut self.nodes, 1)?;
        // Every node may become unused, and that must not need memory.
        let wanted = self.nodes.capacity() - self.unused.len();
        fallible::reserve(&mut self.unused, wanted)?;
        let mut node = Vec::new();
        fallible::reserve_exact(&mut node, N)?;
        self.nodes.push(node);
        self.unused.push(number);
        // All other unused nodes have memory, too, so their order does not matter.
        Ok(())
    }

    /// An empty node; it was reserved.
    pub fn take(&mut self) -> u32 {
        assert!(self.ready > 0, "a VMA node was not reserved");
        self.ready -= 1;
        self.unused
            .pop()
            .expect("what is ready is among the unused")
    }

    /// Gives a node back; what is still in it is dropped.
    pub fn give_back(&mut self, number: u32) {
        let node = &mut self.nodes[number as usize];
        node.clear();
        self.unused.push(number);
        if self.ready < KEPT {
            self.ready += 1;
        } else {
            *node = Vec::new();
            let last = self.unused.len() - 1;
            self.unused.swap(last, last - self.ready);
        }
    }

    /// The items of a node.
    #[inline]
    pub fn get(&self, number: u32) -> &[T] {
        &self.nodes[number as usize]
    }
    /// The items of a node that may not be there any more, or may be another's now.
    #[inline]
    pub fn try_get(&self, number: u32) -> &[T] {
        self.nodes.get(number as usize).map_or(&[], Vec::as_slice)
    }
    /// The node, to be changed within its capacity.
    pub fn get_mut(&mut self, number: u32) -> &mut Vec<T> {
        &mut self.nodes[number as usize]
    }
    /// Whether a node has no room.
    pub fn is_full(&self, number: u32) -> bool {
        self.get(number).len() == N
    }
    /// How many nodes are in use.
    pub fn in_use(&self) -> usize {
        self.nodes.len() - self.unused.len()
    }

    /// Moves the items from `at` on into a new node; returns its number.
    pub fn split(&mut self, number: u32, at: usize) -> u32 {
        let right = self.take();
        let (low, high) = self.two(number, right);
        high.extend(low.drain(at..));
        right
    }
    /// Appends the items of `right` to `left` if that leaves some room, and gives `right` back.
    pub fn merge(&mut self, left: u32, right: u32) -> bool {
        if self.get(left).len() + self.get(right).len() > N * 3 / 4 {
            return false;
        }
        let (low, high) = self.two(left, right);
        low.append(high);
        self.give_back(right);
        true
    }
    fn two(&mut self, a: u32, b: u32) -> (&mut Vec<T>, &mut Vec<T>) {
        let [a, b] = self
            .nodes
            .get_disjoint_mut([a as usize, b as usize])
            .expect("two nodes of the pool");
        (a, b)
    }
}
