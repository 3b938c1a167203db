//! The entries of one table, by runs of a folio.

use super::super::node::{PteTable, frames};
use super::{Done, ForkCopy};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtRange};
use crate::arch::{Machine, PhysMem, PteFormat, Row, Series, Settled};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::manager::{Mm, Result};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Book, By, Meter, Part, with_single};
use crate::switch::ForkBy;
use core::ops::Range;

/// Source and destination PTE tables.
pub(super) struct Pair<'a, M: Machine> {
    pub mm: &'a Mm<M>,
    pub from: Pfn,
    pub to: Pfn,
}

/// A run of entries: they map consecutive pages of one folio.
#[derive(Clone, Copy)]
struct Piece {
    index: usize,
    pages: usize,
    first: Pfn,
    /// The first entry.
    raw: u64,
}

impl<'a, M: Machine> ForkCopy<'_, 'a, M> {
    /// Copies the entries of `part`. `SLOWLY`: entries, references or mappings one at a time, as
    /// the switches select.
    pub(super) fn entries<A: Account, const SLOWLY: bool>(
        &mut self,
        account: A,
        tables: &Pair<'a, M>,
        part: VirtRange,
        done: &mut Done,
    ) -> Result {
        let (mm, mem) = (self.mm, self.mm.machine().mem());
        let frame = tables.from;
        let span = PteTable::new(mm, frame).indices(part);
        let (mut index, live) = (span.start, PteTable::new(mm, frame).live() as usize);
        while index < span.end && done.copied < live {
            let raw = mem.load(frame, index);
            if raw == 0 {
                index += 1;
                continue;
            }
            let first = M::Pte::frame(raw);
            let piece = Piece {
                index,
                pages: 1,
                first,
                raw,
            };
            let folio = mm.frames().folio(first);
            index = if folio.kind != Kind::Anon {
                match folio.kind {
                    Kind::Object => {
                        mm.frames().get(folio.head).get_ref();
                        self.object += 1;
                    }
                    Kind::Swap => {
                        self.swap_entry(&account, tables, index, raw, done);
                        index += 1;
                        continue;
                    }
                    _ => {}
                }
                // Of the zero page, and of markers, there may be many in a row.
                let is_zero = first == mm.zero_page();
                let most = if SLOWLY || !is_zero {
                    1
                } else {
                    span.end - index
                };
                index + tables.copy_others(index, raw, most, done)
            } else if self.keeps(&folio) {
                index + self.copy_now(tables, &piece, &folio, part, done)?
            } else if SLOWLY && mm.switches().fork() == ForkBy::Pte {
                // Cached: the cost of a folio must not be the lookup of its head.
                let mut folio = folio;
                let book = move |mm: &'a Mm<M>, page: Pfn| {
                    if page.0.wrapping_sub(folio.head.0) >= folio.order.pages() {
                        folio = mm.frames().folio(page);
                    }
                    let part = Part::ptes(page.0.wrapping_sub(folio.head.0) as u32, 1);
                    let book = mm.frames().book(folio.head, folio.order);
                    (folio.kind == Kind::Anon).then_some((book, part))
                };
                let (span, left) = (index..self.end(index, span.end), live - done.copied);
                self.pages(&account, tables, span, left, done, book)
            } else if folio.order == Order(0) {
                let (span, left) = (index..self.end(index, span.end), live - done.copied);
                let book =
                    |mm: &'a Mm<M>, page| Some((mm.frames().single(page)?, Part::ptes(0, 1)));
                with_single!(mm.account(), account => {
                    self.pages(&account, tables, span, left, done, book)
                })
            } else {
                index + self.folio::<_, SLOWLY>(&account, tables, piece, &folio, span.end, done)
            };
        }
        Ok(())
    }

    /// The end of the entries to copy at once, without a look at each one's pins.
    #[inline(always)]
    fn end(&self, index: usize, end: usize) -> usize {
        // The next page may be pinned.
        if self.pinned { index + 1 } else { end }
    }

    /// Copies pages one by one, each with its part of a folio from `book`, up to the first without
    /// one or `left` entries; returns the end. Fast path of order-0 folios: no neighbours are read
    /// (seed 001); out of line, all state is in registers.
    #[inline(never)]
    fn pages<A: Account, B: Book>(
        &self,
        account: &A,
        tables: &Pair<'a, M>,
        span: Range<usize>,
        left: usize,
        done: &mut Done,
        mut book: impl FnMut(&'a Mm<M>, Pfn) -> Option<(B, Part)>,
    ) -> usize {
        let &Pair { mm, from, to } = tables;
        let (tables, mem) = (Pair { mm, from, to }, mm.machine().mem());
        let (mut index, mut protected) = (span.start, 0);
        // Counts down: one number less to keep in the loop.
        let (most, mut left, mut meter) = (left, left, Meter::default());
        while index < span.end && left > 0 {
            let raw = mem.load(tables.from, index);
            if raw != 0 {
                let Some((book, part)) = book(self.mm, M::Pte::frame(raw)) else {
                    break;
                };
                account.map(&book, self.child, part, &mut meter);
                protected += tables.copy_one(index, raw);
                left -= 1;
            }
            index += 1;
        }
        done.copied += most - left;
        done.protected += protected;
        done.meter += meter;
        index
    }

    /// Copies the first run of a large folio; returns its length.
    #[inline(always)]
    fn folio<A: Account, const SLOWLY: bool>(
        &mut self,
        account: &A,
        tables: &Pair<'a, M>,
        mut piece: Piece,
        folio: &Block,
        end: usize,
        done: &mut Done,
    ) -> usize {
        piece.pages = tables.expected(&piece, folio, end);
        let book = self.mm.frames().book(folio.head, folio.order);
        let first = (piece.first - folio.head) as u32;
        let part = Part::ptes(first, piece.pages as u32);
        match SLOWLY.then(|| self.mm.switches().by_page()).flatten() {
            None => account.map(&book, self.child, part, &mut done.meter),
            Some(by) => account.map_by(by, &book, self.child, part, &mut done.meter),
        }
        let copied = tables.copy(&piece, done);
        if copied < piece.pages {
            // An unexpected hole.
            let (gone, rest) = (copied as u32, (piece.pages - copied) as u32);
            let part = Part::ptes(first + gone, rest);
            account.unmap(&book, self.child, part, &mut done.meter);
        }
        copied
    }

    /// Copies a swap entry.
    #[cold]
    #[inline(never)]
    pub(super) fn swap_entry<A: Account>(
        &mut self,
        account: &A,
        tables: &Pair<'a, M>,
        index: usize,
        raw: u64,
        done: &mut Done,
    ) {
        let slot = M::Pte::frame(raw);
        let slots = self.mm.frames().folio(slot);
        let book = self.mm.frames().book(slots.head, slots.order);
        let part = Part::ptes((slot - slots.head) as u32, 1);
        if !mutant::on(Mutant::CopyNameless) {
            account.map(&book, self.child, part, &mut done.meter);
        }
        self.swapped += 1;
        done.others -= tables.copy_others(index, raw, 1, done);
    }

    /// Copies the run of a pinned folio's pages to the child, eagerly; the parent's entries do not
    /// change. Returns the number of pages.
    fn copy_now(
        &mut self,
        tables: &Pair<'a, M>,
        piece: &Piece,
        folio: &Block,
        part: VirtRange,
        done: &mut Done,
    ) -> Result<usize> {
        let mm = self.mm;
        let [from, to] = [tables.from, tables.to].map(|frame| PteTable::new(mm, frame));
        let span = from.indices(part);
        let va = part.start + (piece.index - span.start) as u64 * PAGE_SIZE;
        let most = folio.pages_from(piece.first).min(span.end - piece.index);
        for page in 0..most {
            let (index, wanted) = (piece.index + page, piece.first + page as u64);
            let Some(leaf) = from.present(index).filter(|leaf| leaf.pfn == wanted) else {
                return Ok(page);
            };
            let copy = Folio::copy_of(mm, wanted)?.into_pfn();
            let start = va + page as u64 * PAGE_SIZE;
            mm.begin(Block::anon(copy, Order(0)), self.child, start, By::Ptes);
            let attrs = from.seen(index, leaf.attrs);
            to.write_leaf(index, copy, attrs);
            done.copied += 1;
        }
        Ok(most)
    }
}

