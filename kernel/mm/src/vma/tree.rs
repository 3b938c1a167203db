//! The VMAs of an address space, by address.
//!
//! A sorted vector: a program has tens of VMAs, a lookup is a binary search over one piece of memory, and a copy for fork
//! is one pass. Growing is a value that can fail, and happens before anything is changed.

use super::merge::{joinable, kin};
use super::types::{AnonVma, Vma};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::frame::OutOfMemory;
use alloc::vec::Vec;
use core::ops::Range;

/// How many VMAs an address space may have (Linux's default of vm.max_map_count).
pub const MAX_VMAS: usize = 65530;

/// Where a VMA is in its tree. Good until VMAs are added, taken, cut or joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(usize);

/// Sums over the VMAs of a tree, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// All (VmSize).
    pub total: u64,
    /// Private and writable, no stacks (VmData).
    pub data: u64,
    /// Stacks (VmStk).
    pub stack: u64,
    /// Executable files (VmExe and VmLib).
    pub exec: u64,
    /// Locked (VmLck).
    pub locked: u64,
}

/// VMAs that were taken out of a tree, to be dropped after the lock of their space.
pub struct Taken<M: Machine>(Vec<Vma<M>>);

impl<M: Machine> Default for Taken<M> {
    fn default() -> Self {
        Taken(Vec::new())
    }
}
impl<M: Machine> Taken<M> {
    /// They in address order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma<M>> {
        self.0.iter()
    }
}

/// VMAs that do not overlap, sorted; neighbours that may be one are one.
pub struct VmaTree<M: Machine> {
    items: Vec<Vma<M>>,
    pages: u64,
    /// Histories of private pages that were begun.
    histories: u64,
}

