//! Zap: unmaps everything in a range, and frees the tables that become empty.

use super::edit::{Edit, Entries, take_leaf};
use super::node::{Node, PteTable, leaf_of};
use super::{Budget, PageTable, budget, contpte, guard};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, PteFormat};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, Result, SpaceId};
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::tlb::{self, Gather};

/// Options and page counts of a zap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zap {
    /// Keep private pages (a hole punch in the object: copies are no longer the object's).
    pub keep_anon: bool,
    /// Keep guards ([`super::guard`]): what was mapped goes, the mapping stays.
    pub keep_guards: bool,
    /// Keep empty tables: the range will be used again at once.
    pub keep_tables: bool,
    /// These tables are unlinked, or no CPU walks any of the space's: entries need not be cleared
    /// one by one.
    pub dead: bool,
    /// Private pages zapped, with those that are swapped.
    pub anon: u64,
    /// Those that are.
    pub swapped: u64,
    /// Object pages zapped.
    pub object: u64,
    /// Work allowed before the lock is released.
    pub budget: Budget,
}

impl Zap {
    /// Whether whole tables go with all that they map, while CPUs walk the tables of the space.
    fn takes_tables(&self) -> bool {
        !self.dead && !self.keep_tables && !self.keep_anon && !self.keep_guards
    }
    /// The kinds that stay, one bit each; of the kernel's only guards.
    fn kept(&self) -> u32 {
        let anon = u32::from(self.keep_anon) * (1 << Kind::Anon as u32 | 1 << Kind::Swap as u32);
        anon | u32::from(self.keep_guards) << Kind::Kernel as u32
    }
    /// Counts pages of a kind.
    #[inline]
    pub fn add(&mut self, kind: Kind, pages: u64) {
        match kind {
            Kind::Anon => self.anon += pages,
            Kind::Object => self.object += pages,
            _ => {}
        }
    }
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Unmaps every page in `range` within the budget; the gather flushes and frees. No PMD leaf
    /// and no shared table crosses an end of the range ([`Edit::split_ends`]). Returns where the
    /// rest begins, if any.
    #[must_use = "the rest is still mapped"]
    pub fn zap(&mut self, range: VirtRange, zap: &mut Zap) -> Option<VirtAddr> {
        if range.is_empty() {
            return None;
        }
        self.zap_table(self.root(), range, zap)
    }

    /// `range`, with what else is mapped by the PMD leaves that its ends cut: of an object's folio,
    /// which faults map again.
    pub fn around_leaves(&self, range: VirtRange) -> VirtRange {
        let size = Level::Pmd.bytes();
        let cut = |at: VirtAddr| {
            let pmd = self.root().table_at(at, Level::Pmd);
            let cut =
                !at.is_aligned(size) && !range.is_empty() && !mutant::on(Mutant::PunchUnderLeaf);
            cut && pmd.is_some_and(|pmd| matches!(pmd.entry(pmd.index(at)), Entry::Leaf { .. }))
        };
        let (mut start, mut end) = (range.start, range.end);
        if cut(start) {
            start = start.align_down(size);
        }
        if cut(end) {
            end = end.align_down(size) + size;
        }
        VirtRange::new(start, end)
    }

    /// [`Edit::split_ends`] and [`Edit::zap`] of a range whose tables stay. Out of memory:
    /// nothing was zapped.
    #[inline]
    pub fn zap_part(&mut self, range: VirtRange, zap: &mut Zap) -> Result<Option<VirtAddr>> {
        debug_assert!(zap.keep_tables && !range.is_empty());
        let table = Level::Pmd.bytes();
        let near = (range.start.0 ^ (range.end.0 - 1)) < table;
        // Fast path: a few pages of one table.
        if near && let Some(table) = self.root().pte_table(range.start) {
            let mut entries = self.entries(table);
            entries.drop_swapped(range, zap);
            entries.zap(range, zap);
            return Ok(None);
        }
        self.split_ends(range, Reserve::GivingBack)?;
        Ok(self.zap(range, zap))
    }

