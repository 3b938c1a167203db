//! One page table: entries, decoded on load and encoded on store. Only this file and
//! [`super::contpte`] handle raw bits.
//!
//! The live count, the write counters and the flush obligations are [`super::edit`]'s.

use super::PageTable;
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{
    Attrs, Blank, Entry, Level, Live, Machine, PhysMem, PteFormat, Row, Series, Unwalked,
};
use crate::frame::meta::TableFrame;
use crate::manager::Mm;
use core::ops::Range;

/// A page table of any level.
pub(crate) struct Node<'a, M: Machine> {
    pub mm: &'a Mm<M>,
    pub frame: Pfn,
    pub level: Level,
}

/// A PTE table: a [`Node`] whose level is a constant.
pub(crate) struct PteTable<'a, M: Machine> {
    pub mm: &'a Mm<M>,
    pub frame: Pfn,
}

/// A decoded leaf entry.
#[derive(Clone, Copy)]
pub(crate) struct Present {
    pub pfn: Pfn,
    /// Includes CONTIG.
    pub attrs: Attrs,
    /// Raw bits, for [`Node::exchange`].
    pub raw: u64,
}

impl<M: Machine> Clone for Node<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for Node<'_, M> {}
impl<M: Machine> Clone for PteTable<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for PteTable<'_, M> {}

