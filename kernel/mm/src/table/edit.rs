//! Editors: the only interfaces that change entries of a locked space.

use super::PageTable;
use super::node::{Node, Present, PteTable};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::frame::Kind;
use crate::manager::Mm;
use crate::tlb::{Gather, Removed};

/// The tables of a locked space, and the gather that owes the flushes.
pub struct Edit<'e, 'a, M: Machine> {
    pub(super) space: &'e mut PageTable,
    pub(super) gather: &'e mut Gather<'a, M>,
}

/// The entries of one PTE table of a locked space, and the gather that owes the flushes.
pub(super) struct Entries<'e, 'a, M: Machine> {
    pub table: PteTable<'a, M>,
    pub gather: &'e mut Gather<'a, M>,
}

impl PageTable {
    /// The editor of the tables; the gather is the space's.
    #[inline(always)]
    pub fn edit<'e, 'a, M: Machine>(
        &'e mut self,
        gather: &'e mut Gather<'a, M>,
    ) -> Edit<'e, 'a, M> {
        Edit {
            space: self,
            gather,
        }
    }
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    #[inline]
    pub(super) fn mm(&self) -> &'a Mm<M> {
        self.gather.mm()
    }
    #[inline]
    pub(super) fn root(&self) -> Node<'a, M> {
        Node::root(self.mm(), self.space)
    }
    /// The editor of an unshared PTE table.
    #[inline(always)]
    pub(super) fn entries(&mut self, table: PteTable<'a, M>) -> Entries<'_, 'a, M> {
        Entries {
            table,
            gather: self.gather,
        }
    }

    /// Unlinks the empty table for `part` from the one above.
    pub(super) fn unhook(&mut self, node: Node<'a, M>, child: Node<'a, M>, part: VirtRange) {
        self.unlink(node, part);
        self.gather.table(part.start, child.level, child.frame);
    }

    /// Clears the entry of the table for `part`, for which the gather is to owe a flush.
    pub(super) fn unlink(&mut self, node: Node<'a, M>, part: VirtRange) {
        let va = part.start;
        // A reader counts from 0, and others may wait for the lock of a table that it sees empty.
        debug_assert!(
            self.space.pages > 0,
            "a reader unlinks the table for {va:?}"
        );
        node.clear(node.index(va));
        node.lost(1);
        self.space.pages -= 1;
        if part.len() < node.level.bytes() {
            self.gather.freed_shared_entry();
        }
    }
}

/// Takes the leaf for `va` out of a table above the PTE level.
pub(super) fn take_leaf<M: Machine>(node: Node<'_, M>, va: VirtAddr, gather: &mut Gather<'_, M>) {
    let (mm, level) = (node.mm, node.level);
    let Some(Present { pfn: first, .. }) = node.take_leaf(node.index(va)) else {
        unreachable!("a leaf goes only under the lock of its space");
    };
    node.lost(1);
    let mut folio = first;
    match mm.frames().get(first).kind_order_hugetlb() {
        (Kind::Anon, _, false) => mm.pmd_unmapped(),
        (Kind::Object, _, false) => mm.shmem_unmapped(),
        // Of a huge page with several leaves, and not the first.
        (Kind::Reserved, ..) if M::Pte::CONTIG_ORDER.is_some() => folio = mm.frames().head(first),
        _ => {}
    }
    let removed = Removed {
        folio,
        first,
        pages: level.order().pages() as u32,
        level,
    };
    gather.removed(va, removed);
}
