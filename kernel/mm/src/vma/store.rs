//! A B+-tree of VMAs by address, which knows nothing of merging.
//!
//! VMAs are in leaves, all at one depth; an inner node's branch has the start and the end of its
//! subtree and the size of the largest free gap inside, so that a lookup and the search for a free
//! range visit one node per level. Nodes are pieces of at most 4 KiB.

use super::pool::NodePool;
use super::types::{Vma, VmaFlags};
use crate::addr::VirtAddr;
use crate::arch::Machine;
use crate::sync::{HintU32, Ordering};

/// VMAs in a leaf.
pub(super) const LEAF: usize = 32;
/// Branches of an inner node.
pub(super) const INNER: usize = 32;
/// More levels of inner nodes than 65,530 VMAs can need.
pub(super) const MAX_HEIGHT: usize = 8;
/// Kept free below a stack that may grow (Linux: stack_guard_gap, 256 pages).
pub const STACK_GUARD_GAP: u64 = 256 * crate::addr::PAGE_SIZE;

/// The place of a VMA in its tree. Valid until VMAs are added, taken, cut or merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub(super) leaf: u32,
    pub(super) at: u32,
}

impl Slot {
    /// Another VMA of the same leaf.
    #[inline]
    pub(super) fn with(self, at: u32) -> Slot {
        Slot { at, ..self }
    }
}

/// The result of the last lookup, which a lookup by shared reference may change. It may be stale.
/// Readers of the space's lock have one for each CPU: else it would be a line that all CPUs write.
#[derive(Debug)]
pub(crate) struct Found {
    leaf: HintU32,
    at: HintU32,
}

impl Found {
    /// No VMA was found yet.
    pub const fn none() -> Self {
        Found {
            leaf: HintU32::new(0),
            at: HintU32::new(0),
        }
    }
    #[inline]
    pub(super) fn get(&self) -> Slot {
        Slot {
            leaf: self.leaf.load(Ordering::Relaxed),
            at: self.at.load(Ordering::Relaxed),
        }
    }
    #[inline]
    pub(super) fn set(&self, slot: Slot) {
        self.leaf.store(slot.leaf, Ordering::Relaxed);
        self.at.store(slot.at, Ordering::Relaxed);
    }
}

/// A subtree as its parent sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Branch {
    pub node: u32,
    /// Where a mapping below its first VMA must end: the VMA's start, or its guard gap's.
    pub low: VirtAddr,
    /// The end of its last VMA.
    pub end: VirtAddr,
    /// Bytes of the largest free range between two of its VMAs, guard gaps left out.
    pub gap: u64,
}

/// The way from the root to a VMA: an inner node and the branch that was taken, from the root on.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub steps: [(u32, u32); MAX_HEIGHT],
    pub slot: Slot,
}

pub(super) struct VmaStore<M: Machine> {
    pub leaves: NodePool<Vma<M>, LEAF>,
    pub inners: NodePool<Branch, INNER>,
    /// A leaf while `height` is 0. `None`: there was never a VMA.
    pub root: Option<u32>,
    /// Levels of inner nodes.
    pub height: usize,
    pub len: usize,
    /// The result of the last lookup: successive faults often hit one VMA.
    last_found: Found,
}

/// The lowest address that a mapping below `vma` must end at.
pub fn guarded_start<M: Machine>(vma: &Vma<M>) -> VirtAddr {
    let gap = if vma.flags.contains(VmaFlags::GROWSDOWN) {
        STACK_GUARD_GAP
    } else {
        0
    };
    VirtAddr(vma.range.start.0.saturating_sub(gap))
}

