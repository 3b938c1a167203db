//! The gather: references taken out of page tables, with the TLB flush that must precede their
//! reuse.

mod grants;

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, Tlb};
use crate::frame::Kind;
use crate::manager::{Mm, SpaceId};
use crate::mutant::{self, Mutant};
use crate::own::Owner;
use crate::stat::Event;
use crate::sync;
use arrayvec::ArrayVec;

/// Capacity: frames that wait for one flush; 3 KiB on the stack.
const BATCH: usize = 192;

/// Entries removed from a table, still cached in TLBs. Carries the entries' references; only
/// [`Gather::removed`] consumes it.
#[must_use = "the folio is still in TLBs: give it to a Gather"]
#[derive(Debug)]
pub struct Removed {
    /// The mapped folio.
    pub folio: Pfn,
    /// The first page that was mapped.
    pub first: Pfn,
    /// Number of consecutive pages.
    pub pages: u32,
    /// Level of the entries.
    pub level: Level,
}

impl Removed {
    /// `n` PTEs that mapped the pages of `folio` from `first` on.
    #[inline(always)]
    pub(crate) fn ptes(folio: Pfn, first: Pfn, n: u32) -> Self {
        Removed {
            folio,
            first,
            pages: n,
            level: Level::Pte,
        }
    }
}

/// References to drop, of a folio or a page table.
#[derive(Clone, Copy)]
pub(super) struct Gone {
    /// The folio or table; where mappings are counted by page, the first page of a private folio.
    pub pfn: Pfn,
    /// Count, and [`LEAF`]. 64 bits: a space may map the huge zero page 2^26 times, 512 each.
    pub refs: u64,
}

/// Flag in the count: a leaf mapped the private folio. Only where mappings are counted by page.
pub(super) const LEAF: u64 = 1 << 63;

/// Collects changes to live entries of one address space; [`Gather::finish`] flushes the TLBs, then
/// frees. A full gather flushes early. Debug builds panic if one that owes a flush is dropped.
#[must_use = "what was gathered is owed a flush: call finish"]
pub struct Gather<'a, M: Machine> {
    pub(super) mm: &'a Mm<M>,
    pub(super) id: &'a SpaceId,
    /// `false`: no CPU can use the space and its tag was flushed, so only the frames are owed.
    live: bool,
    /// Entries gain rights and nothing else.
    grants_only: bool,
    start: VirtAddr,
    end: VirtAddr,
    /// Lowest level of the changed leaves.
    stride: Level,
    tables: bool,
    /// An entry is empty now that memory outside of the changed range uses, too.
    shared_entry: bool,
    /// Folios and page tables, with the references to drop.
    pub(super) frames: ArrayVec<Gone, BATCH>,
}

impl<'a, M: Machine> Gather<'a, M> {
    /// For a space that may be loaded on a CPU. In line, and `finish` takes a reference: a move
    /// copies kilobytes.
    #[inline(always)]
    pub fn new(mm: &'a Mm<M>, id: &'a SpaceId) -> Self {
        Gather {
            mm,
            id,
            live: true,
            grants_only: false,
            start: VirtAddr(u64::MAX),
            end: VirtAddr(0),
            stride: Level::Pud,
            tables: false,
            shared_entry: false,
            frames: ArrayVec::new(),
        }
    }
    /// For a space that no CPU has loaded, and whose tag is flushed before its reuse.
    #[inline(always)]
    pub(crate) fn dead(mm: &'a Mm<M>, id: &'a SpaceId) -> Self {
        let mut gather = Gather::new(mm, id);
        gather.live = false;
        gather
    }

