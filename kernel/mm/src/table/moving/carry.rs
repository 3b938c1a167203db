//! The last step of a move: entries that nobody can reach any more are written at their new place.

use super::super::walk::table_at;
use super::super::{PageTable, contpte, entry, share};
use super::{Node, Part, Plan};
use crate::addr::{Pfn, VirtRange};
use crate::arch::{Level, Machine, PteFormat, TABLE_ENTRIES};
use crate::frame::Mm;
use crate::stat::Event;
use crate::tlb::Gather;

/// Entries on their way, where they are looked at by blocks; cleared once for a move, and only where it is needed.
type Room = [u64; TABLE_ENTRIES];

/// Our own mistake: [`Plan::prepare`] makes the tables for all that there is.
const NO_TABLE: &str = "entries are moved to where no table is";
/// Another: nothing stands where entries go, not even a table, as tables are made for what a VMA maps and go with it
/// ([`crate::check`]).
const TAKEN: &str = "entries are moved over others";

impl Plan {
    /// Moves what is in `part` of a table. Returns whether a table that was not hidden was left empty for the time being: something
    /// may come there later.
    pub(super) fn carry<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &mut PageTable,
        node: Node,
        part: Part,
        room: &mut Option<Room>,
        gather: &mut Gather<'_, M>,
    ) -> bool {
        let Node { table, level } = node;
        if level == Level::Pte && M::Pte::CONTIG_ORDER.is_some() {
            let room = room.get_or_insert([0; TABLE_ENTRIES]);
            self.carry_blocks(mm, space, table, part, room, gather);
            return false;
        }
        let (mut left, mut left_empty) = (part.range, false);
        while !left.is_empty() {
            let piece = self.piece(level, left);
            left.start = piece.end;
            let index = level.index(piece.at);
            if piece.n > 0 {
                let Some(target) = self.target_table(mm, space, node, piece.at) else {
                    assert!(entry::all_absent(mm, table, index, piece.n), "{NO_TABLE}");
                    continue;
                };
                let to = (target, level.index(self.target(piece.at)));
                debug_assert!(entry::all_absent(mm, to.0, to.1, piece.n), "{TAKEN}");
                let moved = entry::move_run(mm, (table, index), to, piece.n, part.frozen);
                count(mm, table, target, moved);
            } else if let Some(child) = node.below(entry::read_frozen(mm, table, index, level)) {
                let inside = Part {
                    range: piece.range(),
                    frozen: piece.range().len() < level.bytes(),
                };
                left_empty |= self.carry(mm, space, child, inside, room, gather);
                if child.live(mm) != 0 {
                    continue;
                }
                // What was not hidden waits: something may come there later.
                if part.frozen && !entry::is_frozen(mm, table, index) {
                    left_empty = true;
                    continue;
                }
                entry::clear(mm, table, index);
                add_live(mm, table, u32::MAX);
                space.pages -= 1;
                gather.dead_table(child.table);
            }
        }
        left_empty
    }

    /// The same for a table of PTEs, where they may be in blocks: these are what they must be at the new place.
    fn carry_blocks<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &PageTable,
        table: Pfn,
        part: Part,
        room: &mut Room,
        gather: &mut Gather<'_, M>,
    ) {
        let Part { range, frozen } = part;
        let mut taken = &mut room[..range.pages() as usize];
        entry::take_run(mm, (table, Level::Pte.index(range.start)), taken, frozen);
        contpte::unfold_carried::<M>(taken, range.start, self.target(range.start));
        let mut left = range;
        while !left.is_empty() {
            let piece = self.piece(Level::Pte, left);
            left.start = piece.end;
            let (these, rest) = taken.split_at_mut(piece.n);
            taken = rest;
            let to = self.target(piece.at);
            let Some(target) = table_at(mm, space, to, Level::Pte) else {
                assert!(these.iter().all(|raw| *raw == 0), "{NO_TABLE}");
                continue;
            };
            let at = (target, Level::Pte.index(to));
            debug_assert!(entry::all_absent(mm, at.0, at.1, piece.n), "{TAKEN}");
            contpte::fold_carried(mm, these, to);
            entry::put_run(mm, at, these);
            let moved = if piece.n == TABLE_ENTRIES {
                mm.frames().get(table).live()
            } else {
                these.iter().map(|raw| u32::from(*raw != 0)).sum()
            };
            count(mm, table, target, moved);
            let end = self.target(piece.end);
            contpte::fold_ends(mm, target, VirtRange { start: to, end }, gather);
        }
    }
}

/// Counts entries that went from one table to another.
fn count<M: Machine>(mm: &Mm<M>, from: Pfn, to: Pfn, moved: u32) {
    add_live(mm, from, moved.wrapping_neg());
    add_live(mm, to, moved);
    share::inherit_zeros(mm, from, to);
    mm.count(Event::Moved, u64::from(moved));
    mm.count(Event::EntryWrites, u64::from(moved));
}

fn add_live<M: Machine>(mm: &Mm<M>, table: Pfn, n: u32) {
    let meta = mm.frames().get(table);
    meta.set_live(meta.live().wrapping_add(n));
}
