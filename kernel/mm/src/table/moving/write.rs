//! The last step of a move: writes unreachable entries at their new address.

use super::super::edit::Edit;
use super::super::node::{Node, PteTable};
use super::super::{contpte, share};
use super::{Part, Plan};
use crate::addr::VirtRange;
use crate::arch::{Level, Machine, PteFormat, TABLE_ENTRIES};
use crate::stat::Event;

/// Buffer for entries that move by blocks; cleared once per move, and only if needed.
type Room = [u64; TABLE_ENTRIES];

/// Bug: [`Plan::prepare`] allocates all tables.
const NO_TABLE: &str = "entries are moved to where no table is";
/// Bug: the target holds nothing, not even a table, as tables are allocated for what a VMA maps and
/// freed with it ([`crate::check`]).
const TAKEN: &str = "entries are moved over others";

impl Plan {
    /// Moves the contents of `part` of a table. Returns whether an unfrozen table was left empty
    /// for the time being: it may be a target.
    pub(super) fn carry<'a, M: Machine>(
        &self,
        edit: &mut Edit<'_, 'a, M>,
        node: Node<'a, M>,
        part: Part,
        room: &mut Option<Room>,
    ) -> bool {
        let level = node.level;
        if level == Level::Pte && M::Pte::CONTIG_ORDER.is_some() {
            let room = room.get_or_insert([0; TABLE_ENTRIES]);
            self.carry_blocks(edit, node.ptes(), part, room);
            return false;
        }
        let (mut left, mut left_empty) = (part.range, false);
        while !left.is_empty() {
            let piece = self.piece(level, left);
            left.start = piece.end;
            let index = level.index(piece.at);
            if piece.n > 0 {
                let Some(target) = self.target_table(edit.root(), node, piece.at) else {
                    assert!(node.all_absent(index, piece.n), "{NO_TABLE}");
                    continue;
                };
                let to = level.index(self.target(piece.at));
                debug_assert!(target.all_absent(to, piece.n), "{TAKEN}");
                let moved = node.move_run(index, piece.n, part.frozen, target, to);
                count(node, target, moved);
            } else if let Some(child) = node.child(node.frozen_entry(index)) {
                let inside = Part {
                    range: piece.range(),
                    frozen: piece.range().len() < level.bytes(),
                };
                left_empty |= self.carry(edit, child, inside, room);
                if child.live() != 0 {
                    continue;
                }
                // An unfrozen table stays: it may be a target.
                if part.frozen && !node.is_frozen(index) {
                    left_empty = true;
                    continue;
                }
                node.clear(index);
                node.add_live(u32::MAX);
                edit.space.pages -= 1;
                edit.gather.dead_table(child.frame);
            }
        }
        left_empty
    }

    /// [`Self::carry`] for a PTE table with contpte blocks, which are refolded for the new address.
    fn carry_blocks<'a, M: Machine>(
        &self,
        edit: &mut Edit<'_, 'a, M>,
        table: PteTable<'a, M>,
        part: Part,
        room: &mut Room,
    ) {
        let Part { range, frozen } = part;
        let mut taken = &mut room[..range.pages() as usize];
        table.take_run(Level::Pte.index(range.start), taken, frozen);
        contpte::unfold_carried::<M>(taken, range.start, self.target(range.start));
        let mut left = range;
        while !left.is_empty() {
            let piece = self.piece(Level::Pte, left);
            left.start = piece.end;
            let (these, rest) = taken.split_at_mut(piece.n);
            taken = rest;
            let to = self.target(piece.at);
            let Some(target) = edit.root().table_at(to, Level::Pte) else {
                assert!(these.iter().all(|raw| *raw == 0), "{NO_TABLE}");
                continue;
            };
            debug_assert!(target.all_absent(target.index(to), piece.n), "{TAKEN}");
            contpte::fold_carried(table.mm, these, to);
            target.ptes().put_run(target.index(to), these);
            let moved = if piece.n == TABLE_ENTRIES {
                table.live()
            } else {
                these.iter().map(|raw| u32::from(*raw != 0)).sum()
            };
            count(table.node(), target, moved);
            let end = self.target(piece.end);
            edit.entries(target.ptes())
                .fold_ends(VirtRange { start: to, end });
        }
    }
}

/// Counts entries moved between tables.
fn count<M: Machine>(from: Node<'_, M>, to: Node<'_, M>, moved: u32) {
    from.add_live(moved.wrapping_neg());
    to.add_live(moved);
    share::inherit_zeros(from, to);
    from.mm.count(Event::Moved, u64::from(moved));
    from.mm.count(Event::EntryWrites, u64::from(moved));
}
