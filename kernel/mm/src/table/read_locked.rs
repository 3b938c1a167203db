//! Zap beside other CPUs: as a reader of the space's lock.

use super::edit::{self, Entries};
use super::node::Node;
use super::{PageTable, Zap, budget};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, TABLE_ENTRIES};
use crate::manager::{Mm, SpaceId};
use crate::tlb::Gather;

/// The tables of a space, for a CPU that has its lock as a reader.
pub(crate) struct ReadLocked<'a, M: Machine> {
    mm: &'a Mm<M>,
    id: &'a SpaceId,
    root: Node<'a, M>,
}

impl<'a, M: Machine> ReadLocked<'a, M> {
    /// Those of the space with this tag.
    pub fn new(mm: &'a Mm<M>, id: &'a SpaceId, space: &PageTable) -> Self {
        let root = Node::root(mm, space);
        ReadLocked { mm, id, root }
    }

    /// Unmaps the private pages of `range` within the budget, one table after another; all tables
    /// stay. Returns where the rest begins: the end, or what needs the space's lock.
    ///
    /// A table stays locked until the TLBs are flushed: no page comes in the place of one that a
    /// CPU may still use.
    pub fn zap(&self, range: VirtRange, zap: &mut Zap) -> VirtAddr {
        let mut rest = range;
        while !rest.is_empty() && !zap.budget.is_spent() {
            let node = self.root.down_to(rest.start, Level::Pte);
            let (size, first) = (node.level.bytes(), node.index(rest.start));
            if node.level == Level::Pte {
                let end = rest.start.align_down(Level::Pmd.bytes()) + Level::Pmd.bytes();
                let part = VirtRange::new(rest.start, end.min(rest.end));
                let (table, gather) = (node.ptes(), &mut Gather::new(self.mm, self.id));
                let guard = table.meta().lock();
                let mut entries = Entries { table, gather };
                entries.drop_swapped(part, zap);
                entries.zap(part, zap);
                gather.finish();
                drop(guard);
                zap.budget.take(budget::TABLE);
                rest.start = part.end;
                continue;
            }
            let absent = (first..TABLE_ENTRIES).take_while(|index| node.is_absent(*index));
            let mut n = absent.count();
            if n == 0 {
                if !self.take_leaf(node, node.part(first, rest), zap) {
                    break;
                }
                n = 1;
            }
            zap.budget.take(1 + n as u32 / 8);
            rest.start = rest.end.min(rest.start.align_down(size) + n as u64 * size);
        }
        rest.start
    }
    /// Takes out the leaf above the PTE level that maps `part`. `false`: the range cuts it, or
    /// there is a table that is new, or shared with a child.
    fn take_leaf(&self, node: Node<'a, M>, part: VirtRange, zap: &mut Zap) -> bool {
        let guard = node.meta().lock();
        let Entry::Leaf { pfn, .. } = node.entry(node.index(part.start)) else {
            return false;
        };
        if part.len() != node.level.bytes() {
            return false;
        }
        zap.add(self.mm.frames().get(pfn).kind(), part.pages());
        let mut gather = Gather::new(self.mm, self.id);
        edit::take_leaf(node, part.start, &mut gather);
        gather.finish();
        drop(guard);
        zap.budget.take_leaf();
        true
    }
}