impl<'a, M: Machine> Pair<'a, M> {
    /// The memory that holds the tables.
    #[inline(always)]
    pub(super) fn mem(&self) -> &'a M::Mem {
        self.mm.machine().mem()
    }

    /// Expected length of the run: to the end of the folio or of the range, if the last entry maps
    /// its page.
    #[inline]
    fn expected(&self, piece: &Piece, folio: &Block, end: usize) -> usize {
        let most = folio.pages_from(piece.first).min(end - piece.index);
        let maps = |page: usize| {
            let raw = self.mem().load(self.from, piece.index + page);
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
    fn copy_one(&self, index: usize, mut raw: u64) -> usize {
        let mem = self.mem();
        let mut new = M::Pte::read_only(raw);
        let writable = new != raw;
        if writable && M::Pte::is_settled(raw) {
            mem.store_again(self.from, index, new);
        } else if writable {
            // The walker may set a bit at any moment: until it is read-only.
            while let Err(now) = mem.compare_exchange(self.from, index, raw, new) {
                (raw, new) = (now, M::Pte::read_only(now));
            }
        }
        mem.store_again(self.to, index, new);
        usize::from(writable)
    }

    /// Copies the entry of a page that is not anonymous, and of those that equal it up to `most`;
    /// returns how many.
    #[inline(never)]
    pub(super) fn copy_others(
        &self,
        index: usize,
        raw: u64,
        most: usize,
        done: &mut Done,
    ) -> usize {
        let is_copied_alone = M::Pte::read_only(raw) == raw;
        let n = if most > 1 && is_copied_alone {
            let row = Settled(Row {
                table: self.from,
                index,
                n: most,
            });
            self.mem().copy_run(row, self.to, Series::same(raw), raw)
        } else {
            done.protected += self.copy_one(index, raw);
            1
        };
        done.copied += n;
        done.others += n;
        n
    }

    /// Copies the run without WRITE, and clears WRITE in the parent. Stops at the first entry
    /// outside the run; returns the number of entries.
    #[inline(always)]
    fn copy(&self, piece: &Piece, done: &mut Done) -> usize {
        let (mem, mut raw, mut page) = (self.mem(), piece.raw, 0);
        loop {
            let (index, left) = (piece.index + page, piece.pages - page);
            let new = M::Pte::read_only(raw);
            let writable = new != raw;
            let n = if !writable || M::Pte::is_settled(raw) {
                let row = Settled(Row {
                    table: self.from,
                    index,
                    n: left,
                });
                mem.copy_run(row, self.to, frames::<M>(raw), new)
            } else {
                // The walker may set a bit at any moment: until it is read-only.
                match mem.compare_exchange(self.from, index, raw, new) {
                    Ok(()) => {
                        mem.store(self.to, index, new);
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
            raw = mem.load(self.from, piece.index + page);
            if M::Pte::frame(raw) != piece.first + page as u64 {
                return page;
            }
        }
    }
}
