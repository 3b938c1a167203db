//! The gather: what was taken out of page tables, with the flush that must come before it may be
//! used again.

use super::release::{Gone, LEAF, Release};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, Tlb};
use crate::frame::Kind;
use crate::manager::{Mm, SpaceId};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Meter, Owner, Part, Unified, with_scheme, with_single};
use crate::stat::Event;
use crate::switch::Kept;
use crate::sync;
use arrayvec::ArrayVec;

/// Frames that wait for one flush.
const BATCH: usize = 64;

/// Entries that were taken out of a table: other CPUs and this one may still translate through
/// them. It carries the entries' references; only [`Gather::removed`] gets rid of it.
#[must_use = "the folio is still in TLBs: give it to a Gather"]
#[derive(Debug)]
pub struct Removed {
    /// The folio that was mapped.
    pub folio: Pfn,
    /// The first of its pages that were.
    pub first: Pfn,
    /// How many of its pages in a row.
    pub pages: u32,
    /// By entries of this level.
    pub level: Level,
}

/// Collects changes to live entries of one address space; [`Gather::finish`] flushes first and
/// frees then. It finishes in between whenever it is full. Dropping one that still owes a flush is
/// our own mistake: debug builds panic.
#[must_use = "what was gathered is owed a flush: call finish"]
pub struct Gather<'a, M: Machine> {
    mm: &'a Mm<M>,
    id: &'a SpaceId,
    /// `false`: no CPU can use the space any more and its tag was flushed, so nothing is owed but
    /// the frames.
    live: bool,
    start: VirtAddr,
    end: VirtAddr,
    /// The lowest level of the leaves that changed.
    stride: Level,
    tables: bool,
    /// Folios and page tables with the references that go.
    frames: ArrayVec<Gone, BATCH>,
    /// How many it had and has no more.
    released: u32,
}

impl<'a, M: Machine> Gather<'a, M> {
    /// For a space that CPUs may be running in.
    // Inlined, and `finish` goes by reference: the value has a kilobyte, and would be copied each
    // time it moves.
    #[inline(always)]
    pub fn new(mm: &'a Mm<M>, id: &'a SpaceId) -> Self {
        Gather {
            mm,
            id,
            live: true,
            start: VirtAddr(u64::MAX),
            end: VirtAddr(0),
            stride: Level::Pud,
            tables: false,
            frames: ArrayVec::new(),
            released: 0,
        }
    }
    /// For a space that no CPU has loaded and whose translations are flushed before its tag is used
    /// again.
    #[inline(always)]
    pub(crate) fn dead(mm: &'a Mm<M>, id: &'a SpaceId) -> Self {
        let mut gather = Gather::new(mm, id);
        gather.live = false;
        gather
    }

    /// Notes that the live PTE for `va` was changed.
    #[inline]
    pub fn changed(&mut self, va: VirtAddr) {
        self.changed_range(va, PAGE_SIZE, Level::Pte);
    }
    /// Notes that the live leaf of `level` for `va` was changed.
    #[inline]
    pub fn changed_leaf(&mut self, va: VirtAddr, level: Level) {
        self.changed_range(va, level.bytes(), level);
    }
    /// Notes that live leaves of `level` for `len` bytes from `va` on were changed.
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
    /// Takes over the references of entries that were removed from `va` on.
    #[inline]
    pub fn removed(&mut self, va: VirtAddr, removed: Removed) {
        let Removed {
            folio,
            first,
            pages,
            level,
        } = removed;
        self.changed_range(va, u64::from(pages) * PAGE_SIZE, level);
        if folio == self.mm.zero_page() {
            return;
        }
        if self.mm.switches().kept().counts_pages() {
            return self.push_part(folio, first, pages, level);
        }
        self.push(folio, pages.into());
    }
    /// As [`Gather::push`] where mappings of single pages are counted: it is remembered which of a
    /// private folio's they are.
    #[cold]
    fn push_part(&mut self, folio: Pfn, first: Pfn, pages: u32, level: Level) {
        let frames = self.mm.frames();
        if frames.get(folio).kind() != Kind::Anon {
            return self.push(folio, pages.into());
        }
        let leaf = if level == Level::Pte { 0 } else { LEAF };
        if let Some(last) = self.frames.last_mut()
            && last.pfn + last.refs == first
            && first != folio
            && self.mm.switches().zap_batch()
        {
            last.refs += u64::from(pages);
            return;
        }
        let refs = u64::from(pages) | leaf;
        self.hold(Gone { pfn: first, refs });
    }
    /// [`Gather::removed`] for the PTE of a private page that is no part of a larger folio.
    #[inline]
    pub(crate) fn removed_page(&mut self, va: VirtAddr, page: Pfn) {
        self.changed(va);
        self.hold(Gone { pfn: page, refs: 1 });
    }
    /// Notes that live entries of `level` in `range`, leaves or tables, were taken out to be
    /// written elsewhere.
    pub(crate) fn moved(&mut self, range: VirtRange, level: Level) {
        self.changed_range(range.start, range.len(), Level::Pte);
        self.tables |= level != Level::Pte;
    }
    /// Notes that a page table of `level` that translates `va` was unhooked.
    pub(crate) fn unhooked(&mut self, va: VirtAddr, level: Level) {
        // The range must cover what the table covered: a walker's cached pointer to it is keyed by
        // any address in there.
        let start = va.align_down(level.bytes() << 9);
        self.changed_range(start, level.bytes() << 9, Level::Pte);
        self.tables = true;
    }
    /// Takes over a page table that has been unhooked; `va` is an address it translated, `level`
    /// its own.
    pub(crate) fn table(&mut self, va: VirtAddr, level: Level, table: Pfn) {
        self.unhooked(va, level);
        self.push(table, 1);
    }
    /// Takes over a page table that no CPU walks any more: the flush for it was done.
    pub(crate) fn dead_table(&mut self, table: Pfn) {
        self.push(table, 1);
    }
    #[inline]
    fn push(&mut self, pfn: Pfn, refs: u64) {
        // Parts of one folio often come one after the other.
        if let Some(last) = self.frames.last_mut()
            && last.pfn == pfn
            && self.mm.switches().zap_batch()
        {
            last.refs += refs;
            return;
        }
        self.hold(Gone { pfn, refs });
    }
    /// Keeps references until the flush, which comes now if there is no room.
    #[inline(always)]
    fn hold(&mut self, gone: Gone) {
        if self.frames.is_full() {
            self.flush();
        }
        self.frames.push(gone);
    }