    /// [`Edit::zap`] below one table above the PTE level.
    fn zap_table(
        &mut self,
        node: Node<'a, M>,
        range: VirtRange,
        zap: &mut Zap,
    ) -> Option<VirtAddr> {
        let span = node.indices(range);
        // Fast path: most of a sparse range is absent.
        if node.all_absent(span.start, span.len()) {
            return None;
        }
        for index in span {
            if node.live() == 0 {
                break;
            }
            if node.is_absent(index) {
                continue;
            }
            let (part, entry) = (node.part(index, range), node.entry(index));
            let Some(child) = node.child(entry) else {
                if !zap.budget.take_leaf() {
                    return Some(part.start);
                }
                match entry {
                    Entry::Leaf { pfn, .. } => {
                        let kind = kind_of_leaf(node.mm, pfn);
                        debug_assert!(
                            part.len() == node.level.bytes(),
                            "a {:?} leaf is cut by {range:?}",
                            node.level
                        );
                        if !(zap.keep_anon && kind == Kind::Anon) {
                            take_leaf(node, part.start, self.gather);
                            zap.add(kind, part.pages());
                        }
                    }
                    // Here, and not at once: those that follow go with it.
                    _ => self.zap_shared_row(node, index, range, zap),
                }
                continue;
            };
            if child.level > Level::Pte {
                let stopped = self.zap_table(child, part, zap);
                if stopped.is_some() {
                    return stopped;
                }
            } else if zap.budget.is_spent() {
                return Some(part.start);
            } else if part.len() == node.level.bytes() && zap.takes_tables() {
                // Without a write to its entries: CPUs may walk it until the gather flushes, and
                // what it maps is freed after that.
                self.unlink(node, part);
                self.gather.unhooked(part.start, Level::Pte);
                zap.dead = true;
                let mut entries = self.entries(child.ptes());
                entries.drop_swapped(part, zap);
                entries.zap_called(part, zap);
                zap.dead = false;
                zap.budget.take(budget::TABLE);
                self.gather.dead_table(child.frame);
                continue;
            } else {
                let mut entries = self.entries(child.ptes());
                entries.drop_swapped(part, zap);
                entries.zap_called(part, zap);
            }
            // Afterwards: each step must reach a leaf.
            zap.budget.take(budget::TABLE);
            if child.live() == 0 && !zap.keep_tables {
                self.unhook(node, child, part);
            }
        }
        None
    }
}

impl<M: Machine> Entries<'_, '_, M> {
    /// [`Entries::zap`], out of line: inlined, it would spill the walk's registers.
    #[inline(never)]
    pub fn zap_called(&mut self, range: VirtRange, zap: &mut Zap) {
        self.zap(range, zap);
    }

