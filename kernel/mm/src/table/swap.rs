//! Swap entries: what stands in the place of a leaf whose page is in a swap slot
//! ([`crate::frame::slots`]).
//!
//! A swap entry is a leaf of the slot, as if that were a frame, which the hardware takes for
//! invalid ([`SWAPPED`]). So entries of consecutive pages are a run, and what copies, moves or
//! drops runs does the same to these; the references that they stand for are the slots'. Where they
//! differ from the leaves of pages:
//! - A fault on one maps the folio again, read-only ([`super::Change::take_back`]).
//! - They have no rights: mprotect leaves them, and the VMA says what the page gets.
//! - Of what was noted in the leaf they keep that its page is write-protected (userfaultfd), and
//!   whether it was written (soft-dirty).
//! - No TLB has them: they go without a flush.

use super::contpte::folded;
use super::edit::{Edit, Entries};
use super::marker::{SWAPPED, is_swapped};
use super::node::{AtLevel, Node, PteTable};
use super::run::Run;
use super::walk::some_leaf_tables;
use super::{Budget, Change, Leaf, Zap, note};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, TABLE_ENTRIES};
use crate::frame::slots::{Pages, UNIT, Which, is_sparse};
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::Result;
use crate::own::{Meter, Part};
use crate::stat::Event;
use crate::switch::SwapIn;
use crate::thp::PMD_ORDER;
use crate::tlb::Removed;
use core::ops::Range;

/// Those that it keeps.
const KEPT: Attrs = Attrs::UFFD_WP.union(Attrs::TRACKED);

/// What was done for it.
#[derive(Default)]
pub struct Parked {
    /// Single pages that fill a unit are to be stored together: their VMA may have folios of its
    /// size.
    pub together: bool,
    /// Pages that were parked.
    pub pages: u64,
    /// Pages of objects that were unmapped.
    pub unmapped: u64,
    /// Mapped pages that were looked at.
    pub scanned: u64,
    /// The last page for whose folio there were no slots side by side.
    pub unplaced: Option<VirtAddr>,
}

impl Parked {
    /// Pages that are not mapped any more.
    pub fn all(&self) -> u64 {
        self.pages + self.unmapped
    }
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Parks the private pages of `range` within the budget: swap entries come in the place of
    /// their leaves. Pages of objects are unmapped: their objects have them. What is pinned for
    /// long stays, and so do huge pages, and all else while there are no slots. `Which::Cold`: only
    /// those that were not used since the last time; of the others that is noted. Adds what was
    /// done to `parked`; returns where the rest begins, if any. Out of memory for a table: the rest
    /// stays.
    pub fn park_some(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
        which: Which,
        parked: &mut Parked,
    ) -> Result<Option<VirtAddr>> {
        some_leaf_tables(self.root(), range, budget, &mut |leaves, budget| {
            budget.take_leaves(&leaves);
            let start = leaves.part.start;
            match leaves.ptes() {
                None if which == Which::Cold && leaves.node.was_used(leaves.index()) => {
                    return Ok(());
                }
                None => self.split_leaf(start, Reserve::Urgent)?,
                // To be copied, which what is used does not justify.
                Some(table) if leaves.shared => {
                    let indices = table.indices(leaves.part);
                    if which == Which::Cold && table.were_used(indices) {
                        return Ok(());
                    }
                    self.unshare(start, Reserve::Urgent)?;
                }
                Some(_) => {}
            }
            let Some(table) = self.root().pte_table(start) else {
                return Ok(());
            };
            self.entries(table).park(leaves.part, which, parked);
            Ok(())
        })
    }
}