    /// How many folios and tables it has taken over since it was made.
    #[inline]
    pub(crate) fn taken_over(&self) -> u32 {
        self.released + self.frames.len() as u32
    }

    /// Flushes, then frees. The gather is empty afterwards and may be used on.
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
        self.release();
    }

    /// The memory manager of the space.
    #[inline(always)]
    pub(crate) fn mm(&self) -> &'a Mm<M> {
        self.mm
    }
    /// Whose entries these are.
    pub(crate) fn owner(&self) -> &'a Owner {
        &self.id.owner
    }

    /// Drops the references; what has none left is freed. Until here they counted as the space's:
    /// nobody else can take a page for its own that a TLB of this space still has.
    #[inline]
    fn release(&mut self) {
        match self.frames.as_slice() {
            [] => {}
            // Mostly one page goes, or many.
            &[gone] if self.mm.switches().kept() == Kept::PLAIN => {
                self.release_one::<_, true>(gone, Unified)
            }
            &[gone] => self.release_called(gone),
            _ => self.release_many(),
        }
    }
    #[inline(never)]
    fn release_called(&mut self, gone: Gone) {
        // The scheme is chosen for large folios only.
        if self.mm.frames().single(gone.pfn).is_some() {
            return with_single!(self.mm.account(), single => {
                self.release_one::<_, true>(gone, single)
            });
        }
        self.release_one::<_, false>(gone, self.mm.account());
    }
    #[inline(always)]
    fn release_one<A: Account, const IN_PLACE: bool>(&mut self, gone: Gone, account: A) {
        self.frames.clear();
        let mm = self.mm;
        let mut release = self.by(account);
        if !IN_PLACE {
            release.one_by_one = mm.switches().by_page();
        }
        let mut meter = Meter::default();
        let last = release.put::<IN_PLACE>(gone, &mut meter);
        mm.metered(meter);
        if let Some(pfn) = last {
            mm.free_one(pfn);
        }
    }
    #[inline(never)]
    fn release_many(&mut self) {
        self.released += self.frames.len() as u32;
        let switches = self.mm.switches();
        if switches.kept() == Kept::PLAIN && switches.by_page().is_none() {
            let release = self.by(Unified);
            return self.release_by::<_, true>(release);
        }
        // The scheme is chosen once.
        with_scheme!(self.mm.account(), account => {
            let mut release = self.by(account);
            release.one_by_one = self.mm.switches().by_page();
            self.release_by::<_, false>(release)
        });
    }
    #[inline(always)]
    fn by<A>(&self, account: A) -> Release<'a, M, A> {
        Release {
            mm: self.mm,
            account,
            owner: &self.id.owner,
            one_by_one: None,
        }
    }
    #[inline(always)]
    fn release_by<A: Account, const IN_PLACE: bool>(&mut self, release: Release<'a, M, A>) {
        let mm = self.mm;
        let mut free = ArrayVec::<Pfn, BATCH>::new();
        // Apart: its address goes out, and the rest can stay in registers.
        let mut meter = Meter::default();
        for gone in self.frames.drain(..) {
            if let Some(pfn) = release.put::<IN_PLACE>(gone, &mut meter) {
                match mm.frames().get(pfn).order() {
                    Order(0) => mm.free_one(pfn),
                    // Together: neighbours merge first.
                    _ => free.push(pfn),
                }
            }
        }
        mm.metered(meter);
        if !free.is_empty() {
            mm.free(&free);
        }
    }

    /// Flushes, then frees. The gather's last call.
    #[inline]
    pub fn finish(&mut self) {
        if self.start < self.end || !self.frames.is_empty() {
            self.flush();
        }
    }
}

/// A gather of one: the PTE of `page`, of this private folio, was removed at `va`. Flushes, then
/// drops its reference.
#[inline(always)]
pub(crate) fn removed_alone<M: Machine>(
    mm: &Mm<M>,
    id: &SpaceId,
    va: VirtAddr,
    (folio, order): (Pfn, Order),
    page: Pfn,
) {
    if mutant::on(Mutant::FlushWideStride) {
        let range = VirtRange::new(va, va + PAGE_SIZE);
        mm.machine()
            .tlb()
            .flush_range(id.asid, range, Level::Pmd, false);
    } else if !mutant::on(Mutant::NoFlush) {
        mm.machine().tlb().flush_page(id.asid, va);
    }
    mm.count(Event::FlushRange, 1);
    let mut meter = Meter::default();
    let book = mm.frames().book(folio, order);
    let part = Part::ptes((page - folio) as u32, 1);
    let last = mm.account().unmap(&book, &id.owner, part, &mut meter);
    mm.metered(meter);
    if last {
        mm.free_one(folio);
    } else if order != Order(0) {
        mm.defer_split(folio);
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
