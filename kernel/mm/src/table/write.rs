//! Writes of one page table's entries. The live count, the write counters and the flush
//! obligations are [`super::edit`]'s.

use super::node::{AtLevel, Node, Present, PteTable, frames, leaf_of};
use super::note;
use crate::addr::Pfn;
use crate::arch::{Attrs, Blank, Level, Live, Machine, PhysMem, PteFormat, Series, Unwalked};
use crate::stat::Event;

impl<M: Machine, L: AtLevel> Node<'_, M, L> {
    /// Adds `n` to the live count; wraps around, for subtraction.
    #[inline(always)]
    pub(super) fn add_live(self, n: u32) {
        self.meta().add_live(n);
    }

    /// Counts `n` entries that were written over absent ones.
    #[inline(always)]
    pub(super) fn gained(self, n: u32) {
        self.add_live(n);
        self.mm.count(Event::EntryWrites, n.into());
    }
    /// Counts `n` entries that became absent.
    #[inline(always)]
    pub(super) fn lost(self, n: u32) {
        self.add_live(n.wrapping_neg());
        self.mm.count(Event::EntryWrites, n.into());
    }

    /// Writes a leaf over an absent entry, or in a table that no CPU walks.
    #[inline(always)]
    pub(super) fn write_leaf(self, index: usize, pfn: Pfn, attrs: Attrs) {
        let raw = M::Pte::leaf(pfn, attrs, self.level.get());
        self.mem().store(self.frame, index, raw);
    }
    /// Replaces a leaf whose bits were `raw`; `false` when the walker has set a bit meanwhile and
    /// the entry must be read again.
    #[inline(always)]
    fn exchange(self, index: usize, old: Present, attrs: Attrs) -> bool {
        let raw = M::Pte::leaf(old.pfn, attrs, self.level.get());
        self.mem()
            .compare_exchange(self.frame, index, old.raw, raw)
            .is_ok()
    }
    /// Maps the attributes of a live leaf through `f`, keeping its frame and the bits that the
    /// walker sets meanwhile. Returns whether the entry changed; what is not a leaf is left alone.
    #[inline(always)]
    pub(super) fn modify(self, index: usize, mut f: impl FnMut(Attrs) -> Attrs) -> bool {
        while let Some(old) = self.present(index) {
            let new = f(old.attrs);
            if new == old.attrs {
                return false;
            }
            if self.exchange(index, old, new) {
                return true;
            }
        }
        false
    }
    /// Whether a leaf was used since this was asked last.
    #[inline]
    pub(super) fn was_used(self, index: usize) -> bool {
        loop {
            let raw = self.mem().load(self.frame, index);
            let unused = M::Pte::unused(raw);
            if raw & M::Pte::VALID == 0 || unused == raw {
                return false;
            }
            let exchanged = self.mem().compare_exchange(self.frame, index, raw, unused);
            if exchanged.is_ok() {
                return true;
            }
        }
    }
    /// Clears an entry; returns the leaf, including the walker's last bits.
    #[inline(always)]
    pub(super) fn take_leaf(self, index: usize) -> Option<Present> {
        leaf_of::<M>(self.mem().swap(self.frame, index, 0), self.level.get())
    }
    /// Links a table.
    #[inline(always)]
    pub(super) fn write_table(self, index: usize, child: Pfn) {
        self.mem().store(self.frame, index, M::Pte::table(child));
    }
    /// Links a shared PTE table.
    #[inline(always)]
    pub(super) fn write_shared(self, index: usize, child: Pfn) {
        let raw = M::Pte::shared_table(child);
        self.mem().store(self.frame, index, raw);
    }
    /// Clears an entry, discarding its bits.
    #[inline(always)]
    pub(super) fn clear(self, index: usize) {
        self.mem().store(self.frame, index, 0);
    }

    /// Freezes `n` entries, leaves or tables: invalid for the walker, bits kept. Returns how many
    /// are not absent.
    #[inline]
    pub(super) fn freeze_run(self, index: usize, n: usize) -> u32 {
        let row = Live(self.row(index, n));
        self.mem().freeze_run(row, self.level.get(), M::Pte::VALID)
    }
}

impl<M: Machine> Node<'_, M> {
    /// Moves `n` entries that no CPU walks over absent ones of another table, thawing them if
    /// `frozen`, and counts them.
    #[inline]
    pub(super) fn move_run(&self, index: usize, n: usize, frozen: bool, to: Self, at: usize) {
        let (row, blank) = (Unwalked(self.row(index, n)), Blank(to.row(at, n)));
        let moved = if frozen {
            self.mem().move_run(row, blank, M::Pte::thaw)
        } else {
            self.mem().move_run(row, blank, |raw| raw)
        };
        self.add_live(moved.wrapping_neg());
        to.add_live(moved);
        note::inherit(*self, to);
        self.mm.count(Event::Moved, u64::from(moved));
        self.mm.count(Event::EntryWrites, u64::from(moved));
    }
}

impl<M: Machine> PteTable<'_, M> {
    /// Writes `n` entries that map the frames from `pfn` on over absent ones.
    #[inline(always)]
    pub(super) fn write_run(self, index: usize, n: usize, pfn: Pfn, attrs: Attrs) {
        let entries = frames::<M>(M::Pte::leaf(pfn, attrs, Level::Pte));
        self.mem().store_run(Blank(self.row(index, n)), entries);
    }
    /// Writes `n` entries that all map this frame over absent ones.
    #[inline]
    pub(super) fn write_same(self, index: usize, n: usize, pfn: Pfn, attrs: Attrs) {
        let entries = Series::same(M::Pte::leaf(pfn, attrs, Level::Pte));
        self.mem().store_run(Blank(self.row(index, n)), entries);
    }
    /// Number of entries from `index` to `end` that equal the first.
    #[inline]
    pub(super) fn same(self, index: usize, end: usize) -> usize {
        let like = Series::same(self.mem().load(self.frame, index));
        self.mem().agree(self.row(index, end - index), like, !0)
    }
    /// Clears `n` entries; ACCESSED and DIRTY are lost.
    #[inline(always)]
    pub(super) fn clear_run(self, index: usize, n: usize) {
        match n {
            1 => self.mem().store(self.frame, index, 0),
            _ => self
                .mem()
                .store_run(Blank(self.row(index, n)), Series::ZERO),
        }
    }
    /// Sets bits in an entry; returns whether it changed. In line: halves the cost of a loop
    /// over a run.
    #[inline(always)]
    pub(super) fn add(self, index: usize, bits: Attrs) -> bool {
        let mut raw = self.mem().load(self.frame, index);
        loop {
            let new = M::Pte::add(raw, bits);
            if new == raw {
                return false;
            }
            match self.mem().compare_exchange(self.frame, index, raw, new) {
                Ok(()) => return true,
                Err(now) => raw = now,
            }
        }
    }
}
