//! The last step of a move: writes unreachable entries at their new address.

use super::super::edit::Edit;
use super::super::node::Node;
use super::{Part, Plan};
use crate::addr::VirtRange;
use crate::arch::{Level, Machine, PteFormat};

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
    ) -> bool {
        let level = node.level;
        let contpte = level == Level::Pte && M::Pte::CONTIG_ORDER.is_some();
        if contpte {
            let to = self.target(part.range.start);
            node.ptes().refold(part.range, to, part.frozen);
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
                let to = self.target(piece.at);
                debug_assert!(target.all_absent(level.index(to), piece.n), "{TAKEN}");
                node.move_run(index, piece.n, part.frozen, target, level.index(to));
                if contpte {
                    let end = self.target(piece.end);
                    edit.entries(target.ptes())
                        .fold_ends(VirtRange { start: to, end });
                }
            } else if let Some(child) = node.child(node.frozen_entry(index)) {
                let inside = Part {
                    range: piece.range(),
                    frozen: piece.range().len() < level.bytes(),
                };
                left_empty |= self.carry(edit, child, inside);
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
}
