//! Zap beside other CPUs: as a reader of the space's lock.

use super::edit::{Entries, take_leaf};
use super::node::Node;
use super::{PageTable, Zap, budget};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, TABLE_ENTRIES};
use crate::manager::{Mm, SpaceId};
use crate::tlb::Gather;

/// The tables of a space, for a CPU that has its lock as a reader.
pub(crate) struct Beside<'a, M: Machine> {
    mm: &'a Mm<M>,
    id: &'a SpaceId,
    root: Node<'a, M>,
}

impl<'a, M: Machine> Beside<'a, M> {
    /// Those of the space with this tag.
    pub fn new(mm: &'a Mm<M>, id: &'a SpaceId, space: &PageTable) -> Self {
        let root = Node::root(mm, space);
        Beside { mm, id, root }
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
            let next = match node.level {
                Level::Pte => Some(self.zap_ptes(node, rest, zap)),
                _ => self.zap_above(node, rest, zap),
            };
            let Some(next) = next else {
                break;
            };
            rest.start = next.min(rest.end);
        }
        rest.start
    }

    /// The entries of a PTE table; returns where it ends.
    fn zap_ptes(&self, node: Node<'a, M>, rest: VirtRange, zap: &mut Zap) -> VirtAddr {
        let end = rest.start.align_down(Level::Pmd.bytes()) + Level::Pmd.bytes();
        let part = VirtRange::new(rest.start, end.min(rest.end));
        let (table, gather) = (node.ptes(), &mut Gather::new(self.mm, self.id));
        let guard = table.meta().lock();
        Entries { table, gather }.zap(part, zap);
        gather.finish();
        drop(guard);
        zap.budget.take(budget::TABLE);
        end
    }

    /// The first entry of a table above, and absent ones behind it; returns where they end. `None`:
    /// only a writer may change it.
    fn zap_above(&self, node: Node<'a, M>, rest: VirtRange, zap: &mut Zap) -> Option<VirtAddr> {
        let (size, first) = (node.level.bytes(), node.index(rest.start));
        let absent = (first..TABLE_ENTRIES).take_while(|index| node.is_absent(*index));
        let n = match absent.count() {
            0 => self.zap_leaf(node, node.part(first, rest), zap)?,
            n => n,
        };
        zap.budget.take(1 + n as u32 / 8);
        Some(rest.start.align_down(size) + n as u64 * size)
    }

    /// A PMD leaf; returns 1. `None`: the range cuts it, or it is none: a table that is shared with
    /// a child, or one that is new.
    fn zap_leaf(&self, pmd: Node<'a, M>, part: VirtRange, zap: &mut Zap) -> Option<usize> {
        let guard = pmd.meta().lock();
        let Entry::Leaf { pfn, .. } = pmd.entry(pmd.index(part.start)) else {
            return None;
        };
        if part.len() != pmd.level.bytes() {
            return None;
        }
        zap.add(self.mm.frames().get(pfn).kind(), part.pages());
        let mut gather = Gather::new(self.mm, self.id);
        take_leaf(pmd, part.start, &mut gather);
        gather.finish();
        drop(guard);
        zap.budget.take_leaf();
        Some(1)
    }
}