impl<'a, M: Machine> Node<'a, M> {
    /// Root table of a space.
    #[inline(always)]
    pub fn root(mm: &'a Mm<M>, space: &PageTable) -> Self {
        Node {
            mm,
            frame: space.root,
            level: Level::Pgd,
        }
    }
    #[inline(always)]
    fn mem(self) -> &'a M::Mem {
        self.mm.machine().mem()
    }
    /// Metadata of the table's frame.
    #[inline(always)]
    pub fn meta(self) -> TableFrame<'a> {
        self.mm.frames().get(self.frame).page_table()
    }
    /// Number of entries that are not absent.
    #[inline(always)]
    pub fn live(self) -> u32 {
        self.meta().live()
    }
    /// Index of the entry for `va`.
    #[inline(always)]
    pub fn index(self, va: VirtAddr) -> usize {
        self.level.index(va)
    }
    /// Indices of the entries that overlap `range`; the table starts at or before `range.start`.
    #[inline(always)]
    pub fn indices(self, range: VirtRange) -> Range<usize> {
        self.index(range.start)..self.index(VirtAddr(range.end.0 - 1)) + 1
    }
    /// Intersection of `range`, which lies in the table, with what the entry at `index` covers.
    #[inline(always)]
    pub fn part(self, index: usize, range: VirtRange) -> VirtRange {
        let (bytes, shift) = (self.level.bytes(), self.level.shift());
        let base = range.start.align_down(bytes << 9).0 + ((index as u64) << shift);
        VirtRange {
            start: VirtAddr(range.start.0.max(base)),
            end: VirtAddr(range.end.0.min(base + bytes)),
        }
    }

    /// `n` entries from `index` on.
    #[inline(always)]
    pub fn row(self, index: usize, n: usize) -> Row {
        Row {
            table: self.frame,
            index,
            n,
        }
    }

    /// The decoded entry.
    #[inline(always)]
    pub fn entry(self, index: usize) -> Entry {
        M::Pte::decode(self.mem().load(self.frame, index), self.level)
    }
    /// The leaf at an entry; `None` when the entry is absent or points to a table.
    #[inline(always)]
    pub fn present(self, index: usize) -> Option<Present> {
        let raw = self.mem().load(self.frame, index);
        // Zero is an absent entry on every machine. Most entries that are read are absent.
        if raw == 0 {
            return None;
        }
        self.leaf_of(raw)
    }
    /// Decodes `raw` as a leaf; `None` when it is absent or points to a table.
    #[inline(always)]
    pub fn leaf_of(self, raw: u64) -> Option<Present> {
        match M::Pte::decode(raw, self.level) {
            Entry::Leaf { pfn, attrs } => Some(Present { pfn, attrs, raw }),
            _ => None,
        }
    }
    /// Whether an entry is absent.
    #[inline(always)]
    pub fn is_absent(self, index: usize) -> bool {
        self.mem().load(self.frame, index) == 0
    }
    /// Whether `n` entries starting at `index` are absent.
    #[inline(always)]
    pub fn all_absent(self, index: usize, n: usize) -> bool {
        self.mem().is_zero(self.row(index, n))
    }

    /// The table of the next lower level for `va`, unless there is none or it is shared.
    #[inline(always)]
    pub fn below(self, va: VirtAddr) -> Option<Self> {
        self.child(self.entry(self.index(va)))
    }
    /// The table that `entry` points to, unless it is shared.
    #[inline(always)]
    pub fn child(self, entry: Entry) -> Option<Self> {
        match (entry, self.level.lower()) {
            (Entry::Table(frame), Some(level)) => Some(Node {
                frame,
                level,
                ..self
            }),
            _ => None,
        }
    }
    /// The lowest existing table at or above `level` for `va`; never a shared one.
    #[inline]
    pub fn down_to(mut self, va: VirtAddr, level: Level) -> Self {
        while self.level > level
            && let Some(below) = self.below(va)
        {
            self = below;
        }
        self
    }
    /// The existing table of `level` for `va`; never a shared one.
    #[inline]
    pub fn table_at(self, va: VirtAddr, level: Level) -> Option<Self> {
        let found = self.down_to(va, level);
        (found.level == level).then_some(found)
    }
    /// The PTE table for `va`, unless there is none or it is shared. The walk is unrolled, so that
    /// each level's shift is a constant.
    #[inline(always)]
    pub fn pte_table(self, va: VirtAddr) -> Option<PteTable<'a, M>> {
        let pte = self.below(va)?.below(va)?.below(va)?;
        Some(pte.ptes())
    }
    /// This table as a [`PteTable`]; its level must be PTE.
    #[inline(always)]
    pub fn ptes(self) -> PteTable<'a, M> {
        debug_assert!(self.level == Level::Pte);
        PteTable {
            mm: self.mm,
            frame: self.frame,
        }
    }

    /// Adds `n` to the live count; wraps around, for subtraction.
    #[inline(always)]
    pub fn add_live(self, n: u32) {
        let meta = self.meta();
        meta.set_live(meta.live().wrapping_add(n));
    }

    /// Writes a leaf over an absent entry, or in a table that no CPU walks.
    #[inline(always)]
    pub fn write_leaf(self, index: usize, pfn: Pfn, attrs: Attrs) {
        let raw = M::Pte::leaf(pfn, attrs, self.level);
        self.mem().store(self.frame, index, raw);
    }
    /// Replaces a leaf whose bits were `raw`; `false` when the walker has set a bit meanwhile and
    /// the entry must be read again.
    #[inline(always)]
    fn exchange(self, index: usize, old: Present, attrs: Attrs) -> bool {
        let raw = M::Pte::leaf(old.pfn, attrs, self.level);
        self.mem()
            .compare_exchange(self.frame, index, old.raw, raw)
            .is_ok()
    }
    /// Maps the attributes of a live leaf through `f`, keeping its frame and the bits that the
    /// walker sets meanwhile. Returns whether the entry changed; what is not a leaf is left alone.
    #[inline(always)]
    pub fn modify(self, index: usize, mut f: impl FnMut(Attrs) -> Attrs) -> bool {
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
    /// Clears an entry; returns the leaf, including the walker's last bits.
    #[inline(always)]
    pub fn take_leaf(self, index: usize) -> Option<(Pfn, Attrs)> {
        match M::Pte::decode(self.mem().swap(self.frame, index, 0), self.level) {
            Entry::Leaf { pfn, attrs } => Some((pfn, attrs)),
            _ => None,
        }
    }
    /// Links a table.
    #[inline(always)]
    pub fn write_table(self, index: usize, child: Pfn) {
        self.mem().store(self.frame, index, M::Pte::table(child));
    }
    /// Links a shared PTE table.
    #[inline(always)]
    pub fn write_shared(self, index: usize, child: Pfn) {
        let raw = M::Pte::shared_table(child);
        self.mem().store(self.frame, index, raw);
    }
    /// Clears an entry, discarding its bits.
    #[inline(always)]
    pub fn clear(self, index: usize) {
        self.mem().store(self.frame, index, 0);
    }

    /// Freezes `n` entries, leaves or tables: invalid for the walker, bits kept. Returns how many
    /// are not absent.
    #[inline]
    pub fn freeze_run(self, index: usize, n: usize) -> u32 {
        let row = Live(self.row(index, n));
        self.mem().freeze_run(row, self.level, M::Pte::VALID)
    }
    /// The entry as it was before it may have been frozen.
    #[inline(always)]
    pub fn frozen_entry(self, index: usize) -> Entry {
        match self.mem().load(self.frame, index) {
            0 => Entry::Absent,
            raw => M::Pte::decode(M::Pte::thaw(raw), self.level),
        }
    }
    /// Whether an entry is frozen, or a PROT_NONE leaf.
    #[inline(always)]
    pub fn is_frozen(self, index: usize) -> bool {
        self.mem().load(self.frame, index) & M::Pte::VALID == 0
    }
    /// Moves `n` entries that no CPU walks over absent ones of another table, thawing them if
    /// `frozen`; returns how many were present.
    #[inline]
    pub fn move_run(
        &self,
        index: usize,
        n: usize,
        frozen: bool,
        to: Node<'a, M>,
        at: usize,
    ) -> u32 {
        let (from, to) = (Unwalked(self.row(index, n)), Blank(to.row(at, n)));
        if frozen {
            self.mem().move_run(from, to, M::Pte::thaw)
        } else {
            self.mem().move_run(from, to, |raw| raw)
        }
    }
}

