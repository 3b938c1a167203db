//! Lookups and iteration of the VMAs of a tree.

use super::figures::Figures;
use super::store::{Found, Slot, VmaStore};
use super::tree::VmaTree;
use super::types::Vma;
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::Machine;
use alloc::vec::Vec;
use core::slice::Iter;

/// VMAs in address order, leaf by leaf of the tree.
struct Vmas<'a, M: Machine> {
    store: &'a VmaStore<M>,
    /// The rest of a leaf.
    leaf: Iter<'a, Vma<M>>,
    /// Where what follows the leaf begins.
    at: VirtAddr,
    /// Where VMAs are of no interest any more.
    end: VirtAddr,
}

impl<'a, M: Machine> Iterator for Vmas<'a, M> {
    type Item = &'a Vma<M>;
    #[inline]
    fn next(&mut self) -> Option<&'a Vma<M>> {
        if self.leaf.len() == 0 {
            self.leaf = self.store.leaf_from(self.store.from(self.at)?).iter();
            self.at = self.leaf.as_slice().last()?.range.end;
        }
        self.leaf.next().filter(|vma| vma.range.start < self.end)
    }
}

impl<M: Machine> VmaTree<M> {
    /// Pages that the VMAs cover.
    pub fn pages(&self) -> u64 {
        self.figures.total
    }
    /// Sums over all VMAs.
    pub fn figures(&self) -> Figures {
        self.figures
    }
    /// The number of VMAs.
    pub fn len(&self) -> usize {
        self.store.len
    }
    /// Whether there is no VMA.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The VMA in a slot.
    #[inline]
    pub fn get(&self, slot: Slot) -> &Vma<M> {
        self.store.get(slot)
    }
    /// The VMA in a slot, to change its `has_anon` and the like; not its range, nor what merges or
    /// sums depend on.
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut Vma<M> {
        self.store.get_mut(slot)
    }
    /// The first VMA that ends above `addr`.
    #[inline]
    pub fn from(&self, addr: VirtAddr) -> Option<Slot> {
        self.store
            .found_last(addr)
            .or_else(|| self.store.from(addr))
    }
    /// As [`Self::from`], for a walk over all VMAs in order.
    pub fn walk_from(&self, addr: VirtAddr) -> Option<Slot> {
        self.store.behind_last(addr).or_else(|| self.from(addr))
    }
    /// The VMA that contains `addr`.
    #[inline]
    pub fn find(&self, addr: VirtAddr) -> Option<Slot> {
        let found = self.store.found_last(addr);
        found.or_else(|| self.find_slowly(addr))
    }
    /// The same VMA itself, and not its slot.
    #[inline]
    pub fn at(&self, addr: VirtAddr) -> Option<&Vma<M>> {
        self.find(addr).map(|slot| self.get(slot))
    }
    /// The VMA that contains `addr`, for a reader of the space's lock, which has a memory of its
    /// own of the lookup before.
    #[inline]
    pub(crate) fn find_as_reader(&self, addr: VirtAddr, last: &Found) -> Option<&Vma<M>> {
        match self.store.found(last.get(), addr) {
            Some(vma) => Some(vma),
            None => self.find_anew(addr, last),
        }
    }
    #[cold]
    fn find_anew(&self, addr: VirtAddr, last: &Found) -> Option<&Vma<M>> {
        let slot = self.store.path(addr)?.slot;
        last.set(slot);
        self.store.found(slot, addr)
    }
    #[inline(never)]
    fn find_slowly(&self, addr: VirtAddr) -> Option<Slot> {
        let slot = self.store.from(addr)?;
        (self.get(slot).range.start <= addr).then_some(slot)
    }
    /// The VMA behind the one in `slot`.
    pub fn next(&self, slot: Slot) -> Option<Slot> {
        self.store.next(slot)
    }
    /// The VMA before the one in `slot`.
    pub fn before(&self, slot: Slot) -> Option<Slot> {
        self.store.before(slot)
    }
    /// The last VMA.
    pub fn last(&self) -> Option<Slot> {
        self.store.last()
    }

    /// All VMAs in address order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma<M>> {
        self.iter_in(VirtRange::new(VirtAddr(0), VirtAddr(u64::MAX)))
    }
    /// The VMAs that share a page with `range`, in address order.
    pub fn iter_in(&self, range: VirtRange) -> impl Iterator<Item = &Vma<M>> {
        Vmas {
            store: &self.store,
            leaf: [].iter(),
            at: range.start,
            end: range.end,
        }
    }
    /// Appends copies of those that end above `addr`, in address order, as many as `into` has room
    /// for.
    pub fn copies_from(&self, addr: VirtAddr, into: &mut Vec<Vma<M>>) {
        let mut next = self.from(addr);
        while let Some(slot) = next {
            let vmas = self.store.leaf_from(slot);
            let n = vmas.len().min(into.capacity() - into.len());
            into.extend_from_slice(&vmas[..n]);
            if n < vmas.len() {
                break;
            }
            next = self.from(vmas[n - 1].range.end);
        }
    }
    /// Where the `n`-th VMA (from 0) of those in `range` starts.
    pub fn start_of(&self, n: usize, range: VirtRange) -> Option<VirtAddr> {
        self.iter_in(range).nth(n).map(|vma| vma.range.start)
    }
    /// Whether nothing shares a page with `range`.
    pub fn is_clear(&self, range: VirtRange) -> bool {
        let first = self.store.look(range.start);
        first.is_none_or(|slot| self.get(slot).range.start >= range.end)
    }
    /// Pages of `range` that are covered.
    pub fn pages_in(&self, range: VirtRange) -> u64 {
        self.pages_of(range, |_| true)
    }
    /// Pages of `range` that are covered by VMAs for which `counts`.
    pub fn pages_of(&self, range: VirtRange, counts: impl Fn(&Vma<M>) -> bool) -> u64 {
        self.iter_in(range)
            .filter(|vma| counts(vma))
            .filter_map(|v| v.range.intersection(&range))
            .map(|r| r.pages())
            .sum()
    }
    /// Whether every page of `range` is covered.
    pub fn covers(&self, range: VirtRange) -> bool {
        self.pages_in(range) == range.pages()
    }
    /// The end of the highest free range of `len` bytes in `floor..top`, guard gaps of stacks left
    /// out.
    pub fn highest_gap(&self, len: u64, floor: VirtAddr, top: VirtAddr) -> Option<VirtAddr> {
        self.store.highest_gap(len, floor, top)
    }

    /// Checks that VMAs are sorted, not empty, page-aligned, not overlapping and counted, and every
    /// inner node's summary of its subtree. Panics with what is wrong.
    pub fn validate(&self) {
        let (mut end, mut len, mut figures) = (VirtAddr(0), 0, Figures::default());
        for vma in self.iter() {
            let range = vma.range;
            assert!(
                !range.is_empty() && (range.start.0 | range.end.0) & (PAGE_SIZE - 1) == 0,
                "{range:?}"
            );
            assert!(
                end <= range.start,
                "{range:?} overlaps what ends at {end:?}"
            );
            assert!(
                !vma.has_anon || vma.anon_vma.is_some(),
                "{range:?} has private pages and no history"
            );
            (end, len) = (range.end, len + 1);
            figures.add(vma);
        }
        assert!(
            (len, figures) == (self.len(), self.figures),
            "{len} VMAs with {figures:?}, {} with {:?} are counted",
            self.len(),
            self.figures
        );
        self.store.validate();
    }
}
