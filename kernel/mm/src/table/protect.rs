//! Changes the protection of mapped pages (mprotect).

use super::edit::{Edit, Entries};
use super::node::PteTable;
use super::walk::some_leaf_tables;
use super::{Budget, Leaf};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::manager::Mm;
use crate::own::Owner;
use crate::stat::Event;
use core::convert::Infallible;
use core::ops::Range;

/// Attributes that stay. TRACKED pages must still fault on the first write.
const USED: Attrs = Attrs::ACCESSED.union(Attrs::DIRTY).union(Attrs::TRACKED);

/// Attributes that a VMA allows.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Attributes of every entry.
    pub base: Attrs,
    /// Whether the VMA is writable.
    pub writable: bool,
    /// Whether writes reach the object: no write needs to fault.
    pub shared: bool,
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Sets the attributes of every page in `range` to `rights.base`, plus WRITE if the VMA is
    /// writable and no write needs to fault: always if shared, else only for an exclusive private
    /// folio. ACCESSED and DIRTY stay. No PMD leaf crosses an end of the range
    /// ([`Edit::split_ends`]). Returns where the rest begins when the budget is spent.
    pub fn protect_some(
        &mut self,
        range: VirtRange,
        rights: Rights,
        budget: &mut Budget,
    ) -> Option<VirtAddr> {
        let mm = self.mm();
        let Ok(stopped) = some_leaf_tables(self.root(), range, budget, &mut |leaves, budget| {
            budget.take_leaves(&leaves);
            if let Some(table) = leaves.ptes() {
                self.entries(table).protect(leaves.part, rights);
                return Ok::<_, Infallible>(());
            }
            let leaf = leaves.node.leaf_at(leaves.part.start, 1);
            let leaf = leaf.expect("the walk found a leaf, and the space is locked");
            let attrs = new_attrs(mm, self.gather.owner(), &leaf, rights);
            self.modify_leaf(&leaves, |old| attrs | old & USED);
            Ok(())
        });
        stopped
    }
}

impl<M: Machine> Entries<'_, '_, M> {
    fn protect(&mut self, part: VirtRange, rights: Rights) {
        self.unfold_ends(part);
        let (table, gather) = (self.table, &mut *self.gather);
        let mut written = 0;
        for (va, run) in table.runs(part) {
            let attrs = new_attrs(table.mm, gather.owner(), &run.leaf(va), rights);
            let changed = set_rights(table, run.index..run.index + run.n, attrs);
            if changed > 0 {
                gather.changed_range(va, run.n as u64 * PAGE_SIZE, Level::Pte);
                written += changed;
            }
        }
        table.mm.count(Event::EntryWrites, written);
        self.fold_range(part);
    }
}

/// Sets the attributes of entries, keeping ACCESSED, DIRTY and, except for PROT_NONE, CONTIG.
/// Returns how many changed.
fn set_rights<M: Machine>(table: PteTable<'_, M>, entries: Range<usize>, attrs: Attrs) -> u64 {
    if attrs.contains(Attrs::NO_ACCESS) {
        return forbid(table, entries, attrs);
    }
    let kept = USED | Attrs::CONTIG;
    let set = |index| table.modify(index, |old| attrs | old & kept);
    entries.map(|index| u64::from(set(index))).sum()
}

/// PROT_NONE: unfolds blocks; each entry gets the block's ACCESSED and DIRTY.
fn forbid<M: Machine>(table: PteTable<'_, M>, entries: Range<usize>, attrs: Attrs) -> u64 {
    let (mut index, mut written) = (entries.start, 0);
    while index < entries.end {
        let part = table.block_at(index, entries.end);
        let set = |index| table.modify(index, |old| attrs | old & USED);
        written += part.clone().map(|index| u64::from(set(index))).sum::<u64>();
        // The walker sets no bit in invalid entries.
        index = part.end;
        table.share_use(part);
    }
    written
}

/// The new attributes of a leaf, less ACCESSED and DIRTY.
fn new_attrs<M: Machine>(mm: &Mm<M>, owner: &Owner, leaf: &Leaf, rights: Rights) -> Attrs {
    let write = rights.writable
        && !leaf.attrs.contains(Attrs::TRACKED)
        && (rights.shared || mm.owns(owner, leaf));
    let write = if write { Attrs::WRITE } else { Attrs::empty() };
    rights.base | write
}
