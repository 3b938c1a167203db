//! One address: the leaf that translates it, as the other rooms see it.

use super::contpte;
use super::node::{AtLevel, Node, Present, PteTable};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Level, Machine};

/// A leaf, or the part of it in a range.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// The first page.
    pub va: VirtAddr,
    /// Number of pages: 1 for a PTE.
    pub pages: u64,
    /// The frame of the first page.
    pub pfn: Pfn,
    /// Rights and use; of a folded block, the OR of ACCESSED and DIRTY over its entries. Never
    /// CONTIG.
    pub attrs: Attrs,
    /// Level of the entry.
    pub level: Level,
    /// Whether it belongs to a folded contpte block.
    pub folded: bool,
    /// Number of spaces that share the table (`share`); 0 if it is not shared.
    pub sharers: u64,
}

impl<M: Machine> Node<'_, M> {
    /// The leaf that translates `va`, narrowed to one page.
    pub fn lookup(self, va: VirtAddr) -> Option<Leaf> {
        let va = va.align_down(PAGE_SIZE);
        let node = self.down_to(va, Level::Pte);
        match node.shared(node.entry(node.index(va))) {
            Some(table) => table.leaf_at_shared(va),
            None => node.leaf_at(va, 1),
        }
    }
}

impl<M: Machine, L: AtLevel> Node<'_, M, L> {
    /// The leaf in the entry for `va`, starting at `va`.
    #[inline]
    pub(super) fn leaf_at(self, va: VirtAddr, pages: u64) -> Option<Leaf> {
        let index = self.index(va);
        let Present { pfn, attrs, .. } = self.present(index)?;
        let folded = self.level.get() == Level::Pte && contpte::folded::<M>(attrs);
        Some(Leaf {
            va,
            pages,
            pfn: pfn + (va - va.align_down(self.level.get().bytes())) / PAGE_SIZE,
            attrs: if folded {
                PteTable::new(self.mm, self.frame).seen(index, attrs)
            } else {
                attrs
            },
            level: self.level.get(),
            folded,
            sharers: 0,
        })
    }
}

impl<M: Machine> PteTable<'_, M> {
    /// The leaf for `va` in a shared table; never WRITE.
    pub(super) fn leaf_at_shared(self, va: VirtAddr) -> Option<Leaf> {
        let leaf = self.leaf_at(va, 1)?;
        Some(Leaf {
            attrs: leaf.attrs - Attrs::WRITE,
            sharers: self.meta().refs(),
            ..leaf
        })
    }
}
