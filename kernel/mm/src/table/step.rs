//! Looking at the leaves of a range step by step, so that the lock of the space is held for a short
//! time only.

use super::PageTable;
use super::node::Node;
use super::walk::{Leaf, Leaves, leaf_tables};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::manager::{Mm, SpaceId};
use crate::tlb::Gather;

/// Leaves in a step, about: they take some 50 instructions each to be counted.
const STEP: u64 = 1024;
/// What a PTE table counts for besides its leaves, as all of its entries are read.
const TABLE: u64 = 128;

/// Calls `f` for each leaf of one step from the start of `range` on. Returns where the rest begins:
/// the end of `range` when there is none. Tables that all others have left become the space's own
/// first, so that the account says so.
pub(crate) fn step<M: Machine>(
    mm: &Mm<M>,
    id: &SpaceId,
    space: &mut PageTable,
    range: VirtRange,
    f: &mut impl FnMut(Leaf),
) -> VirtAddr {
    let root = Node::root(mm, space);
    if let Some(leaves) = only_table(root, range) {
        leaves.each(f);
        return range.end;
    }
    let mut seen = 0;
    let stopped = leaf_tables(root, range, &mut |mut leaves| {
        if seen >= STEP {
            return Err(leaves.part.start);
        }
        if leaves.shared {
            let mut gather = Gather::new(mm, id);
            leaves.shared = !space.edit(&mut gather).settle(leaves.part.start);
            gather.finish();
        }
        if leaves.node.level == Level::Pte {
            seen += TABLE;
        }
        leaves.each(&mut |leaf| {
            seen += 1;
            f(leaf);
        });
        Ok(())
    });
    stopped.err().unwrap_or(range.end)
}

/// The PTE table that holds all leaves of a range, as it does for most areas, unless it is shared.
#[inline]
fn only_table<'a, M: Machine>(root: Node<'a, M>, part: VirtRange) -> Option<Leaves<'a, M>> {
    let first = part.start.align_down(Level::Pmd.bytes());
    if part.end - first > Level::Pmd.bytes() {
        return None;
    }
    Some(Leaves {
        node: root.pte_table(part.start)?.node(),
        shared: false,
        part,
    })
}
