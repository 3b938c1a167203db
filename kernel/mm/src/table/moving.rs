//! Moving entries to another address (mremap): the pages stay where they are, and so do the tables
//! where both places are aligned alike. Seed 003: a table that moves costs as much as a page that
//! moves.
//!
//! ```text
//!   prepare   make the target's tables; split the PMD leaves that cannot stay whole      may fail, and then nothing has changed
//!   freeze    hide the largest entries that the range covers from the walker             where they stand: nothing is copied yet
//!   flush     once                                                                       now nobody can use the old place
//!   carry     write the entries at the new place, by the largest steps that may be taken; tables that are left empty go
//! ```
//! What was frozen is out of every CPU's reach after the flush, with all that is below: a table is
//! emptied by plain loads and stores, whatever the size of the steps. How large they are, is up to
//! the alignment of both places, the length and the switch `move=`. The account of no folio
//! changes.
//!
//! Each of the three walks is one recursion over the [`Piece`]s of a table, from the lowest table
//! that holds both places down. The level of its entries is an argument: nothing here is written
//! for a PTE, a PMD, a PUD or a PGD entry but the folding of blocks of PTEs.
//!
//! A table that several spaces share is unshared in [`Plan::prepare`], before its entries are
//! frozen one by one; moved whole it stays shared, as nothing in it depends on where it hangs.

mod piece;
mod write;

use super::edit::{Edit, Entries};
use super::node::Node;
use super::{Cursor, Zap};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, TABLE_ENTRIES};
use crate::frame::zone::Reserve;
use crate::manager::OutOfMemory;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::tlb::Gather;
use piece::{Piece, piece};

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Moves everything that is mapped in `from` (not empty) to `to ..`, where nothing is. All
    /// tables that are needed are made first, so it either fails with nothing changed or does
    /// everything. Tables of `from` that became empty go too.
    pub fn move_range(&mut self, from: VirtRange, to: VirtAddr) -> Result<(), OutOfMemory> {
        let plan = Plan {
            from,
            to,
            largest: self.mm().switches().move_level(),
        };
        let top = plan.top(self.root());
        if let Err(OutOfMemory) = plan.prepare(self, top, from) {
            // Nothing is mapped in the target: this takes back the tables.
            let range = VirtRange {
                start: to,
                end: plan.target(from.end),
            };
            self.zap_range(range, &mut Zap::default());
            return Err(OutOfMemory);
        }
        plan.freeze(top, from, self.gather);
        if !mutant::on(Mutant::MoveWithoutFlush) {
            self.gather.flush();
        }
        let part = Part {
            range: from,
            frozen: true,
        };
        if plan.carry(self, top, part, &mut None) {
            self.zap_range(from, &mut Zap::default());
        }
        Ok(())
    }

    /// The table below the entry for `at`, of which only a part moves: a PMD leaf is split, a
    /// shared table is copied.
    #[inline]
    fn open(
        &mut self,
        node: Node<'a, M>,
        at: VirtAddr,
    ) -> Result<Option<Node<'a, M>>, OutOfMemory> {
        let index = node.index(at);
        match node.entry(index) {
            Entry::Leaf { .. } => self.split_leaf(at, Reserve::User)?,
            Entry::Shared(_) => self.unshare(at, Reserve::User)?,
            found => return Ok(node.child(found)),
        }
        Ok(node.child(node.entry(index)))
    }
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

    /// The first piece of `part`: as many whole entries as go to one table, where entries of
    /// `level` may be moved whole.
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
    fn top<'a, M: Machine>(&self, root: Node<'a, M>) -> Node<'a, M> {
        let mut node = root;
        let last = VirtAddr(self.from.end.0 - 1);
        let apart = (self.from.start.0 ^ last.0)
            | (self.from.start.0 ^ self.to.0)
            | (self.from.start.0 ^ self.target(last).0);
        while apart >> node.level.shift() == 0
            && let Some(below) = node.below(self.to)
        {
            node = below;
        }
        node
    }

    /// The table that the entry for `at`, which is in `node`, goes to: often the same.
    #[inline]
    fn target_table<'a, M: Machine>(
        &self,
        root: Node<'a, M>,
        node: Node<'a, M>,
        at: VirtAddr,
    ) -> Option<Node<'a, M>> {
        let to = self.target(at);
        if (at.0 ^ to.0) >> node.level.shift() < TABLE_ENTRIES as u64 {
            return Some(node);
        }
        root.table_at(to, node.level)
    }

    /// Makes the target's tables for `part` of a table, and splits the PMD leaves that do not stay
    /// whole.
    fn prepare<'a, M: Machine>(
        &self,
        edit: &mut Edit<'_, 'a, M>,
        node: Node<'a, M>,
        part: VirtRange,
    ) -> Result<(), OutOfMemory> {
        let mut left = part;
        while !left.is_empty() {
            let piece = self.piece(node.level, left);
            left.start = piece.end;
            if piece.n > 0 {
                if !node.all_absent(node.index(piece.at), piece.n)
                    && self.target_table(edit.root(), node, piece.at).is_none()
                {
                    let to = self.target(piece.at);
                    Cursor::new(node.mm, edit.space, to).prepare(node.level)?;
                }
                continue;
            }
            if let Some(child) = edit.open(node, piece.at)? {
                self.prepare(edit, child, piece.range())?;
            }
        }
        Ok(())
    }

    /// Hides everything in `part` of a table from the walker, by the largest entries that it
    /// covers; the gather owes the flush. Returns whether nothing else is in the table: then what
    /// points to it is hidden too, unless the target lies there.
    fn freeze<'a, M: Machine>(
        &self,
        node: Node<'a, M>,
        part: VirtRange,
        gather: &mut Gather<'a, M>,
    ) -> bool {
        let level = node.level;
        let (mut frozen, mut left) = (0, part);
        if level == Level::Pte {
            let table = node.ptes();
            Entries {
                table,
                gather: &mut *gather,
            }
            .unfold_ends(part);
        }
        while !left.is_empty() {
            let piece = piece(level, left, true);
            left.start = piece.end;
            let index = level.index(piece.at);
            if piece.n > 0 {
                let n = node.freeze_run(index, piece.n);
                if n > 0 {
                    gather.moved(piece.range(), level);
                }
                frozen += n;
            } else if let Some(child) = node.child(node.entry(index))
                && self.freeze(child, piece.range(), gather)
                && !self.comes_under(piece.at, level)
            {
                frozen += node.freeze_run(index, 1);
                gather.unhooked(piece.at, child.level);
            }
        }
        node.mm.count(Event::EntryWrites, u64::from(frozen));
        frozen == node.live()
    }

    /// Whether something may come to stand under the entry of `level` for `va`.
    fn comes_under(&self, va: VirtAddr, level: Level) -> bool {
        let start = va.align_down(level.bytes());
        let last = VirtAddr(self.target(self.from.end).0 - 1);
        (self.to.align_down(level.bytes())..=last.align_down(level.bytes())).contains(&start)
    }
}
