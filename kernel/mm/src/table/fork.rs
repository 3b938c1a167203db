//! Fork: copies entries to a child, table by table and folio by folio, with no lookups per page.
//!
//! An entry is copied with its bits, ACCESSED, DIRTY and CONTIG included, less WRITE, so a batch
//! may be non-uniform (seed 000 compares entries): the account needs only the folio and the number
//! of pages. Blocks that a range cuts are unfolded first; the others stay folded on both sides.

use super::budget::some_leaf_tables;
use super::edit::Entries;
use super::node::{Node, Present, PteTable, frames};
use super::walk::Leaves;
use super::{Budget, Cursor, PageTable, budget, owner, share};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PhysMem, PteFormat, Row, Settled};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::{Mm, OutOfMemory};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Batching, Book, By, Meter, Owner, Part, with_scheme, with_single};
use crate::stat::Event;
use crate::switch::ForkBy;
use crate::tlb::Gather;
use core::ops::Range;

/// Copies the mappings of a parent to a child that does not run yet.
pub struct ForkCopy<'s, 'a, M: Machine> {
    /// The memory manager of both.
    pub mm: &'a Mm<M>,
    /// Owner of the child's mappings.
    pub child: &'s Owner,
    /// Gather of the parent.
    pub gather: &'s mut Gather<'a, M>,
    /// Whether the parent may have long-term pins: such folios are copied at once, as the pin's
    /// holder keeps using the parent's page.
    pub pinned: bool,
    /// Whether to share whole PTE tables (`share`) that the range covers: private anonymous memory
    /// only.
    pub tables: bool,
    /// Private pages of the child.
    pub anon: u64,
    /// Object pages of the child.
    pub object: u64,
}

/// Totals for one table.
#[derive(Default)]
struct Done {
    /// Entries copied.
    copied: usize,
    /// Copied entries that do not map anonymous memory.
    others: usize,
    /// Entries of the parent that lost WRITE.
    protected: usize,
    meter: Meter,
}

impl Done {
    /// Cost in entries ([`Budget`]): one account update per run, or per page.
    #[inline]
    fn cost(&self) -> u32 {
        budget::of_runs(self.meter.updates, self.copied as u32)
    }
}

/// Source and destination PTE tables.
#[derive(Clone, Copy)]
struct Pair {
    from: Pfn,
    to: Pfn,
}

/// A run of entries: they map consecutive pages of one folio.
#[derive(Clone, Copy)]
struct Piece {
    tables: Pair,
    index: usize,
    pages: usize,
    first: Pfn,
}