impl<M: Machine> PteTable<'_, M> {
    /// Whether the two entries before this one, or those behind it, map pages: it is reached by one
    /// who goes through memory.
    fn is_beside_mapped(self, index: usize) -> bool {
        let maps = |index: Option<usize>| {
            let entry = index.filter(|index| *index < TABLE_ENTRIES);
            let entry = entry.and_then(|index| self.present(index));
            entry.is_some_and(|entry| !entry.attrs.contains(Attrs::GLOBAL))
        };
        let before = |n| maps(index.checked_sub(n));
        let behind = |n| maps(index.checked_add(n));
        before(1) && before(2) || behind(1) && behind(2)
    }
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Where the first swap entry of `range` is, whose table is the space's alone from then on; or,
    /// if the budget is used up, where the rest begins. Out of memory for a table: no change.
    pub fn first_swapped(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let walked = some_leaf_tables(self.root(), range, budget, &mut |leaves, budget| {
            let start = leaves.part.start;
            let has_some = |table: &PteTable<'_, M>| {
                note::may_be_swapped(*table) && !(leaves.shared && table.swapped_pages() == 0)
            };
            let mut table = leaves.ptes().filter(has_some);
            if leaves.shared && table.is_some() {
                self.unshare(start, Reserve::User).map_err(Err)?;
                table = self.root().pte_table(start);
            }
            let swapped = |table: PteTable<'_, M>| {
                let mut runs = table.runs(leaves.part);
                runs.find(|(_, run)| run.kind == Kind::Swap)
            };
            match table.and_then(swapped) {
                Some((at, _)) => Err(Ok(at)),
                None => {
                    budget.take_leaves(&leaves);
                    Ok(())
                }
            }
        });
        walked.or_else(|stopped| stopped.map(Some))
    }
}

impl<M: Machine, L: AtLevel> Node<'_, M, L> {
    /// Which pages of a run were used, by a bit for each; the last one is also for all that follow.
    fn used_of(self, run: &Run) -> u32 {
        (0..run.n).fold(0, |used, i| {
            used | u32::from(self.was_used(run.index + i)) << i.min(31)
        })
    }
    /// Whether one of these was; all are asked.
    fn were_used(self, indices: Range<usize>) -> bool {
        indices.fold(false, |used, index| self.was_used(index) | used)
    }
}

impl<M: Machine> Entries<'_, '_, M> {
    /// [`Edit::park_some`] of the pages in `part`.
    fn park(&mut self, part: VirtRange, which: Which, parked: &mut Parked) {
        self.unfold_ends(part);
        let (table, mut sparse) = (self.table, false);
        for (va, run) in table.runs(part) {
            let folio = table.mm.frames().folio(run.head);
            let is_private = self.parks(&folio, &run);
            let goes = is_private || which != Which::Moved && self.unmaps(&folio, &run);
            if !goes {
                continue;
            }
            parked.scanned += run.n as u64;
            if parked.together && self.park_together(va, &run, part, which, parked) {
                continue;
            }
            let used = match which {
                Which::Cold => table.used_of(&run),
                Which::All | Which::Moved => 0,
            };
            if used != 0 {
                if is_private && self.is_cut(&folio) && is_sparse(used, folio.order) {
                    self.park_beside(va, &run, used, parked);
                    sparse = true;
                }
            } else if is_private {
                self.park_run(va, &run, which, parked);
            } else {
                table.clear_run(run.index, run.n);
                table.lost(run.n as u32);
                self.gather.removed(va, run.removed());
                parked.unmapped += run.n as u64;
            }
        }
        if sparse {
            // Only what is left has references then.
            self.gather.flush();
            for (_, run) in table.runs(part) {
                self.cut_if_sparse(&run);
            }
        }
    }

