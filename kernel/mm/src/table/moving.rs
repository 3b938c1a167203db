//! Moving entries to another address (mremap): the pages stay where they are, and so do the tables where both places are
//! aligned alike. Seed 003: a table that moves costs as much as a page that moves.
//!
//! ```text
//!   prepare   make the target's tables; split the PMD leaves that cannot stay whole      may fail, and then nothing has changed
//!   freeze    hide the largest entries that the range covers from the walker             where they stand: nothing is copied yet
//!   flush     once                                                                       now nobody can use the old place
//!   carry     write the entries at the new place, by the largest steps that may be taken; tables that are left empty go
//! ```
//! What was frozen is out of every CPU's reach after the flush, with all that is below: a table is emptied by plain loads
//! and stores, whatever the size of the steps. How large they are, is up to the alignment of both places, the length and the
//! switch `move=`. The account of no folio changes.
//!
//! Each of the three walks is one recursion over the [`Piece`]s of a table, from the lowest table that holds both places down.
//! The level of its entries is an argument: nothing here is written for a PTE, a PMD, a PUD or a PGD entry but the folding of
//! blocks of PTEs.
//!
//! A table that several spaces share is unshared in [`Plan::prepare`], before its entries are frozen one by one; moved
//! whole it stays shared, as nothing in it depends on where it hangs.

mod carry;
mod piece;

use super::walk::table_at;
use super::{Cursor, PageTable, Zap, contpte, entry, split_leaf, unshare, zap_range};
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, TABLE_ENTRIES};
use crate::frame::zone::For;
use crate::frame::{Mm, OutOfMemory};
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::tlb::Gather;
use piece::{Piece, piece};

/// Moves everything that is mapped in `from` (not empty) to `to ..`, where nothing is. All tables that are needed are made
/// first, so it either fails with nothing changed or does everything. Tables of `from` that became empty go too.
pub fn move_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    from: VirtRange,
    to: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    let plan = Plan {
        from,
        to,
        largest: mm.switches().move_level(),
    };
    let top = plan.top(mm, space);
    if let Err(OutOfMemory) = plan.prepare(mm, space, top, from, gather) {
        // Nothing is mapped in the target: this takes back the tables.
        let range = VirtRange {
            start: to,
            end: plan.target(from.end),
        };
        zap_range(mm, space, range, gather, &mut Zap::default());
        return Err(OutOfMemory);
    }
    plan.freeze(mm, top, from, gather);
    if !mutant::on(Mutant::MoveWithoutFlush) {
        gather.flush();
    }
    let part = Part {
        range: from,
        frozen: true,
    };
    if plan.carry(mm, space, top, part, &mut None, gather) {
        zap_range(mm, space, from, gather, &mut Zap::default());
    }
    Ok(())
}

/// A table on the way down.
#[derive(Clone, Copy)]
struct Node {
    table: Pfn,
    /// Of its entries.
    level: Level,
}

impl Node {
    #[inline]
    fn read<M: Machine>(self, mm: &Mm<M>, va: VirtAddr) -> Entry {
        entry::read(mm, self.table, self.level.index(va), self.level)
    }
    /// The table that an entry of this one points to.
    #[inline]
    fn below(self, entry: Entry) -> Option<Node> {
        match (entry, self.level.lower()) {
            (Entry::Table(table), Some(level)) => Some(Node { table, level }),
            _ => None,
        }
    }
    #[inline]
    fn live<M: Machine>(self, mm: &Mm<M>) -> u32 {
        mm.frames().get(self.table).live()
    }
}

/// The table below the entry for `at`, of which only a part moves: a PMD leaf is split, a shared table is copied.
#[inline]
fn open<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    node: Node,
    at: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> Result<Option<Node>, OutOfMemory> {
    match node.read(mm, at) {
        Entry::Leaf { .. } => split_leaf(mm, space, at, For::User, gather)?,
        Entry::Shared(_) => unshare(mm, space, at, For::User, gather)?,
        found => return Ok(node.below(found)),
    }
    Ok(node.below(node.read(mm, at)))
}

/// A part of what a table translates.
#[derive(Clone, Copy)]
struct Part {
    range: VirtRange,
    /// Whether its entries were frozen where they stand; else what points to their table was.
    frozen: bool,
}

/// One move.
struct Plan {
    from: VirtRange,
    to: VirtAddr,
    /// The level of the largest entries that are moved whole.
    largest: Level,
}