impl<M: Machine> VmaStore<M> {
    pub const fn new() -> Self {
        VmaStore {
            leaves: NodePool::new(),
            inners: NodePool::new(),
            root: None,
            height: 0,
            len: 0,
            last_found: Found::none(),
        }
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> &Vma<M> {
        &self.leaves.get(slot.leaf)[slot.at as usize]
    }
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut Vma<M> {
        &mut self.leaves.get_mut(slot.leaf)[slot.at as usize]
    }

    /// The VMA in a slot and those behind it in its leaf.
    pub fn leaf_from(&self, slot: Slot) -> &[Vma<M>] {
        &self.leaves.get(slot.leaf)[slot.at as usize..]
    }

    /// The way to the first VMA that ends above `addr`, or to the place behind the last one.
    pub fn path(&self, addr: VirtAddr) -> Option<Path> {
        let mut node = self.root?;
        let mut steps = [(0, 0); MAX_HEIGHT];
        for step in &mut steps[..self.height] {
            let at = self.branch_for(node, addr);
            *step = (node, at as u32);
            node = self.inners.get(node)[at].node;
        }
        let slot = self.slot_in(node, addr);
        Some(Path { steps, slot })
    }
    /// The first VMA in a leaf that ends above `addr`, or the place behind the last one.
    fn slot_in(&self, leaf: u32, addr: VirtAddr) -> Slot {
        let vmas = self.leaves.get(leaf);
        let at = vmas.partition_point(|v| v.range.end <= addr) as u32;
        Slot { leaf, at }
    }
    pub fn branch_for(&self, node: u32, addr: VirtAddr) -> usize {
        let branches = self.inners.get(node);
        let at = branches.partition_point(|b| b.end <= addr);
        at.min(branches.len() - 1)
    }

    /// The VMA that contains `addr`, if the last lookup ended there, too.
    #[inline]
    pub fn found_last(&self, addr: VirtAddr) -> Option<Slot> {
        let last = self.last_found.get();
        self.found(last, addr).map(|_| last)
    }
    /// The VMA in a slot, which may be stale, if there is one and it contains `addr`.
    #[inline]
    pub fn found(&self, slot: Slot, addr: VirtAddr) -> Option<&Vma<M>> {
        let vma = self.leaves.try_get(slot.leaf).get(slot.at as usize)?;
        vma.range.contains(addr).then_some(vma)
    }

    /// Has the next lookup begin at a slot.
    pub fn expect(&self, slot: Slot) {
        self.last_found.set(slot);
    }

    /// The first VMA that ends above `addr`, if it stands behind the one that was found last.
    #[inline]
    pub fn behind_last(&self, addr: VirtAddr) -> Option<Slot> {
        let Slot { leaf, at } = self.last_found.get();
        let vmas = self.leaves.try_get(leaf).get(at as usize..)?;
        let [before, next, ..] = vmas else {
            return None;
        };
        let is_next = before.range.end <= addr && addr < next.range.end;
        let slot = is_next.then_some(Slot { leaf, at: at + 1 })?;
        self.last_found.set(slot);
        Some(slot)
    }

    /// The first VMA that ends above `addr`.
    pub fn from(&self, addr: VirtAddr) -> Option<Slot> {
        let slot = self.look(addr)?;
        self.last_found.set(slot);
        Some(slot)
    }
    /// As [`Self::from`], for an address that is not looked up again.
    #[inline]
    pub fn look(&self, addr: VirtAddr) -> Option<Slot> {
        let last = self.last_found.get();
        let (leaf, at) = (self.leaves.try_get(last.leaf), last.at as usize);
        if let Some(vma) = leaf.get(at).filter(|v| addr < v.range.end) {
            // In it, or in the gap before it.
            let before = at.checked_sub(1).map(|at| leaf[at].range.end);
            if vma.range.start <= addr || before.is_some_and(|end| end <= addr) {
                return Some(last);
            }
        }
        let mut leaf = self.root?;
        for _ in 0..self.height {
            leaf = self.inners.get(leaf)[self.branch_for(leaf, addr)].node;
        }
        let slot = self.slot_in(leaf, addr);
        if slot.at as usize == self.leaves.get(slot.leaf).len() {
            return None;
        }
        Some(slot)
    }
    /// The VMA behind the one in `slot`.
    pub fn next(&self, slot: Slot) -> Option<Slot> {
        let leaf = self.leaves.get(slot.leaf);
        if (slot.at as usize) + 1 < leaf.len() {
            return Some(slot.with(slot.at + 1));
        }
        self.from(leaf[slot.at as usize].range.end)
    }
    /// The VMA before the one in `slot`.
    #[inline]
    pub fn before(&self, slot: Slot) -> Option<Slot> {
        if slot.at > 0 {
            return Some(slot.with(slot.at - 1));
        }
        if self.height == 0 {
            return None;
        }
        let path = self.path(self.get(slot).range.start)?;
        let turn = (0..self.height).rev().find(|&l| path.steps[l].1 > 0)?;
        let (node, at) = path.steps[turn];
        let left = self.inners.get(node)[at as usize - 1].node;
        self.last_of(left, self.height - turn - 1)
    }
    pub fn last(&self) -> Option<Slot> {
        self.last_of(self.root?, self.height)
    }
    fn last_of(&self, mut node: u32, levels: usize) -> Option<Slot> {
        for _ in 0..levels {
            node = self.inners.get(node).last()?.node;
        }
        let at = self.leaves.get(node).len().checked_sub(1)? as u32;
        Some(Slot { leaf: node, at })
    }

    /// Brings branch `at` of an inner node up to date.
    pub fn refresh(&mut self, node: u32, at: usize, level: usize) {
        let child = self.inners.get(node)[at].node;
        let summary = self.summary(child, level - 1);
        self.inners.get_mut(node)[at] = summary;
    }
    /// A node, which has items, as its parent sees it.
    pub fn summary(&self, node: u32, level: usize) -> Branch {
        let (low, end, gap) = match level {
            0 => {
                let (first, rest) = self.leaves.get(node).split_first().expect("it has items");
                let (mut end, mut most) = (first.range.end, 0);
                for vma in rest {
                    // Most VMAs adjoin the one before.
                    if vma.range.start != end {
                        most = most.max(gap(end, guarded_start(vma)));
                    }
                    end = vma.range.end;
                }
                (guarded_start(first), end, most)
            }
            _ => {
                let inner = self.inners.get(node);
                let between = inner.windows(2).map(|p| gap(p[0].end, p[1].low));
                let inside = inner.iter().map(|b| b.gap);
                let most = between.chain(inside).max().unwrap_or(0);
                (inner[0].low, inner[inner.len() - 1].end, most)
            }
        };
        Branch {
            node,
            low,
            end,
            gap,
        }
    }
}

/// Bytes from the end of one to the (guarded) start of the next.
pub(super) fn gap(end: VirtAddr, low: VirtAddr) -> u64 {
    low.0.saturating_sub(end.0)
}