    /// Parks the pages of a run.
    fn park_run(&mut self, va: VirtAddr, run: &Run, which: Which, parked: &mut Parked) {
        let (mm, owner) = (self.table.mm, self.gather.owner());
        let first = run.pfn - run.head;
        let part = Part::ptes(first as u32, run.n as u32);
        // Before the entries, which name them.
        let folio = mm.frames().folio(run.head);
        let Some(slots) = mm.name_slots(&folio, part, owner, which == Which::Moved) else {
            parked.unplaced = Some(va);
            return;
        };
        self.write_slots(run, slots + first);
        // Afterwards: until the flush CPUs may write to the pages.
        self.gather.removed(va, run.removed());
        parked.pages += run.n as u64;
    }
    /// Swap entries in the place of those of a run.
    fn write_slots(&self, run: &Run, first: Pfn) {
        let table = self.table;
        note::note_swapped(table);
        table.write_run(run.index, run.n, first, SWAPPED | run.attrs & KEPT);
        table.mm.count(Event::EntryWrites, run.n as u64);
    }
    /// Parks a run of one page, which begins a unit, with the other pages of the unit, if all of
    /// them are in `part`, single and, if they are to be, cold; returns whether it did. What is
    /// used is not noted.
    fn park_together(
        &mut self,
        va: VirtAddr,
        run: &Run,
        part: VirtRange,
        which: Which,
        parked: &mut Parked,
    ) -> bool {
        let (table, mm, owner) = (self.table, self.table.mm, self.gather.owner());
        let unit = VirtRange::new(va, va + UNIT.bytes());
        if run.n != 1 || !va.is_aligned(UNIT.bytes()) || !part.covers(&unit) {
            return false;
        }
        let goes = |index: usize| {
            let entry = table.present(index)?;
            let is_cold = which == Which::All || !entry.attrs.contains(Attrs::ACCESSED);
            if !is_cold || (entry.attrs ^ run.attrs) & KEPT != Attrs::empty() {
                return None;
            }
            let page = Run {
                index,
                pfn: entry.pfn,
                ..*run
            };
            let folio = mm.frames().folio(entry.pfn);
            let goes = folio.order == Order(0) && self.parks(&folio, &page);
            goes.then_some(entry.pfn)
        };
        let indices = run.index..run.index + UNIT.pages() as usize;
        let pages: Pages = indices.map_while(goes).collect();
        let slots = pages.is_full().then(|| mm.name_together(&pages, owner));
        let Some(Some(slots)) = slots else {
            return false;
        };
        let whole = Run {
            n: pages.len(),
            ..*run
        };
        self.write_slots(&whole, slots);
        for (n, page) in (0..).zip(&pages) {
            self.gather
                .removed(va + n * PAGE_SIZE, Removed::ptes(*page, *page, 1));
        }
        parked.pages += UNIT.pages();
        parked.scanned += UNIT.pages() - 1;
        true
    }
    /// Parks those pages of a run of at most a unit that were not used. In a folded block nobody
    /// knows which were.
    fn park_beside(&mut self, va: VirtAddr, run: &Run, used: u32, parked: &mut Parked) {
        if folded::<M>(run.attrs) {
            return;
        }
        for i in (0..run.n).filter(|i| used >> i & 1 == 0) {
            let page = Run {
                index: run.index + i,
                n: 1,
                pfn: run.pfn + i as u64,
                ..*run
            };
            self.park_run(va + i as u64 * PAGE_SIZE, &page, Which::Cold, parked);
        }
    }

    /// Whether a folio becomes single pages of which too little is used.
    fn is_cut(&self, folio: &Block) -> bool {
        let mm = self.table.mm;
        folio.order <= UNIT && mm.switches().swap_in() != SwapIn::Whole
    }
    /// Makes single pages of the folio of a run if too little of it is mapped, and it is in slots:
    /// the rest goes to the store, and comes back by the page.
    fn cut_if_sparse(&self, run: &Run) {
        let (table, folio) = (self.table, self.table.mm.frames().folio(run.head));
        let before = (run.pfn - folio.head) as usize;
        if folio.order == Order(0) || !self.parks(&folio, run) || run.index < before {
            return;
        }
        let first = run.index - before;
        let of_folio = |page: u64| {
            let entry = Some(first + page as usize).filter(|index| *index < TABLE_ENTRIES);
            let entry = entry.and_then(|index| table.present(index));
            entry.is_some_and(|entry| entry.pfn == folio.head + page)
        };
        if self.is_cut(&folio) {
            let pages = (0..folio.order.pages()).filter(|page| of_folio(*page));
            let mapped = pages.fold(0, |mapped, page| mapped | 1 << page);
            if is_sparse(mapped, folio.order)
                && let Some(slot) = table.mm.cut_sparse(&folio, mapped, self.gather.owner())
            {
                self.cut_slots(first, slot);
            }
        }
    }

    /// Cuts the block of slots that entries around this index name, if no others do and more of
    /// them are left ([`crate::manager::Mm::cut_slots`]).
    fn cut_slots(&self, index: usize, slot: Pfn) {
        let (table, mm) = (self.table, self.table.mm);
        let named = |slot_there: Pfn| {
            let there = index as u64 + slot_there.0;
            let there = there.checked_sub(slot.0).map(|there| there as usize);
            let entry = there.filter(|there| *there < TABLE_ENTRIES);
            let entry = entry.and_then(|there| table.present(there));
            entry.is_some_and(|entry| entry.pfn == slot_there && is_swapped(entry.attrs))
        };
        mm.cut_slots(mm.frames().head(slot), &named, self.gather.owner());
    }

