//! Leaf walks in steps, which bound the time under the lock of the space.

use super::PageTable;
use super::node::Node;
use super::walk::{Leaf, Leaves, leaf_tables};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::manager::{Mm, SpaceId};
use crate::tlb::Gather;

/// Approximate leaves in a step; counting one takes some 50 instructions.
const STEP: u64 = 1024;
/// Cost of a PTE table besides its leaves, as all entries are read.
const TABLE: u64 = 128;

/// Calls `f` for each leaf of one step at the start of `range`. Returns where the rest begins, or
/// the end of `range`. Shared tables with one sharer left are taken over first, so that the account
/// is exact.
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

/// Fast path: the one unshared PTE table that holds all leaves of a small range.
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