    /// Records a change of the live PTE for `va`.
    #[inline]
    pub fn changed(&mut self, va: VirtAddr) {
        self.changed_range(va, PAGE_SIZE, Level::Pte);
    }
    /// Records a change of the live leaf of `level` for `va`.
    #[inline]
    pub fn changed_leaf(&mut self, va: VirtAddr, level: Level) {
        self.changed_range(va, level.bytes(), level);
    }
    /// Records changes of live leaves of `level` in `len` bytes from `va` on.
    #[inline]
    pub fn changed_range(&mut self, va: VirtAddr, len: u64, level: Level) {
        if mutant::on(Mutant::NoFlush) {
            return;
        }
        let len = if mutant::on(Mutant::FlushFirstPage) {
            PAGE_SIZE
        } else {
            len
        };
        self.start = self.start.min(va);
        self.end = self.end.max(va + len);
        self.stride = self.stride.min(level);
    }
    /// Takes over the references of entries removed at `va`.
    #[inline]
    pub fn removed(&mut self, va: VirtAddr, removed: Removed) {
        // Taken apart: a call with the whole would put it into memory.
        let (folio, pages, level) = (removed.folio, removed.pages.into(), removed.level);
        self.changed_range(va, pages * PAGE_SIZE, level);
        if folio == self.mm.zero_page() {
            return;
        }
        if self.mm.switches().accounting().counts_pages() {
            return self.push_part(folio, removed.first, pages, level);
        }
        self.push(folio, pages);
    }
    /// [`Gather::push`] where mappings are counted by page: keeps which pages of a private folio
    /// go.
    #[cold]
    fn push_part(&mut self, folio: Pfn, first: Pfn, pages: u64, level: Level) {
        let frames = self.mm.frames();
        if frames.get(folio).kind() != Kind::Anon {
            return self.push(folio, pages);
        }
        let whole = level != Level::Pte && frames.get(folio).order() == level.order();
        let leaf = if whole { LEAF } else { 0 };
        if let Some(last) = self.frames.last_mut()
            && last.pfn + last.refs == first
            && first != folio
            && self.mm.switches().zap_batch()
        {
            last.refs += pages;
            return;
        }
        let refs = pages | leaf;
        self.hold(Gone { pfn: first, refs });
    }
    /// Fast path: [`Gather::removed`] for the PTE of an order-0 private folio.
    #[inline]
    pub(crate) fn removed_page(&mut self, va: VirtAddr, page: Pfn) {
        self.changed(va);
        self.hold(Gone { pfn: page, refs: 1 });
    }
    /// Records that live entries of `level` in `range`, leaves or tables, are moving to another
    /// address.
    pub(crate) fn moved(&mut self, range: VirtRange, level: Level) {
        self.tables |= level != Level::Pte;
        self.changed_range(range.start, range.len(), Level::Pte);
    }
    /// Records that a page table of `level` for `va` was unlinked.
    pub(crate) fn unhooked(&mut self, va: VirtAddr, level: Level) {
        // The range is all that the table covers: any address in it may key a cached pointer to it.
        let start = va.align_down(level.bytes() << 9);
        self.tables = true;
        self.changed_range(start, level.bytes() << 9, Level::Pte);
    }
    /// Records that PTE tables for `range`, which they translate whole, were unlinked or shared.
    pub(crate) fn unhooked_row(&mut self, range: VirtRange) {
        self.tables = true;
        self.changed_range(range.start, range.len(), Level::Pte);
    }
    /// Takes over an unlinked page table of `level`; `va` is an address that it translated.
    pub(crate) fn table(&mut self, va: VirtAddr, level: Level, table: Pfn) {
        self.unhooked(va, level);
        self.mm.table_unlinked(self.live);
        self.push(table, 1);
    }
    /// Records that the entry of an unlinked table is also for memory outside of what is unmapped.
    /// That may get a table there as soon as the lock is open, while CPUs still hold the old one.
    pub(crate) fn freed_shared_entry(&mut self) {
        self.shared_entry = true;
    }
    /// Flushes if that must not wait until the lock is open.
    pub(crate) fn before_open(&mut self) {
        if self.shared_entry && !mutant::on(Mutant::OpenBeforeFlush) {
            self.flush();
        }
    }
    /// Takes over a page table that no CPU walks after an earlier flush, or after the one that is
    /// owed ([`Self::unhooked`]).
    pub(crate) fn dead_table(&mut self, table: Pfn) {
        self.mm.table_unlinked(self.live);
        self.detached_table(table);
    }
    /// The same of a page table that was counted when it was unlinked.
    pub(crate) fn detached_table(&mut self, table: Pfn) {
        self.push(table, 1);
    }
    #[inline]
    fn push(&mut self, pfn: Pfn, refs: u64) {
        // Runs of one folio often follow one another.
        if let Some(last) = self.frames.last_mut()
            && last.pfn == pfn
            && self.mm.switches().zap_batch()
        {
            last.refs += refs;
            return;
        }
        self.hold(Gone { pfn, refs });
    }
    /// Holds references until the flush, and flushes first if full.
    #[inline(always)]
    fn hold(&mut self, gone: Gone) {
        if self.frames.is_full() {
            self.flush();
        }
        self.frames.push(gone);
    }

    /// Flushes, then frees. The gather is empty afterwards and reusable.
    pub fn flush(&mut self) {
        if self.live && self.start < self.end {
            self.mm.count(Event::FlushRange, 1);
            let range = VirtRange::new(self.start, self.end);
            let stride = if mutant::on(Mutant::FlushWideStride) {
                Level::Pmd
            } else {
                self.stride
            };
            let tables = self.tables && !mutant::on(Mutant::KeepPointers);
            self.mm
                .machine()
                .tlb()
                .flush_range(self.id.asid, range, stride, tables);
        }
        (self.start, self.end) = (VirtAddr(u64::MAX), VirtAddr(0));
        (self.stride, self.tables) = (Level::Pud, false);
        self.shared_entry = false;
        self.release();
    }

    /// The memory manager of the space.
    #[inline]
    pub(crate) fn mm(&self) -> &'a Mm<M> {
        self.mm
    }
    /// Owner of the entries.
    pub(crate) fn owner(&self) -> &'a Owner {
        &self.id.owner
    }

    /// Flushes, then frees. The last call.
    #[inline]
    pub fn finish(&mut self) {
        if self.start < self.end || !self.frames.is_empty() {
            if self.grants_only {
                return self.flush_widened();
            }
            self.flush();
        }
    }
}

impl<M: Machine> Drop for Gather<'_, M> {
    fn drop(&mut self) {
        let owed = !self.frames.is_empty() || self.live && self.start < self.end;
        debug_assert!(
            !owed || sync::panicking(),
            "a flush of {:?}..{:?} was forgotten",
            self.start,
            self.end
        );
    }
}
