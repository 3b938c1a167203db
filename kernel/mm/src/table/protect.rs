//! Changing the protection of what is mapped in a range.

use super::budget::some_leaf_tables;
use super::edit::{Edit, Entries};
use super::node::PteTable;
use super::{Budget, Leaf, owner};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::manager::Mm;
use crate::own::Owner;
use crate::stat::Event;
use core::convert::Infallible;
use core::ops::Range;

/// What stays as it is; and what was not written since soft-dirty was cleared must still be seen
/// when it is.
const USED: Attrs = Attrs::ACCESSED.union(Attrs::DIRTY).union(Attrs::TRACKED);

/// What entries of a VMA may say.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// What every entry says.
    pub base: Attrs,
    /// Whether the VMA may be written.
    pub writable: bool,
    /// Whether writes reach the object: then no write needs to be seen.
    pub shared: bool,
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Gives every page in `range` the attributes `rights.base`, and WRITE when the VMA is writable
    /// and no write needs to be seen: always if shared, else only for a private folio that this
    /// space has for itself. Accessed and dirty stay. No PMD leaf crosses an end of the range
    /// ([`Edit::split_ends`]). Stops when the budget is used up; returns where the rest begins.
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
            let (node, start) = (leaves.node, leaves.part.start);
            let leaf = node
                .leaf_at(start, 1)
                .expect("the walk found a leaf, and the space is locked");
            let attrs = new_attrs(mm, self.gather.owner(), &leaf, rights);
            if node.modify(leaves.index(), |old| attrs | old & USED) {
                self.gather.changed_leaf(start, node.level);
                mm.count(Event::EntryWrites, 1);
            }
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

/// Gives entries the attributes, keeping use, and the fold where a folded block may be: PROT_NONE
/// never is. Returns how many are different now.
fn set_rights<M: Machine>(table: PteTable<'_, M>, entries: Range<usize>, attrs: Attrs) -> u64 {
    if attrs.contains(Attrs::NO_ACCESS) {
        return forbid(table, entries, attrs);
    }
    let kept = USED | Attrs::CONTIG;
    let set = |index| table.modify(index, |old| attrs | old & kept);
    entries.map(|index| u64::from(set(index))).sum()
}

/// The same for PROT_NONE: what was a folded block comes apart, and each of its entries says how
/// any was used.
fn forbid<M: Machine>(table: PteTable<'_, M>, entries: Range<usize>, attrs: Attrs) -> u64 {
    let (mut index, mut written) = (entries.start, 0);
    while index < entries.end {
        let part = table.block_at(index, entries.end);
        let set = |index| table.modify(index, |old| attrs | old & USED);
        written += part.clone().map(|index| u64::from(set(index))).sum::<u64>();
        // The walker sets no bit any more, now that none of them is valid.
        index = part.end;
        table.share_use(part);
    }
    written
}

/// What the entries of a leaf say from now on, but for use.
fn new_attrs<M: Machine>(mm: &Mm<M>, owner: &Owner, leaf: &Leaf, rights: Rights) -> Attrs {
    let write = rights.writable
        && !leaf.attrs.contains(Attrs::TRACKED)
        && (rights.shared || owner::owns(mm, owner, leaf));
    let write = if write { Attrs::WRITE } else { Attrs::empty() };
    rights.base | write
}