impl<'a, M: Machine> ForkCopy<'_, 'a, M> {
    /// Copies the mappings of `range` within the budget; returns where the rest begins, if any.
    /// Both sides lose WRITE; each folio gains one reference per copied page. On failure the child
    /// is partial and the caller drops it. No PMD leaf crosses an end of the range: VMA splits
    /// split theirs.
    pub fn range(
        &mut self,
        parent: &mut PageTable,
        child: &mut PageTable,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>, OutOfMemory> {
        let root = Node::root(self.mm, parent);
        some_leaf_tables(root, range, budget, &mut |leaves, budget| {
            let Some(mut from) = leaves.ptes() else {
                budget.take_leaf();
                return self.leaf(&leaves, child);
            };
            if from.live() == 0 {
                return Ok(());
            }
            let start = leaves.part.start;
            let mut to = Cursor::new(self.mm, child, start);
            if self.tables && !self.pinned && leaves.part.len() == Level::Pmd.bytes() {
                budget.take_leaf();
                if self.gather.owner().is_common() {
                    // The references of the table change owner.
                    budget.take_leaves(&leaves);
                }
                self.anon += parent.edit(self.gather).share(&leaves, &mut to)?;
                return Ok(());
            }
            if leaves.shared {
                parent.edit(self.gather).unshare(start, Reserve::User)?;
                from = root.pte_table(start).expect("it was unshared");
            }
            to.prepare(Level::Pte)?;
            self.table(from, to.node().ptes(), leaves.part, budget)
        })
    }

    /// Copies a PMD leaf.
    fn leaf(&mut self, leaves: &Leaves<'a, M>, child: &mut PageTable) -> Result<(), OutOfMemory> {
        let (mm, node, index) = (self.mm, leaves.node, leaves.index());
        let mut to = Cursor::new(mm, child, leaves.part.start);
        to.prepare(node.level)?;
        let Some(Present { pfn, mut attrs, .. }) = node.present(index) else {
            unreachable!("the walk found a leaf, and the space is locked");
        };
        let order = node.level.order();
        if pfn == mm.huge_zero_page() {
            mm.share_huge_zero_page();
        } else if self.keeps((pfn, order)) {
            return self.copy_leaf(&mut to, (pfn, order), attrs);
        } else {
            mm.with_account(pfn, order, |account, book, meter| {
                account.map(book, self.child, Part::leaf(book.order()), meter)
            });
            mm.thp().pmd_mapped();
            self.anon += order.pages();
        }
        if attrs.contains(Attrs::WRITE) && node.modify(index, |attrs| attrs - Attrs::WRITE) {
            attrs = node.present(index).map_or(attrs, |leaf| leaf.attrs);
            self.gather.changed_leaf(leaves.part.start, node.level);
            mm.count(Event::EntryWrites, 1);
        }
        to.write_huge(pfn, attrs - Attrs::WRITE);
        mm.count(Event::ForkEntries, 1);
        Ok(())
    }

    /// Copies the entries of a PTE table in `part`.
    fn table(
        &mut self,
        from: PteTable<'a, M>,
        to: PteTable<'_, M>,
        part: VirtRange,
        budget: &mut Budget,
    ) -> Result<(), OutOfMemory> {
        Entries {
            table: from,
            gather: self.gather,
        }
        .unfold_ends(part);
        share::inherit_zeros(from.node(), to.node());
        let tables = Pair {
            from: from.frame,
            to: to.frame,
        };
        let mut done = Done::default();
        let slowly = self.mm.switches().fork_slowly();
        // The scheme is selected once per table, not per entry.
        let result = with_scheme!(self.mm.account(), account => match slowly {
            false => self.entries::<_, false>(account, tables, part, &mut done),
            true => self.entries::<_, true>(account, tables, part, &mut done),
        });
        self.anon += (done.copied - done.others) as u64;
        to.node().add_live(done.copied as u32);
        if done.protected > 0 {
            self.gather
                .changed_range(part.start, part.len(), Level::Pte);
        }
        let written = done.copied + done.protected;
        self.mm.count(Event::ForkEntries, done.copied as u64);
        self.mm.count(Event::EntryWrites, written as u64);
        self.mm.metered(done.meter);
        budget.take(budget::TABLE + done.cost());
        result
    }

    /// Copies the entries of `part`. `SLOWLY`: entries, references or mappings one at a time, as
    /// the switches select.
    fn entries<A: Account, const SLOWLY: bool>(
        &mut self,
        account: A,
        tables: Pair,
        part: VirtRange,
        done: &mut Done,
    ) -> Result<(), OutOfMemory> {
        let (mm, mem) = (self.mm, self.mm.machine().mem());
        let from = tables.from;
        let span = PteTable { mm, frame: from }.indices(part);
        let (mut index, live) = (span.start, PteTable { mm, frame: from }.live() as usize);
        while index < span.end && done.copied < live {
            let raw = mem.load(from, index);
            if raw == 0 {
                index += 1;
                continue;
            }
            let first = M::Pte::frame(raw);
            let piece = Piece {
                tables,
                index,
                pages: 1,
                first,
            };
            let Block { head, kind, order } = mm.frames().folio(first);
            index = if kind != Kind::Anon {
                index + self.other(piece, raw, (head, kind), done)
            } else if self.keeps((head, order)) {
                index + self.copy_now(piece, (head, order), part, done)?
            } else if SLOWLY && mm.switches().fork() == ForkBy::Pte {
                let left = live - done.copied;
                let end = if self.pinned { index + 1 } else { span.end };
                self.one_by_one(&account, tables, index..end, left, done)
            } else if order == Order(0) {
                let left = live - done.copied;
                // The next page may be pinned.
                let end = if self.pinned { index + 1 } else { span.end };
                with_single!(mm.account(), account => {
                    self.singles(&account, tables, index..end, left, done)
                })
            } else {
                let by = SLOWLY.then(|| mm.switches().by_page()).flatten();
                index + self.folio(by, &account, (piece, raw), (head, order), span.end, done)
            };
        }
        Ok(())
    }

    /// Copies anonymous PTEs one at a time, whatever the folio size: a fork without batches (seed
    /// 000's "before"). Returns as [`Self::singles`].
    #[inline(never)]
    fn one_by_one<A: Account>(
        &self,
        account: &A,
        tables: Pair,
        span: Range<usize>,
        left: usize,
        done: &mut Done,
    ) -> usize {
        let (mm, mem) = (self.mm, self.mm.machine().mem());
        let (mut index, mut copied, mut protected) = (span.start, 0, 0);
        let mut meter = Meter::default();
        // Cached: the cost of a folio must not be the lookup of its head.
        let (mut head, mut order) = (Pfn(u64::MAX), Order(0));
        while index < span.end && copied < left {
            let raw = mem.load(tables.from, index);
            if raw != 0 {
                let page = M::Pte::frame(raw);
                if page.0.wrapping_sub(head.0) >= order.pages() {
                    let Block {
                        head: found,
                        kind,
                        order: its,
                    } = mm.frames().folio(page);
                    if kind != Kind::Anon {
                        break;
                    }
                    (head, order) = (found, its);
                }
                let book = mm.frames().book(head, order);
                let part = Part::ptes((page - head) as u32, 1);
                account.map(&book, self.child, part, &mut meter);
                protected += copy_one(mm, tables, index, raw);
                copied += 1;
            }
            index += 1;
        }
        done.copied += copied;
        done.protected += protected;
        done.meter += meter;
        index
    }

    /// Fast path: copies order-0 folios up to the first entry of another kind or `left` entries;
    /// returns the end. No neighbours are read (seed 001); out of line, all state is in registers.
    #[inline(never)]
    fn singles<A: Account>(
        &self,
        account: &A,
        tables: Pair,
        span: Range<usize>,
        left: usize,
        done: &mut Done,
    ) -> usize {
        let (mm, mem) = (self.mm, self.mm.machine().mem());
        let (mut index, mut copied, mut protected) = (span.start, 0, 0);
        let mut meter = Meter::default();
        while index < span.end && copied < left {
            let raw = mem.load(tables.from, index);
            if raw != 0 {
                let Some(book) = mm.frames().single(M::Pte::frame(raw)) else {
                    break;
                };
                account.map(&book, self.child, Part::ptes(0, 1), &mut meter);
                protected += copy_one(mm, tables, index, raw);
                copied += 1;
            }
            index += 1;
        }
        done.copied += copied;
        done.protected += protected;
        done.meter += meter;
        index
    }

    /// Copies the first run of a large folio; returns its length.
    #[inline(always)]
    fn folio<A: Account>(
        &mut self,
        by: Option<Batching>,
        account: &A,
        (mut piece, raw): (Piece, u64),
        (head, order): (Pfn, Order),
        end: usize,
        done: &mut Done,
    ) -> usize {
        let mm = self.mm;
        piece.pages = expected(mm, &piece, (head, order), end);
        let book = mm.frames().book(head, order);
        let first = (piece.first - head) as u32;
        let part = Part::ptes(first, piece.pages as u32);
        match by {
            None => account.map(&book, self.child, part, &mut done.meter),
            Some(by) => account.map_by(by, &book, self.child, part, &mut done.meter),
        }
        let copied = copy_piece(mm, &piece, raw, done);
        if copied < piece.pages {
            // An unexpected hole.
            let (gone, rest) = (copied as u32, (piece.pages - copied) as u32);
            let part = Part::ptes(first + gone, rest);
            account.unmap(&book, self.child, part, &mut done.meter);
        }
        copied
    }

    /// Copies the entry of a page that is not anonymous.
    fn other(
        &mut self,
        piece: Piece,
        raw: u64,
        (head, kind): (Pfn, Kind),
        done: &mut Done,
    ) -> usize {
        if kind == Kind::Object {
            self.mm.frames().get(head).get_ref();
            self.object += 1;
        }
        done.protected += copy_one(self.mm, piece.tables, piece.index, raw);
        done.copied += 1;
        done.others += 1;
        1
    }

    /// Whether a long-term pin keeps the folio with the parent.
    #[inline]
    fn keeps(&self, (head, order): (Pfn, Order)) -> bool {
        self.pinned
            && self.mm.any_long_term(head, order.pages())
            && !mutant::on(Mutant::SharePinned)
    }

    /// Copies a pinned PMD leaf to the child: one folio or, if none is available, pages.
    fn copy_leaf(
        &mut self,
        to: &mut Cursor<'_, M>,
        (pfn, order): (Pfn, Order),
        attrs: Attrs,
    ) -> Result<(), OutOfMemory> {
        if let Ok(copy) = Folio::large_copy(self.mm, order, pfn) {
            to.install_copy(copy, order, attrs, self.child);
        } else {
            to.prepare(Level::Pte)?;
            let start = to.va();
            for page in 0..order.pages() {
                let copy = Folio::copy_of(self.mm, pfn + page)?;
                to.move_in_table(start + page * PAGE_SIZE);
                to.install_copy(copy, Order(0), attrs, self.child);
            }
        }
        self.anon += order.pages();
        Ok(())
    }

    /// Copies the run of a pinned folio's pages to the child, eagerly; the parent's entries do not
    /// change. Returns the number of pages.
    fn copy_now(
        &mut self,
        piece: Piece,
        (head, order): (Pfn, Order),
        part: VirtRange,
        done: &mut Done,
    ) -> Result<usize, OutOfMemory> {
        let left = (order.pages() - (piece.first - head)) as usize;
        let mm = self.mm;
        let [from, to] = [piece.tables.from, piece.tables.to].map(|frame| PteTable { mm, frame });
        let span = from.indices(part);
        let va = part.start + (piece.index - span.start) as u64 * PAGE_SIZE;
        let most = left.min(span.end - piece.index);
        for page in 0..most {
            let (index, wanted) = (piece.index + page, piece.first + page as u64);
            let Some(leaf) = from.present(index).filter(|leaf| leaf.pfn == wanted) else {
                return Ok(page);
            };
            let copy = Folio::copy_of(mm, wanted)?.into_pfn();
            let start = va + page as u64 * PAGE_SIZE;
            owner::begin(mm, (copy, Order(0)), self.child, start, By::Ptes);
            let attrs = from.seen(index, leaf.attrs);
            to.node().write_leaf(index, copy, attrs);
            done.copied += 1;
        }
        Ok(most)
    }
}

