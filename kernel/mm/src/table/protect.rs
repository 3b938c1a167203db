//! Changing the protection of what is mapped in a range.

use super::batch::run_at;
use super::budget::some_leaf_tables;
use super::walk::{self, indices};
use super::{Budget, Leaf, PageTable, contpte, entry, owner};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::Mm;
use crate::own::Owner;
use crate::stat::Event;
use crate::tlb::Gather;
use core::convert::Infallible;
use core::ops::Range;

/// What stays as it is; and what was not written since soft-dirty was cleared must still be seen when it is.
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

/// Gives every page in `range` the attributes `rights.base`, and WRITE when the VMA is writable and no write needs to be
/// seen: always if shared, else only for a private folio that this space has for itself. Accessed and dirty stay. No PMD leaf
/// crosses an end of the range ([`super::split_ends`]).
pub fn protect_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    rights: Rights,
    gather: &mut Gather<'_, M>,
) {
    let mut budget = Budget::UNLIMITED;
    protect_some(mm, space, range, rights, gather, &mut budget);
}

/// [`protect_range`] within a budget; returns where the rest begins, if there is one.
pub fn protect_some<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    rights: Rights,
    gather: &mut Gather<'_, M>,
    budget: &mut Budget,
) -> Option<VirtAddr> {
    let space = &*space;
    let Ok(stopped) = some_leaf_tables(mm, space, range, budget, &mut |leaves, budget| {
        budget.take_leaves(mm, &leaves);
        if leaves.level == Level::Pte {
            protect_pages(mm, leaves.table, leaves.part, rights, gather);
        } else {
            let leaf = walk::leaf_at(mm, leaves.table, leaves.level, leaves.part.start, 1)
                .expect("the walk found a leaf, and the space is locked");
            let attrs = new_attrs(mm, gather.owner(), &leaf, rights);
            if entry::modify_at(mm, leaves.entry(), |_, old| attrs | old & USED) {
                gather.changed_leaf(leaves.part.start, leaves.level);
                mm.count(Event::EntryWrites, 1);
            }
        }
        Ok::<_, Infallible>(())
    });
    stopped
}

fn protect_pages<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    rights: Rights,
    gather: &mut Gather<'_, M>,
) {
    contpte::unfold_ends(mm, table, part, gather);
    let mut left = mm.frames().get(table).live();
    let (span, mut written) = (indices(Level::Pte, part), 0);
    let mut index = span.start;
    while index < span.end && left > 0 {
        let Some(run) = run_at(mm, table, index, span.end) else {
            index += 1;
            continue;
        };
        let va = part.start + (index - span.start) as u64 * PAGE_SIZE;
        let leaf = run.leaf(va);
        let attrs = new_attrs(mm, gather.owner(), &leaf, rights);
        let changed = set_rights(mm, table, run.index, run.n, attrs);
        if changed > 0 {
            gather.changed_range(va, run.n as u64 * PAGE_SIZE, Level::Pte);
            written += changed;
        }
        left -= run.n as u32;
        index += run.n;
    }
    mm.count(Event::EntryWrites, written);
    contpte::fold_range(mm, table, part, gather);
}

/// Gives `n` entries the attributes, keeping use, and the fold where a folded block may be: PROT_NONE never is. Returns how
/// many are different now.
fn set_rights<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, n: usize, attrs: Attrs) -> u64 {
    if attrs.contains(Attrs::NO_ACCESS) {
        return forbid(mm, table, index..index + n, attrs);
    }
    let kept = USED | Attrs::CONTIG;
    let set = |index| entry::modify(mm, table, index, |_, old| attrs | old & kept);
    (index..index + n).map(|index| u64::from(set(index))).sum()
}

/// The same for PROT_NONE: what was a folded block comes apart, and each of its entries says how any was used.
fn forbid<M: Machine>(mm: &Mm<M>, table: Pfn, entries: Range<usize>, attrs: Attrs) -> u64 {
    let (mut index, mut written) = (entries.start, 0);
    while index < entries.end {
        let part = contpte::block_at(mm, table, index, entries.end);
        let set = |index| entry::modify(mm, table, index, |_, old| attrs | old & USED);
        written += part.clone().map(|index| u64::from(set(index))).sum::<u64>();
        // The walker sets no bit any more, now that none of them is valid.
        index = part.end;
        contpte::share_use(mm, table, part);
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
