//! The VMAs of an address space: the B+-tree with merging, and running sums.
//!
//! Memory is reserved before anything is changed (`reserve*`); the changes then cannot fail.

use super::figures::Figures;
use super::merge::{joinable, kin};
use super::policy::AtFork;
use super::store::{Slot, VmaStore};
use super::taken::Taken;
use super::types::{AnonVma, Vma};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
pub use crate::manager::MAX_VMAS;
use crate::manager::{OutOfMemory, Result};
use core::borrow::Borrow;

/// VMAs that do not overlap, sorted.
pub struct VmaTree<M: Machine> {
    pub(super) store: VmaStore<M>,
    pub(super) figures: Figures,
    /// The number of histories of private pages so far: the id of the next.
    histories: u64,
    /// How many VMAs there may be (vm.max_map_count).
    pub most: usize,
}

impl<M: Machine> Default for VmaTree<M> {
    /// No VMAs.
    fn default() -> Self {
        VmaTree {
            store: VmaStore::new(),
            figures: Figures::default(),
            histories: 0,
            most: MAX_VMAS,
        }
    }
}

impl<M: Machine> VmaTree<M> {
    /// Makes room for `n` more VMAs, so that what follows cannot fail.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result {
        self.limit(self.len() + n <= self.most)?;
        self.store.reserve(n)
    }
    /// Makes room for an [`Self::update`] of `range`. Nothing is in its way where no VMA is cut.
    pub fn reserve_update(&mut self, range: VirtRange) -> Result {
        self.limit(self.may_cut(range))?;
        self.store.reserve(2)
    }
    /// Whether VMAs may be cut at the ends of `range`.
    #[inline]
    pub fn may_cut(&self, range: VirtRange) -> bool {
        // Fast path: the lookups only matter near the limit.
        self.len() + 2 <= self.most || {
            let cuts = self.cuts(range);
            cuts == 0 || self.len() + cuts <= self.most
        }
    }
    /// Makes room for a [`Self::take`] of `range` and `more` VMAs after it. What is taken makes
    /// room too, so a full tree can still be emptied.
    pub fn reserve_take(&mut self, range: VirtRange, more: usize) -> Result {
        self.limit(more == 0 || self.len() <= self.most)?;
        self.limit(self.len() < self.most || !self.is_inside_one(range))?;
        self.store.reserve(1 + more)
    }
    fn limit(&self, within: bool) -> Result {
        if within { Ok(()) } else { Err(OutOfMemory) }
    }
    /// How many ends of `range` lie inside a VMA.
    fn cuts(&self, range: VirtRange) -> usize {
        let inside = |at| self.at(at).is_some_and(|vma| vma.range.start < at);
        usize::from(inside(range.start)) + usize::from(inside(range.end))
    }
    /// Whether one VMA contains `range` and reaches beyond both of its ends.
    fn is_inside_one(&self, range: VirtRange) -> bool {
        self.at(range.start)
            .is_some_and(|vma| vma.range.start < range.start && range.end < vma.range.end)
    }

    /// Adds a VMA where nothing is, joining it with its neighbours. Room was reserved.
    pub fn insert(&mut self, mut vma: Vma<M>) {
        let (start, end) = (vma.range.start, vma.range.end);
        let next = self.from(start);
        let before = match next {
            Some(slot) => self.before(slot),
            None => self.last(),
        };
        let next = next.map(|slot| self.get(slot));
        debug_assert!(
            next.is_none_or(|next| next.range.start >= end),
            "VMAs overlap"
        );
        let low = before
            .map(|slot| self.get(slot))
            .filter(|low| joinable(low, &vma));
        let low_start = low.map(|low| low.range.start);
        if let Some(low) = low {
            let mut joined = low.clone();
            joined.absorb(&vma);
            vma = joined;
        }
        match next.filter(|next| joinable(&vma, next)) {
            Some(next) => {
                vma.absorb(next);
                if let Some(low) = low_start {
                    self.remove_one(end);
                    self.change(low, |low| *low = vma);
                } else {
                    self.change(end, |next| *next = vma);
                }
            }
            None => match low_start {
                Some(low) => self.change(low, |low| *low = vma),
                None => self.add(vma),
            },
        }
    }

    /// Takes out everything in `range`, cutting VMAs at its ends. Room was reserved; `Err` when the
    /// list of what is taken cannot be had, and then nothing has changed.
    pub fn take(&mut self, range: VirtRange) -> Result<Taken<M>> {
        if let Some(part) = self.only_one(range) {
            return Ok(Taken::one(self.cut_out(part)));
        }
        let mut taken = Taken::with_room(self.iter_in(range).count())?;
        if let Some(Vma { range: low, .. }) = self.at(range.start)
            && low.start < range.start
        {
            let end = low.end;
            taken.extend(self.cut_out(VirtRange::new(range.start, end)));
        }
        let cut = self.at(range.end).map(|vma| vma.range.start);
        let whole = VirtRange::new(range.start, cut.unwrap_or(range.end));
        let figures = &mut self.figures;
        self.store.remove(whole, &mut |vma| {
            figures.sub(&vma);
            taken.extend(Some(vma));
        });
        if let Some(start) = cut.filter(|&cut| cut < range.end) {
            taken.extend(self.cut_out(VirtRange::new(start, range.end)));
        }
        Ok(taken)
    }

    /// Before the first private write to the VMA: it has private pages from now on, and a history,
    /// that of a neighbour which could be one with it but for its protection, so that they may
    /// become one later (Linux: find_mergeable_anon_vma).
    pub fn prepare_write(&mut self, slot: Slot) {
        let vma = self.get(slot);
        let history = vma.anon_vma.unwrap_or_else(|| {
            let after = self.next(slot).and_then(|s| kin(vma, self.get(s)));
            let history = after.or_else(|| kin(self.get(self.before(slot)?), vma));
            history.unwrap_or(AnonVma {
                id: self.histories,
                inherited: false,
            })
        });
        self.histories = self.histories.max(history.id + 1);
        let vma = self.get_mut(slot);
        (vma.anon_vma, vma.has_anon) = (Some(history), true);
    }

    /// Copies by `copy` of those of `vmas`, in order, that a child inherits, as its own; together
    /// they are `figures`. Private pages begin an inherited history there.
    #[inline]
    pub fn copy_of<V: Borrow<Vma<M>>>(
        mut figures: Figures,
        vmas: impl Iterator<Item = V>,
        copy: impl Fn(&Vma<M>) -> Result<Vma<M>>,
    ) -> Result<VmaTree<M>> {
        let mut histories = 0;
        let kept = vmas.filter(|vma| {
            let is_inherited = vma.borrow().flags.at_fork() != AtFork::Omitted;
            if !is_inherited {
                figures.sub(vma.borrow());
            }
            is_inherited
        });
        let store = VmaStore::build(kept, copy, |vma| {
            vma.inherit();
            if let Some(history) = &mut vma.anon_vma {
                *history = AnonVma {
                    id: histories,
                    inherited: true,
                };
                histories += 1;
            }
        })?;
        figures.locked = 0;
        Ok(VmaTree {
            store,
            figures,
            histories,
            ..VmaTree::default()
        })
    }

    pub(super) fn add(&mut self, vma: Vma<M>) {
        self.figures.add(&vma);
        self.store.insert(vma);
    }
    pub(super) fn remove_one(&mut self, at: VirtAddr) {
        let range = self.at(at).expect("a VMA that is removed is there").range;
        let figures = &mut self.figures;
        self.store.remove(range, &mut |vma| figures.sub(&vma));
    }
    /// Changes the VMA that contains `at`; it stays where it is among the others, and is joined
    /// with none, as mremap's MREMAP_DONTUNMAP leaves it.
    pub fn change(&mut self, at: VirtAddr, f: impl FnOnce(&mut Vma<M>)) {
        let figures = &mut self.figures;
        self.store.change(at, |vma| {
            figures.sub(vma);
            f(vma);
            figures.add(vma);
        });
    }
}