impl Plan {
    #[inline]
    fn target(&self, va: VirtAddr) -> VirtAddr {
        self.to + (va - self.from.start)
    }

    /// The first piece of `part`: as many whole entries as go to one table, where entries of `level` may be moved whole.
    #[inline]
    fn piece(&self, level: Level, part: VirtRange) -> Piece {
        let apart = (self.from.start.0 ^ self.to.0) & (level.bytes() - 1);
        let alike = apart == 0 || mutant::on(Mutant::MoveUnlike);
        let mut piece = piece(level, part, alike && level <= self.largest);
        let room = TABLE_ENTRIES - level.index(self.target(piece.at));
        if piece.n > room {
            (piece.n, piece.end) = (room, piece.at + ((room as u64) << level.shift()));
        }
        piece
    }

    /// The lowest table that holds both places: it stays what it is.
    #[inline]
    fn top<M: Machine>(&self, mm: &Mm<M>, space: &PageTable) -> Node {
        let (mut table, mut level) = (space.root, Level::Pgd);
        let last = VirtAddr(self.from.end.0 - 1);
        let apart = (self.from.start.0 ^ last.0)
            | (self.from.start.0 ^ self.to.0)
            | (self.from.start.0 ^ self.target(last).0);
        while apart >> level.shift() == 0
            && let Entry::Table(next) = entry::read(mm, table, level.index(self.to), level)
            && let Some(lower) = level.lower()
        {
            (table, level) = (next, lower);
        }
        Node { table, level }
    }

    /// The table that the entry for `at`, which is in `node`, goes to: often the same.
    #[inline]
    fn target_table<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &PageTable,
        node: Node,
        at: VirtAddr,
    ) -> Option<Pfn> {
        let to = self.target(at);
        if (at.0 ^ to.0) >> node.level.shift() < TABLE_ENTRIES as u64 {
            return Some(node.table);
        }
        table_at(mm, space, to, node.level)
    }

    /// Makes the target's tables for `part` of a table, and splits the PMD leaves that do not stay whole.
    fn prepare<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &mut PageTable,
        node: Node,
        part: VirtRange,
        gather: &mut Gather<'_, M>,
    ) -> Result<(), OutOfMemory> {
        let mut left = part;
        while !left.is_empty() {
            let piece = self.piece(node.level, left);
            left.start = piece.end;
            if piece.n > 0 {
                let index = node.level.index(piece.at);
                if !entry::all_absent(mm, node.table, index, piece.n)
                    && self.target_table(mm, space, node, piece.at).is_none()
                {
                    Cursor::new(mm, space, self.target(piece.at)).prepare(node.level)?;
                }
                continue;
            }
            if let Some(child) = open(mm, space, node, piece.at, gather)? {
                self.prepare(mm, space, child, piece.range(), gather)?;
            }
        }
        Ok(())
    }

    /// Hides everything in `part` of a table from the walker, by the largest entries that it covers; the gather owes the flush.
    /// Returns whether nothing else is in the table: then what points to it is hidden too, unless the target lies there.
    fn freeze<M: Machine>(
        &self,
        mm: &Mm<M>,
        node: Node,
        part: VirtRange,
        gather: &mut Gather<'_, M>,
    ) -> bool {
        let Node { table, level } = node;
        let (mut frozen, mut left) = (0, part);
        if level == Level::Pte {
            contpte::unfold_ends(mm, table, part, gather);
        }
        while !left.is_empty() {
            let piece = piece(level, left, true);
            left.start = piece.end;
            let at = (table, level.index(piece.at), level);
            if piece.n > 0 {
                let n = entry::freeze_run(mm, at, piece.n);
                if n > 0 {
                    gather.moved(piece.range(), level);
                }
                frozen += n;
            } else if let Some(child) = node.below(node.read(mm, piece.at))
                && self.freeze(mm, child, piece.range(), gather)
                && !self.comes_under(piece.at, level)
            {
                frozen += entry::freeze_run(mm, at, 1);
                gather.unhooked(piece.at, child.level);
            }
        }
        mm.count(Event::EntryWrites, u64::from(frozen));
        frozen == node.live(mm)
    }

    /// Whether something may come to stand under the entry of `level` for `va`.
    fn comes_under(&self, va: VirtAddr, level: Level) -> bool {
        let start = va.align_down(level.bytes());
        let last = VirtAddr(self.target(self.from.end).0 - 1);
        (self.to.align_down(level.bytes())..=last.align_down(level.bytes())).contains(&start)
    }
}
