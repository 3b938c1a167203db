//! One page table: entries, decoded on load. [`super::write`] encodes them. Only these two files,
//! the fast paths and [`super::contpte`] handle raw bits.

use super::PageTable;
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, PteFormat, Row, Series};
use crate::frame::meta::TableFrame;
use crate::manager::Mm;
use core::ops::Range;

/// A page table of any level; or, as [`PteTable`], of a level that is a constant.
pub(crate) struct Node<'a, M: Machine, L = Level> {
    pub mm: &'a Mm<M>,
    pub frame: Pfn,
    pub level: L,
}

/// A PTE table.
pub(crate) type PteTable<'a, M> = Node<'a, M, Ptes>;

/// The level of a [`PteTable`].
#[derive(Clone, Copy)]
pub(crate) struct Ptes;

/// A level as a value or a type.
pub(crate) trait AtLevel: Copy {
    fn get(self) -> Level;
}
impl AtLevel for Level {
    #[inline]
    fn get(self) -> Level {
        self
    }
}
impl AtLevel for Ptes {
    #[inline]
    fn get(self) -> Level {
        Level::Pte
    }
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

impl<M: Machine, L: Copy> Clone for Node<'_, M, L> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine, L: Copy> Copy for Node<'_, M, L> {}

impl<'a, M: Machine, L: AtLevel> Node<'a, M, L> {
    /// The memory that holds the tables.
    #[inline(always)]
    pub fn mem(self) -> &'a M::Mem {
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
        self.level.get().index(va)
    }
    /// Indices of the entries that overlap `range`; the table starts at or before `range.start`.
    #[inline(always)]
    pub fn indices(self, range: VirtRange) -> Range<usize> {
        self.index(range.start)..self.index(VirtAddr(range.end.0 - 1)) + 1
    }
    /// Intersection of `range`, which lies in the table, with what the entry at `index` covers.
    #[inline(always)]
    pub fn part(self, index: usize, range: VirtRange) -> VirtRange {
        let (bytes, shift) = (self.level.get().bytes(), self.level.get().shift());
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
        M::Pte::decode(self.mem().load(self.frame, index), self.level.get())
    }
    /// The leaf at an entry; `None` when the entry is absent or points to a table.
    #[inline(always)]
    pub fn present(self, index: usize) -> Option<Present> {
        let raw = self.mem().load(self.frame, index);
        // Zero is an absent entry on every machine. Most entries that are read are absent.
        if raw == 0 {
            return None;
        }
        leaf_of::<M>(raw, self.level.get())
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

    /// The shared table that `entry` points to.
    #[inline(always)]
    pub fn shared(self, entry: Entry) -> Option<PteTable<'a, M>> {
        match entry {
            Entry::Shared(frame) => Some(PteTable::new(self.mm, frame)),
            _ => None,
        }
    }
    /// The entry as it was before it may have been frozen.
    #[inline(always)]
    pub fn frozen_entry(self, index: usize) -> Entry {
        match self.mem().load(self.frame, index) {
            0 => Entry::Absent,
            raw => M::Pte::decode(M::Pte::thaw(raw), self.level.get()),
        }
    }
    /// Whether an entry is frozen, or a PROT_NONE leaf.
    #[inline(always)]
    pub fn is_frozen(self, index: usize) -> bool {
        self.mem().load(self.frame, index) & M::Pte::VALID == 0
    }
}

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
        PteTable::new(self.mm, self.frame)
    }
}

impl<'a, M: Machine> PteTable<'a, M> {
    /// The PTE table in a frame.
    #[inline(always)]
    pub fn new(mm: &'a Mm<M>, frame: Pfn) -> Self {
        let level = Ptes;
        Node { mm, frame, level }
    }
    /// This table with its level as a value.
    #[inline(always)]
    pub fn node(self) -> Node<'a, M> {
        let (mm, frame, level) = (self.mm, self.frame, Level::Pte);
        Node { mm, frame, level }
    }

    /// Length of the run at `index`, at most `max`: entries that map consecutive frames and differ
    /// only in ACCESSED and DIRTY. The first entry, `raw`, counts.
    #[inline(always)]
    pub fn alike(self, index: usize, raw: u64, max: usize) -> usize {
        let row = self.row(index, max);
        self.mem()
            .agree(row, frames::<M>(raw), !M::Pte::loose_bits(raw))
    }
    /// Whether a run of `n` entries starts at `index`, whose first is `raw`, with ACCESSED set in
    /// each.
    #[inline]
    pub fn all_used(self, index: usize, raw: u64, n: usize) -> bool {
        let leaf = |attrs| M::Pte::leaf(Pfn(0), attrs, Level::Pte);
        let accessed = leaf(Attrs::ACCESSED) ^ leaf(Attrs::empty());
        let (row, firm) = (self.row(index, n), !M::Pte::loose_bits(raw) | accessed);
        raw & accessed != 0 && self.mem().agree(row, frames::<M>(raw), firm) == n
    }
}

/// Decodes `raw` as a leaf; `None` when it is absent or points to a table.
#[inline(always)]
pub(super) fn leaf_of<M: Machine>(raw: u64, level: Level) -> Option<Present> {
    match M::Pte::decode(raw, level) {
        Entry::Leaf { pfn, attrs } => Some(Present { pfn, attrs, raw }),
        _ => None,
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