impl<M: Machine> Default for VmaTree<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> VmaTree<M> {
    /// No VMAs.
    pub const fn new() -> Self {
        VmaTree {
            items: Vec::new(),
            pages: 0,
            histories: 0,
        }
    }
    /// Pages that the VMAs cover.
    pub fn pages(&self) -> u64 {
        self.pages
    }
    /// Sums over all VMAs.
    pub fn figures(&self) -> Figures {
        let mut out = Figures::default();
        for vma in &self.items {
            let (pages, f) = (vma.range.pages(), vma.flags);
            let file = matches!(&vma.backing, super::Backing::Object { file: Some(_), .. });
            let when = |is: bool| if is { pages } else { 0 };
            out.total += pages;
            out.data += when(vma.is_data());
            out.stack += when(f.contains(super::VmaFlags::GROWSDOWN));
            out.exec += when(file && vma.prot.contains(super::Prot::EXEC));
            out.locked += when(f.contains(super::VmaFlags::LOCKED));
        }
        out
    }
    /// How many VMAs there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// All VMAs in address order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma<M>> {
        self.items.iter()
    }
    /// The VMAs that share a page with `range`, in address order.
    pub fn iter_in(&self, range: VirtRange) -> impl Iterator<Item = &Vma<M>> {
        self.items[self.overlapping(range)].iter()
    }
    /// Whether nothing shares a page with `range`.
    pub fn is_clear(&self, range: VirtRange) -> bool {
        self.overlapping(range).is_empty()
    }
    /// The VMA in a slot.
    pub fn get(&self, slot: Slot) -> &Vma<M> {
        &self.items[slot.0]
    }
    /// The same for its `has_anon` note and the like; ranges and everything that merges or is counted stay as they are.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Vma<M> {
        &mut self.items[slot.0]
    }
    /// The VMA behind the one in `slot`.
    pub fn next(&self, slot: Slot) -> Option<Slot> {
        (slot.0 + 1 < self.items.len()).then_some(Slot(slot.0 + 1))
    }
    /// The VMA before the one in `slot`.
    pub fn before(&self, slot: Slot) -> Option<Slot> {
        slot.0.checked_sub(1).map(Slot)
    }
    /// The first VMA that ends above `addr`.
    pub fn from(&self, addr: VirtAddr) -> Option<Slot> {
        let at = self.position(addr);
        (at < self.items.len()).then_some(Slot(at))
    }
    /// The last VMA.
    pub fn last(&self) -> Option<Slot> {
        self.items.len().checked_sub(1).map(Slot)
    }
    /// The VMA that contains `addr`.
    pub fn find(&self, addr: VirtAddr) -> Option<Slot> {
        self.from(addr)
            .filter(|&slot| self.get(slot).range.start <= addr)
    }

    fn position(&self, addr: VirtAddr) -> usize {
        self.items.partition_point(|v| v.range.end <= addr)
    }
    fn overlapping(&self, range: VirtRange) -> Range<usize> {
        let start = self.position(range.start);
        let n = self.items[start..].partition_point(|v| v.range.start < range.end);
        start..start + n
    }
    /// Pages of `range` that are covered.
    pub fn pages_in(&self, range: VirtRange) -> u64 {
        self.iter_in(range)
            .filter_map(|v| v.range.intersection(&range))
            .map(|r| r.pages())
            .sum()
    }
    /// Whether every page of `range` is covered.
    pub fn covers(&self, range: VirtRange) -> bool {
        self.pages_in(range) == range.pages()
    }

    /// Makes room for `n` more VMAs, so that what follows cannot fail.
    pub fn reserve(&mut self, n: usize) -> Result<(), OutOfMemory> {
        self.limit(n as isize)?;
        self.items.try_reserve(n).map_err(|_| OutOfMemory)
    }
    /// Makes room for an [`Self::update`] of `range`.
    pub fn reserve_update(&mut self, range: VirtRange) -> Result<(), OutOfMemory> {
        self.limit(self.cuts(range) as isize)?;
        self.items.try_reserve(2).map_err(|_| OutOfMemory)
    }
    /// Makes room for a [`Self::take`] of `range` and `more` VMAs after it. What is taken makes room too, so a full tree
    /// can still be emptied.
    pub fn reserve_take(&mut self, range: VirtRange, more: usize) -> Result<(), OutOfMemory> {
        let taken = self.overlapping(range).len() as isize;
        self.limit((more + self.cuts(range)) as isize - taken)?;
        self.items.try_reserve(more + 2).map_err(|_| OutOfMemory)
    }
    fn limit(&self, change: isize) -> Result<(), OutOfMemory> {
        let too_many = change > 0 && self.items.len() + change as usize > MAX_VMAS;
        if too_many { Err(OutOfMemory) } else { Ok(()) }
    }
    /// How many ends of `range` lie inside a VMA.
    fn cuts(&self, range: VirtRange) -> usize {
        let inside = |at: VirtAddr| {
            self.find(at)
                .is_some_and(|slot| self.get(slot).range.start < at)
        };
        usize::from(inside(range.start)) + usize::from(inside(range.end))
    }

    /// Adds a VMA where nothing is, joining it with its neighbours. Room was reserved.
    pub fn insert(&mut self, vma: Vma<M>) {
        let at = self.position(vma.range.start);
        debug_assert!(
            self.items
                .get(at)
                .is_none_or(|next| next.range.start >= vma.range.end),
            "VMAs overlap"
        );
        self.pages += vma.range.pages();
        self.items.insert(at, vma);
        self.join(at + 1);
        self.join(at);
    }

    /// Takes out everything in `range`, cutting VMAs at its ends. Room for two was reserved; `Err` when the list of what is
    /// taken cannot be had, and then nothing has changed but where VMAs are cut.
    pub fn take(&mut self, range: VirtRange) -> Result<Taken<M>, OutOfMemory> {
        let touched = self.overlapping(range);
        let mut taken = Vec::new();
        taken
            .try_reserve_exact(touched.len())
            .map_err(|_| OutOfMemory)?;
        let places = self.cut(range);
        taken.extend(self.items.drain(places));
        self.pages -= taken.iter().map(|v| v.range.pages()).sum::<u64>();
        Ok(Taken(taken))
    }

    /// Changes every VMA inside `range`, cutting at its ends and joining again. Room for two was reserved.
    pub fn update(&mut self, range: VirtRange, mut f: impl FnMut(&mut Vma<M>)) {
        let places = self.cut(range);
        self.items[places.clone()].iter_mut().for_each(&mut f);
        for at in (places.start..=places.end).rev() {
            self.join(at);
        }
    }

    /// Before the first private write to the VMA: gives it a history, that of a neighbour which could be one with it but for
    /// its protection, so that they may become one later (Linux: find_mergeable_anon_vma).
    pub fn prepare_anon(&mut self, slot: Slot) {
        let vma = self.get(slot);
        let after = self.next(slot).and_then(|s| kin(vma, self.get(s)));
        let history = after.or_else(|| kin(self.get(self.before(slot)?), vma));
        let fresh = AnonVma {
            id: self.histories,
            inherited: false,
        };
        self.histories += u64::from(history.is_none());
        self.get_mut(slot).anon_vma = Some(history.unwrap_or(fresh));
    }

    /// Moves the start of the VMA in `slot` down to `start`, where nothing is (a stack grows).
    pub fn extend_down(&mut self, slot: Slot, start: VirtAddr) {
        let vma = &mut self.items[slot.0];
        self.pages += (vma.range.start - start) >> crate::addr::PAGE_SHIFT;
        vma.range.start = start;
    }

    /// A copy of the VMAs that `keep` wants, changed by it.
    pub fn copy(
        &self,
        mut keep: impl FnMut(&mut Vma<M>) -> bool,
    ) -> Result<VmaTree<M>, OutOfMemory> {
        let mut items = Vec::new();
        items
            .try_reserve_exact(self.items.len())
            .map_err(|_| OutOfMemory)?;
        items.extend(
            self.items
                .iter()
                .cloned()
                .filter_map(|mut v| keep(&mut v).then_some(v)),
        );
        let pages = items.iter().map(|v: &Vma<M>| v.range.pages()).sum();
        // Each begins a history of its own, in which the parent's pages are too.
        let written = items.iter_mut().filter_map(|v| v.anon_vma.as_mut());
        let mut histories = 0;
        for (n, history) in (0..).zip(written) {
            *history = AnonVma {
                id: n,
                inherited: true,
            };
            histories = n + 1;
        }
        Ok(VmaTree {
            items,
            pages,
            histories,
        })
    }

    /// Cuts VMAs so that none crosses an end of `range`; returns the places of those inside.
    fn cut(&mut self, range: VirtRange) -> Range<usize> {
        for at in [range.start, range.end] {
            if let Some(Slot(i)) = self
                .find(at)
                .filter(|&slot| self.get(slot).range.start < at)
            {
                let upper = self.items[i].split_off(at);
                self.items.insert(i + 1, upper);
            }
        }
        self.overlapping(range)
    }

    /// Joins the VMA at `at` to the one before it, if they may be one.
    fn join(&mut self, at: usize) {
        if at == 0 || at >= self.items.len() || !joinable(&self.items[at - 1], &self.items[at]) {
            return;
        }
        let high = self.items.remove(at);
        let low = &mut self.items[at - 1];
        low.range.end = high.range.end;
        low.has_anon |= high.has_anon;
        low.anon_vma = low.anon_vma.or(high.anon_vma);
    }

    /// Sorted, not empty, page-aligned, not overlapping, counted. Panics with what is wrong.
    pub fn validate(&self) {
        for vma in &self.items {
            assert!(
                !vma.range.is_empty()
                    && (vma.range.start.0 | vma.range.end.0) & (crate::addr::PAGE_SIZE - 1) == 0,
                "{:?}",
                vma.range
            );
        }
        for pair in self.items.windows(2) {
            assert!(
                pair[0].range.end <= pair[1].range.start,
                "{:?} and {:?} overlap",
                pair[0].range,
                pair[1].range
            );
        }
        assert!(
            self.pages == self.items.iter().map(|v| v.range.pages()).sum::<u64>(),
            "pages are miscounted"
        );
    }
}