/// Copies all entries of the table for the 2 MiB at `start` to an empty one, for owner `who`.
pub(super) fn whole<'a, M: Machine>(
    from: PteTable<'a, M>,
    to: PteTable<'a, M>,
    start: VirtAddr,
    who: &Owner,
    gather: &mut Gather<'a, M>,
) {
    let mut copy = ForkCopy {
        mm: from.mm,
        child: who,
        gather,
        pinned: false,
        tables: false,
        anon: 0,
        object: 0,
    };
    let range = VirtRange::new(start, start + Level::Pmd.bytes());
    let Ok(()) = copy.table(from, to, range, &mut Budget::default()) else {
        unreachable!("memory is needed only for pages that are pinned");
    };
}

/// Expected length of the run: to the end of the folio or of the range, if the last entry maps its
/// page.
#[inline]
fn expected<M: Machine>(
    mm: &Mm<M>,
    piece: &Piece,
    (head, order): (Pfn, Order),
    end: usize,
) -> usize {
    let left = (order.pages() - (piece.first - head)) as usize;
    let most = left.min(end - piece.index);
    let maps = |page: usize| {
        let raw = mm
            .machine()
            .mem()
            .load(piece.tables.from, piece.index + page);
        M::Pte::frame(raw) == piece.first + page as u64
    };
    if maps(most - 1) {
        most
    } else {
        (1..most).find(|page| !maps(*page)).unwrap_or(most)
    }
}

