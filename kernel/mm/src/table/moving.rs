//! Moves entries to another address (mremap): pages stay in place, and so do tables where both
//! ranges are aligned alike. Seed 003: a table that moves costs as much as a page that moves.
//!
//! ```text
//!   prepare   allocate the target's tables; split the PMD leaves that cannot stay whole  a failure here changes nothing
//!   freeze    hide the largest entries that the range covers from the walker             in place: nothing is copied yet
//!   flush     once                                                                       now no CPU can use the old address
//!   carry     write the entries at the new address in the largest possible steps; free tables that are left empty
//! ```
//! After the flush no CPU reaches frozen entries nor what is below them: a table is emptied by
//! plain loads and stores. Step size depends on the alignment of both ranges, the length and the
//! switch `move=`. No folio's account changes.
//!
//! A shared table is unshared before its entries are frozen one by one; moved whole it stays
//! shared, as its contents do not depend on its address.

mod write;

use super::edit::Edit;
use super::node::Node;
use super::{Cursor, Zap};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine, TABLE_ENTRIES};
use crate::frame::zone::Reserve;
use crate::manager::{OutOfMemory, Result};
use crate::mutant::{self, Mutant};
use crate::stat::Event;

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Moves everything mapped in `from`, which is not empty, to `to ..`, which is unmapped. All
    /// tables are allocated first, so a failure changes nothing. Empty source tables are freed.
    /// With `all_whole`, as for huge pages, leaves move whole whatever the switch says.
    pub fn move_range(&mut self, from: VirtRange, to: VirtAddr, all_whole: bool) -> Result {
        let largest = match all_whole {
            true => Level::Pud,
            false => self.mm().switches().move_level(),
        };
        let plan = Plan { from, to, largest };
        let top = plan.top(self.root());
        if let Err(OutOfMemory) = plan.prepare(self, top, from) {
            // The target maps nothing: this frees its tables.
            let range = VirtRange {
                start: to,
                end: plan.target(from.end),
            };
            self.free_tables(range);
            return Err(OutOfMemory);
        }
        plan.freeze(self, top, from);
        if !mutant::on(Mutant::MoveWithoutFlush) {
            self.gather.flush();
        }
        let part = Part {
            range: from,
            frozen: true,
        };
        if plan.carry(self, top, part) {
            self.free_tables(from);
        }
        Ok(())
    }

    /// Frees the tables of a range that maps nothing.
    pub(crate) fn free_tables(&mut self, range: VirtRange) {
        let stopped = self.zap(range, &mut Zap::default());
        debug_assert!(stopped.is_none(), "without a limit nothing is left");
    }
}

/// `n` entries of one table covered whole, or the part of one that ends at `end`.
struct Piece {
    at: VirtAddr,
    n: usize,
    end: VirtAddr,
}

/// The first piece of `part`, which lies in one table: all entries that it covers whole, if
/// `whole`.
#[inline]
fn piece(level: Level, part: VirtRange, whole: bool) -> Piece {
    let (at, bytes) = (part.start, level.bytes());
    let n = (part.end - at) >> level.shift();
    if whole && n > 0 && at.is_aligned(bytes) {
        let end = at + (n << level.shift());
        return Piece {
            at,
            n: n as usize,
            end,
        };
    }
    let end = VirtAddr((at.0 | (bytes - 1)) + 1).min(part.end);
    Piece { at, n: 0, end }
}

impl Piece {
    #[inline]
    fn range(&self) -> VirtRange {
        VirtRange {
            start: self.at,
            end: self.end,
        }
    }
}

/// A subrange of a table.
#[derive(Clone, Copy)]
struct Part {
    range: VirtRange,
    /// Whether its own entries are frozen; else the entry above is.
    frozen: bool,
}

/// A move. Each of the three walks recurses over the [`Piece`]s of a table, from the lowest table
/// that holds both ranges down. The level is an argument: only the folding of blocks is specific to
/// PTEs.
struct Plan {
    from: VirtRange,
    to: VirtAddr,
    /// Level of the largest entries that are moved whole.
    largest: Level,
}

impl Plan {
    #[inline]
    fn target(&self, va: VirtAddr) -> VirtAddr {
        self.to + (va - self.from.start)
    }

    /// The first piece of `part`: as many whole entries as go to one table, if entries of `level`
    /// may be moved whole.
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

    /// The lowest table that holds both ranges: it stays in place.
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

    /// The target table for the entry for `at` in `node`: often `node` itself.
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

    /// Allocates the target's tables for `part` of a table, and splits PMD leaves that cannot stay
    /// whole.
    fn prepare<'a, M: Machine>(
        &self,
        edit: &mut Edit<'_, 'a, M>,
        node: Node<'a, M>,
        part: VirtRange,
    ) -> Result {
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
            edit.open(node, piece.at, Reserve::User)?;
            if let Some(child) = node.below(piece.at) {
                self.prepare(edit, child, piece.range())?;
            }
        }
        Ok(())
    }

    /// Freezes everything in `part` of a table by the largest entries that it covers; the gather
    /// owes the flush. Returns whether the table holds nothing else: its entry above is then frozen
    /// too, unless the target lies there.
    fn freeze<'a, M: Machine>(
        &self,
        edit: &mut Edit<'_, 'a, M>,
        node: Node<'a, M>,
        part: VirtRange,
    ) -> bool {
        let level = node.level;
        let (mut frozen, mut left) = (0, part);
        if level == Level::Pte {
            edit.entries(node.ptes()).unfold_ends(part);
        }
        while !left.is_empty() {
            let piece = piece(level, left, true);
            left.start = piece.end;
            let index = level.index(piece.at);
            if piece.n > 0 {
                let n = node.freeze_run(index, piece.n);
                if n > 0 {
                    edit.gather.moved(piece.range(), level);
                }
                frozen += n;
            } else if let Some(child) = node.child(node.entry(index))
                && self.freeze(edit, child, piece.range())
                && !self.comes_under(piece.at, level)
            {
                frozen += node.freeze_run(index, 1);
                edit.gather.unhooked(piece.at, child.level);
            }
        }
        node.mm.count(Event::EntryWrites, u64::from(frozen));
        frozen == node.live()
    }

    /// Whether the target lies under the entry of `level` for `va`.
    fn comes_under(&self, va: VirtAddr, level: Level) -> bool {
        let start = va.align_down(level.bytes());
        let last = VirtAddr(self.target(self.from.end).0 - 1);
        (self.to.align_down(level.bytes())..=last.align_down(level.bytes())).contains(&start)
    }
}