/// Entries of consecutive frames; the first is `raw`.
#[inline(always)]
pub(super) fn frames<M: Machine>(raw: u64) -> Series {
    Series {
        raw,
        step: M::Pte::NEXT_FRAME,
    }
}

impl<'a, M: Machine> PteTable<'a, M> {
    /// This table as a [`Node`].
    #[inline(always)]
    pub fn node(self) -> Node<'a, M> {
        Node {
            mm: self.mm,
            frame: self.frame,
            level: Level::Pte,
        }
    }
    #[inline(always)]
    pub fn mem(self) -> &'a M::Mem {
        self.mm.machine().mem()
    }
    /// As [`Node::present`].
    #[inline(always)]
    pub fn present(self, index: usize) -> Option<Present> {
        self.node().present(index)
    }
    /// As [`Node::modify`].
    #[inline(always)]
    pub fn modify(self, index: usize, f: impl FnMut(Attrs) -> Attrs) -> bool {
        self.node().modify(index, f)
    }
    /// Indices of the entries for `range`, which lies in the table.
    #[inline(always)]
    pub fn indices(self, range: VirtRange) -> Range<usize> {
        self.node().indices(range)
    }
    /// As [`Node::live`].
    #[inline(always)]
    pub fn live(self) -> u32 {
        self.node().live()
    }

    /// Length of the run at `index`, at most `max`: entries that map consecutive frames and differ
    /// only in ACCESSED and DIRTY. The first entry, `raw`, counts.
    #[inline(always)]
    pub fn alike(self, index: usize, raw: u64, max: usize) -> usize {
        let row = self.node().row(index, max);
        self.mem()
            .agree(row, frames::<M>(raw), !M::Pte::loose_bits(raw))
    }
    /// Whether a run of `n` entries starts at `index`, whose first is `raw`, with ACCESSED set in
    /// each.
    #[inline]
    pub fn all_used(self, index: usize, raw: u64, n: usize) -> bool {
        let leaf = |attrs| M::Pte::leaf(Pfn(0), attrs, Level::Pte);
        let accessed = leaf(Attrs::ACCESSED) ^ leaf(Attrs::empty());
        let (row, firm) = (
            self.node().row(index, n),
            !M::Pte::loose_bits(raw) | accessed,
        );
        raw & accessed != 0 && self.mem().agree(row, frames::<M>(raw), firm) == n
    }
    /// Number of absent entries starting at `index`, at most `max`.
    #[inline(always)]
    pub fn absent(self, index: usize, max: usize) -> usize {
        self.mem()
            .agree(self.node().row(index, max), Series::ZERO, u64::MAX)
    }

    /// Writes `n` entries that map the frames from `pfn` on over absent ones.
    #[inline(always)]
    pub fn write_run(self, index: usize, n: usize, pfn: Pfn, attrs: Attrs) {
        let entries = frames::<M>(M::Pte::leaf(pfn, attrs, Level::Pte));
        self.mem()
            .store_run(Blank(self.node().row(index, n)), entries);
    }
    /// Clears `n` entries; ACCESSED and DIRTY are lost.
    #[inline(always)]
    pub fn clear_run(self, index: usize, n: usize) {
        match n {
            1 => self.mem().store(self.frame, index, 0),
            _ => self
                .mem()
                .store_run(Blank(self.node().row(index, n)), Series::ZERO),
        }
    }
    /// Sets bits in an entry; returns whether it changed.
    // Inlined: halves the cost of a loop over a run.
    #[inline(always)]
    pub fn add(self, index: usize, bits: Attrs) -> bool {
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
    /// Takes the entries starting at `index`, which no CPU walks, thawing them if `frozen`.
    #[inline]
    pub fn take_run(self, index: usize, into: &mut [u64], frozen: bool) {
        let row = self.node().row(index, into.len());
        self.mem().take_run(Unwalked(row), into);
        if frozen {
            let thaw = |raw: &mut u64| *raw = M::Pte::thaw(*raw);
            into.iter_mut().filter(|raw| **raw != 0).for_each(thaw);
        }
    }
    /// Writes entries from [`Self::take_run`] over absent ones.
    #[inline]
    pub fn put_run(self, index: usize, from: &[u64]) {
        let row = self.node().row(index, from.len());
        self.mem().put_run(Blank(row), from);
    }
}