/// Copies one entry without WRITE and clears WRITE in the parent; returns the parent's writes.
#[inline(always)]
fn copy_one<M: Machine>(mm: &Mm<M>, tables: Pair, index: usize, mut raw: u64) -> usize {
    let Pair { from, to } = tables;
    let mem = mm.machine().mem();
    let mut new = M::Pte::read_only(raw);
    let writable = new != raw;
    if writable && M::Pte::is_settled(raw) {
        mem.store_again(from, index, new);
    } else if writable {
        // The walker may set a bit at any moment: until it is read-only.
        while let Err(now) = mem.compare_exchange(from, index, raw, new) {
            (raw, new) = (now, M::Pte::read_only(now));
        }
    }
    mem.store_again(to, index, new);
    usize::from(writable)
}

/// Copies the run whose first entry is `raw` without WRITE, and clears WRITE in the parent. Stops
/// at the first entry outside the run; returns the number of entries.
#[inline(always)]
fn copy_piece<M: Machine>(mm: &Mm<M>, piece: &Piece, mut raw: u64, done: &mut Done) -> usize {
    let mem = mm.machine().mem();
    let mut page = 0;
    loop {
        let (index, left) = (piece.index + page, piece.pages - page);
        let (new, writable) = (M::Pte::read_only(raw), M::Pte::read_only(raw) != raw);
        let n = if !writable || M::Pte::is_settled(raw) {
            let row = Settled(Row {
                table: piece.tables.from,
                index,
                n: left,
            });
            mem.copy_run(row, piece.tables.to, frames::<M>(raw), frames::<M>(new))
        } else {
            // The walker may set a bit at any moment: until it is read-only.
            match mem.compare_exchange(piece.tables.from, index, raw, new) {
                Ok(()) => {
                    mem.store(piece.tables.to, index, new);
                    1
                }
                Err(_) => 0,
            }
        };
        page += n;
        done.copied += n;
        if writable {
            done.protected += n;
        }
        if page == piece.pages {
            return page;
        }
        raw = mem.load(piece.tables.from, piece.index + page);
        if M::Pte::frame(raw) != piece.first + page as u64 {
            return page;
        }
    }
}