    /// Takes out the swap entries in `range`, unless private pages stay.
    #[inline]
    pub(super) fn drop_swapped(&mut self, range: VirtRange, zap: &mut Zap) {
        if note::may_be_swapped(self.table) && !zap.keep_anon {
            self.drop_swapped_runs(range, zap);
        }
    }
    #[cold]
    #[inline(never)]
    fn drop_swapped_runs(&mut self, range: VirtRange, zap: &mut Zap) {
        let (table, owner, mut meter) = (self.table, self.gather.owner(), Meter::default());
        let mut gone: Option<Range<usize>> = None;
        for (_, run) in table.runs(range).filter(|(_, run)| run.kind == Kind::Swap) {
            let first = gone.map_or(run.index, |gone| gone.start);
            gone = Some(first..run.index + run.n);
            let pages = run.n as u64;
            table.clear_run(run.index, run.n);
            table.lost(run.n as u32);
            table.mm.unname_slots(run.pfn, pages, owner, &mut meter);
            zap.anon += pages;
            zap.swapped += pages;
            zap.budget.take(1);
        }
        table.mm.metered(meter);
        // What is left of blocks at the ends need not keep what is gone.
        let ends = gone.map(|gone| [gone.start.checked_sub(1), Some(gone.end)]);
        for index in ends.into_iter().flatten().flatten() {
            let entry = (index < TABLE_ENTRIES).then(|| table.present(index));
            if let Some(entry) = entry.flatten().filter(|entry| is_swapped(entry.attrs)) {
                self.cut_slots(index, entry.pfn);
            }
        }
    }

    /// Whether the pages of a run may be unmapped: the object has them, and the entries say nothing
    /// else.
    fn unmaps(&self, folio: &Block, run: &Run) -> bool {
        folio.kind == Kind::Object
            && !self.table.mm.frames().get(folio.head).is_hugetlb()
            && !run.attrs.contains(Attrs::UFFD_WP)
    }

    /// Whether the pages of a run may be parked.
    fn parks(&self, folio: &Block, run: &Run) -> bool {
        let mm = self.table.mm;
        folio.kind == Kind::Anon
            && folio.order <= PMD_ORDER
            && !mm.frames().get(folio.head).is_hugetlb()
            && !mm.any_long_term(run.pfn, run.n as u64)
    }
}

impl<M: Machine> Change<'_, '_, '_, M> {
    /// Maps the page of this swap entry again, if it is in memory; and where memory is not short,
    /// or the pages beside it are mapped, too, those around it whose entries in this table and in
    /// `area` name slots of the same block; by `attrs`, with what the entries kept. Returns how
    /// many, and whether this one is among them.
    pub fn take_back(mut self, leaf: &Leaf, attrs: Attrs, area: VirtRange) -> (u64, bool) {
        debug_assert!(self.cursor.node.level == Level::Pte && is_swapped(leaf.attrs));
        let mm = self.cursor.mm();
        let slots = mm.frames().folio(leaf.pfn);
        let whole = self.cursor.folio_range(leaf, &slots, area);
        let (mut entries, mut pages, mut found) = (self.entries(), 0, false);
        let mut meter = Meter::default();
        let (table, owner) = (entries.table, entries.gather.owner());
        let index = Level::Pte.index(leaf.va);
        let page = VirtRange::new(leaf.va, leaf.va + PAGE_SIZE);
        let (range, others) = match slots.order > Order(0) {
            true if mm.comes_whole(0) => (whole, attrs),
            // Whether the others are used is not known.
            true if table.is_beside_mapped(index) => (whole, attrs - Attrs::ACCESSED),
            _ => (page, attrs),
        };
        for (va, run) in table.runs(range) {
            if run.head != slots.head {
                continue;
            }
            let (mut i, n) = (0, run.n as u64);
            while i < n {
                let Some((pfn, more)) = mm.map_slots(run.pfn + i, n - i, owner) else {
                    i += 1;
                    continue;
                };
                let (index, va) = (run.index + i as usize, va + i * PAGE_SIZE);
                table.clear_run(index, more as usize);
                table.install(va, more as usize, pfn, others | run.attrs & KEPT);
                mm.unname_slots(run.pfn + i, more, owner, &mut meter);
                mm.count(Event::EntryWrites, 2 * more);
                found |= (va..va + more * PAGE_SIZE).contains(&leaf.va);
                pages += more;
                i += more;
            }
        }
        mm.metered(meter);
        if found {
            table.modify(index, |attrs| attrs | Attrs::ACCESSED);
        }
        if slots.order != Order(0) && pages != 0 {
            entries.fold_range(range);
            if pages != slots.order.pages() {
                entries.cut_slots(index, leaf.pfn);
            }
        }
        (pages, found)
    }
}
