//! Huge pages ([`crate::hugetlb`]) in the tables: the leaves of one come and go together.

use super::edit::take_leaf;
use super::node::Node;
use super::{Change, Cursor, Zap};
use crate::addr::{Order, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::frame::Block;
use crate::hugetlb::mapped_by;
use crate::own::Owner;
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};

/// The parts of `range` by the PMD entries that translate them.
pub(super) fn by_pmd(range: VirtRange) -> impl Iterator<Item = VirtRange> {
    let first = range.start.align_down(Level::Pmd.bytes()).0;
    let parts = (first..range.end.0).step_by(Level::Pmd.bytes() as usize);
    parts.filter_map(move |at| range.intersection(&block(VirtAddr(at), PMD_ORDER)))
}

impl<M: Machine> Node<'_, M> {
    /// The huge page around the leaf for `va` in this table.
    pub(super) fn huge_page_at(self, va: VirtAddr) -> VirtRange {
        let leaf = self.present(self.index(va));
        let leaf = leaf.expect("a huge page is mapped whole");
        block(va, self.mm.frames().folio(leaf.pfn).order)
    }
}

impl<M: Machine> Cursor<'_, M> {
    /// Maps a fresh private huge page at the absent entries for it, in the table that the cursor is
    /// at.
    pub fn install_huge(&mut self, page: Folio, attrs: Attrs, owner: &Owner) {
        let pfn = page.into_pfn();
        let order = self.mm().frames().get(pfn).order();
        let start = self.va.align_down(order.bytes());
        let folio = Block::anon(pfn, order);
        self.mm().begin(folio, owner, start, mapped_by(order));
        self.write_leaves(pfn, order, attrs);
    }
    /// Maps a huge page of an object, to which there is one reference, in the same way.
    pub fn install_huge_object(&mut self, pfn: Pfn, attrs: Attrs) {
        let meta = self.mm().frames().get(pfn);
        meta.get_refs(meta.order().pages() - 1);
        self.write_leaves(pfn, meta.order(), attrs);
    }
    fn write_leaves(&mut self, head: Pfn, order: Order, attrs: Attrs) {
        let (node, leaf) = (self.node, self.node.level.order());
        let (start, leaves) = (self.va.align_down(order.bytes()), 1 << (order.0 - leaf.0));
        let first = node.index(start);
        debug_assert!(node.all_absent(first, leaves), "{start:?} is mapped");
        match node.level {
            Level::Pte => node.ptes().install(start, leaves, head, attrs),
            // Without the contiguous bit, which is a hint.
            _ => (0..leaves)
                .for_each(|n| node.write_leaf(first + n, head + n as u64 * leaf.pages(), attrs)),
        }
        node.gained(leaves as u32);
    }

    /// Removes the markers of a huge page of 2^`order` pages around the page, which is not there.
    pub fn take_markers(&mut self, order: Order) {
        let mm = self.mm();
        for part in by_pmd(block(self.va, order)) {
            if let Some(table) = Node::root(mm, self.space).pte_table(part.start) {
                table.remove_markers(part, |_| true);
            }
        }
    }
}

impl<M: Machine> Change<'_, '_, '_, M> {
    /// Makes the entries free for a huge page of 2^`order` pages, of which there are markers at
    /// most; the cursor is at their table then.
    pub fn clear_for_huge(self, order: Order) {
        let Change { cursor, gather } = self;
        cursor.take_markers(order);
        if order < PMD_ORDER {
            return;
        }
        let (mm, own) = (cursor.mm(), block(cursor.va, PMD_ORDER));
        for part in by_pmd(block(cursor.va, order)).filter(|part| *part != own) {
            let mut beside = Cursor::new(mm, cursor.space, part.start);
            beside.edit(gather).remove_empty_table();
        }
        cursor.edit(gather).remove_empty_table();
    }

    /// Maps the attributes of the leaves of the page's huge page through `f`, those of a folded
    /// block alike; the gather owes the flush.
    pub(super) fn modify_huge(self, f: impl Fn(Attrs) -> Attrs) {
        let node = self.cursor.node;
        let page = node.huge_page_at(self.cursor.va);
        let written = node.indices(page).map(|leaf| node.modify(leaf, &f));
        let written = written.map(u64::from).sum();
        node.mm.count(Event::EntryWrites, written);
        self.gather
            .changed_range(page.start, page.len(), node.level);
    }

    /// Unmaps the huge page of the leaf.
    pub fn take_huge_page(mut self) {
        let (va, node) = (self.cursor.va, self.cursor.node);
        let page = node.huge_page_at(va);
        if node.level == Level::Pte {
            return self.entries().zap_called(page, &mut Zap::default());
        }
        by_pmd(page).for_each(|leaf| take_leaf(node, leaf.start, self.gather));
    }
}
