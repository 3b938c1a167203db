//! Copying entries to a child: table by table, folio by folio, no lookups per page.
//!
//! An entry is copied with its own bits, use and fold included, less WRITE, so entries of one folio
//! need not be alike to be one batch (seed 000 compares them): the account wants to know only how
//! many pages of which folio. Folded blocks are complete on both sides, because what a range cuts
//! is unfolded first, and stay folded.

use super::budget::some_leaf_tables;
use super::edit::Entries;
use super::node::{Node, Present, PteTable};
use super::walk::Leaves;
use super::{Budget, Cursor, PageTable, budget, owner, share};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PhysMem, PteFormat};
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

/// Shares the private pages of a parent with a child that nobody runs yet.
pub struct ForkCopy<'s, 'a, M: Machine> {
    /// The memory manager of both.
    pub mm: &'a Mm<M>,
    /// Whose the child's mappings are.
    pub child: &'s Owner,
    /// What the parent's entries are owed.
    pub gather: &'s mut Gather<'a, M>,
    /// Whether the parent may have pages with long-term pins: folios with such pages are copied at
    /// once, for the holder of the pin goes on with the parent's page.
    pub pinned: bool,
    /// Whether tables are shared whole where the range covers all of theirs (`share`): private
    /// anonymous memory only.
    pub tables: bool,
    /// Private pages that the child has now.
    pub anon: u64,
    /// Pages of objects that the child has now.
    pub object: u64,
}

/// What was done in one table.
#[derive(Default)]
struct Done {
    /// Entries that the child has.
    copied: usize,
    /// Those of them that map no anonymous memory.
    others: usize,
    /// Entries that the parent may not write any more.
    protected: usize,
    meter: Meter,
}

impl Done {
    /// What it took, in entries ([`Budget`]): the account is updated once for a run, or for a page.
    #[inline]
    fn cost(&self) -> u32 {
        budget::of_runs(self.meter.updates, self.copied as u32)
    }
}

/// The frames of a PTE table and of the one that its entries are copied to.
#[derive(Clone, Copy)]
struct Pair {
    from: Pfn,
    to: Pfn,
}

/// Consecutive entries of one table that map consecutive pages of one folio.
#[derive(Clone, Copy)]
struct Piece {
    tables: Pair,
    index: usize,
    pages: usize,
    first: Pfn,
}

impl<'a, M: Machine> ForkCopy<'_, 'a, M> {
    /// Shares the private pages of `range`, as far as the budget reaches; returns where the rest
    /// begins, if there is one. Both sides lose WRITE, each folio gains as many references as pages
    /// are copied. On failure the child has some of them; the caller drops it. No PMD leaf crosses
    /// an end of the range: VMAs that are cut split theirs.
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
                    // The references of the table change hands.
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

    /// Shares a PMD leaf whole.
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

    /// Shares what a PTE table maps in `part`.
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
        // The scheme is chosen once for the table, not for each entry.
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

    /// Shares the entries of `part`. `SLOWLY`: entries, references or mappings go one by one, as
    /// the switches have it.
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

    /// Shares anonymous pages one by one, whatever the size of their folios, as a fork does that
    /// knows of no batches (seed 000's "before"); as [`Self::singles`].
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
        // Found once: what a folio costs is not to be the search for its head.
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

    /// Shares single pages, up to the first entry of anything else or until `left` are done;
    /// returns where it ends. They have a way of their own, with nothing to find out about
    /// neighbours (seed 001), and out of line, all in registers.
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

    /// Shares what comes first of a large folio; returns how many entries that were.
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
            // A hole that could not be expected.
            let (gone, rest) = (copied as u32, (piece.pages - copied) as u32);
            let part = Part::ptes(first + gone, rest);
            account.unmap(&book, self.child, part, &mut done.meter);
        }
        copied
    }

    /// Shares a page that is no anonymous memory.
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

    /// Whether the parent keeps the folio for itself, because of a long-term pin.
    #[inline]
    fn keeps(&self, (head, order): (Pfn, Order)) -> bool {
        self.pinned
            && self.mm.any_long_term(head, order.pages())
            && !mutant::on(Mutant::SharePinned)
    }

    /// Gives the child a copy of a pinned PMD leaf, in one folio or, where there is none, in pages.
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

    /// Gives the child copies of all that is mapped, here and in order, of a pinned folio; the
    /// parent keeps its pages as they are. Returns how many.
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

/// Copies all entries of a table, which translates the 2 MiB from `start` on, to an empty one; the
/// references are `who`'s.
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

/// How many entries of the piece there should be: to the end of the folio or of the range, if the
/// last of them is there.
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

/// Writes one entry to the child, and takes WRITE from both sides; returns how many entries of the
/// parent that changed.
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

/// Writes the piece's entries, of which the first is `raw`, to the child, and takes WRITE from both
/// sides. Stops where an entry maps something else; returns how many there were.
#[inline(always)]
fn copy_piece<M: Machine>(mm: &Mm<M>, piece: &Piece, mut raw: u64, done: &mut Done) -> usize {
    let mem = mm.machine().mem();
    let mut page = 0;
    loop {
        let (index, left) = (piece.index + page, piece.pages - page);
        let (new, writable) = (M::Pte::read_only(raw), M::Pte::read_only(raw) != raw);
        let n = if !writable || M::Pte::is_settled(raw) {
            let step = M::Pte::NEXT_FRAME;
            mem.copy_run(
                (piece.tables.from, piece.tables.to),
                index,
                left,
                raw,
                new,
                step,
            )
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