    /// Unmaps what is mapped in `range`, after [`Entries::drop_swapped`], which is not here for the
    /// registers that a call takes.
    #[inline(always)]
    pub fn zap(&mut self, range: VirtRange, zap: &mut Zap) {
        let (table, mm) = (self.table, self.table.mm);
        let meta = table.meta();
        let before = meta.live();
        if before == 0 {
            return;
        }
        if !zap.dead {
            self.unfold_ends(range);
        }
        let gather = &mut *self.gather;
        let (batch, kept) = (mm.switches().zap_batch(), zap.kept());
        let (mut live, span) = (before, table.indices(range));
        // Pages after the first ones of their runs.
        let mut rest = 0;
        let mut index = span.start;
        while index < span.end && live > 0 {
            let raw = table.mem().load(table.frame, index);
            if raw == 0 {
                index += 1;
                continue;
            }
            // Fast path: an order-0 folio has no run to find.
            let page = M::Pte::frame(raw);
            if !zap.keep_anon && mm.frames().single(page).is_some() {
                let va = range.start + (index - span.start) as u64 * PAGE_SIZE;
                if !zap.dead {
                    table.clear(index);
                }
                zap.anon += 1;
                live -= 1;
                index += 1;
                gather.removed_page(va, page);
                continue;
            }
            let end = if batch { span.end } else { index + 1 };
            let Some(first) = leaf_of::<M>(raw, Level::Pte) else {
                index += 1;
                continue;
            };
            let run = table.run_of(index, first, end);
            let va = range.start + (index - span.start) as u64 * PAGE_SIZE;
            index += run.n;
            debug_assert!(run.kind != Kind::Swap || zap.keep_anon, "not dropped");
            let stays = kept >> run.kind as u32 & 1 != 0;
            if stays && (run.kind != Kind::Kernel || guard::is_guard::<M>(raw)) {
                zap.budget.take(1);
                continue;
            }
            zap.add(run.kind, run.n as u64);
            if mm.frames().get(run.head).copied_around() {
                mm.count(Event::CowWasted, clean(table, run.index, run.n));
            }
            if !zap.dead {
                // The lock of the space, or of the table, excludes all writers but the walker,
                // whose bits are of no use now.
                table.clear_run(run.index, run.n);
            }
            live -= run.n as u32;
            rest += run.n as u32 - 1;
            gather.removed(va, run.removed());
        }
        meta.add_live(live.wrapping_sub(before));
        let pages = before - live;
        zap.budget.take(budget::of_runs(pages - rest, pages));
        if !zap.dead {
            mm.count(Event::EntryWrites, u64::from(pages));
        }
    }
}

/// Kind of what a leaf above the PTE level maps from this frame on.
#[inline(always)]
fn kind_of_leaf<M: Machine>(mm: &Mm<M>, first: Pfn) -> Kind {
    #[cold]
    #[inline(never)]
    fn of_huge_page<M: Machine>(mm: &Mm<M>, tail: Pfn) -> Kind {
        mm.frames().folio(tail).kind
    }
    match mm.frames().get(first).kind() {
        Kind::Reserved if M::Pte::CONTIG_ORDER.is_some() => of_huge_page(mm, first),
        kind => kind,
    }
}

/// Fast path, as allocators return memory by single pages (MADV_DONTNEED): zaps the private page at
/// `va`, if any; flushes and frees at once; tables stay. Returns the
/// number of pages, 0 or 1, or `None`, with no change, for other mappings, which need
/// [`super::Edit::zap_part`].
#[inline(always)]
pub fn zap_page<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    va: VirtAddr,
    id: &SpaceId,
) -> Option<u64> {
    let table = Node::root(mm, space).pte_table(va)?;
    let index = Level::Pte.index(va);
    let raw = table.mem().load(table.frame, index);
    if raw == 0 {
        return Some(0);
    }
    let page = M::Pte::frame(raw);
    let folio = mm.frames().folio(page);
    // The range path counts wasted copies.
    if folio.kind != Kind::Anon || mm.frames().get(folio.head).copied_around() {
        return None;
    }
    if contpte::is_folded::<M>(raw) {
        unfold(table, va, id);
    }
    table.clear(index);
    table.lost(1);
    tlb::removed_alone(mm, id, va, &folio, page);
    Some(1)
}

/// Out of line: once per block.
#[inline(never)]
fn unfold<M: Machine>(table: PteTable<'_, M>, va: VirtAddr, id: &SpaceId) {
    let mut gather = Gather::new(table.mm, id);
    Entries {
        table,
        gather: &mut gather,
    }
    .unfold(va);
    gather.finish();
}

/// Number of clean entries among `n`.
#[cold]
fn clean<M: Machine>(table: PteTable<'_, M>, first: usize, n: usize) -> u64 {
    let written = |index| {
        let leaf = table.present(index);
        leaf.is_some_and(|leaf| leaf.attrs.contains(Attrs::DIRTY))
    };
    (first..first + n).filter(|index| !written(*index)).count() as u64
}
