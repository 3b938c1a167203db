//! Changes the protection of mapped pages (mprotect).

use super::edit::{Edit, Entries};
use super::node::{PteTable, leaf_of};
use super::walk::some_leaf_tables;
use super::{Budget, Leaf};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PhysMem, PteFormat};
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::own::Owner;
use crate::stat::Event;
use core::convert::Infallible;
use core::ops::Range;

/// Attributes that stay. Pages with TRACKED or UFFD_WP must still fault on the first write.
const USED: Attrs = Attrs::ACCESSED.union(Attrs::DIRTY).union(ASKS);
const ASKS: Attrs = Attrs::TRACKED.union(Attrs::UFFD_WP);

/// Attributes that a VMA allows.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Attributes of every entry.
    pub base: Attrs,
    /// Whether the VMA is writable.
    pub writable: bool,
    /// Whether writes reach the object: no write needs to fault.
    pub shared: bool,
    /// Whether no page had a right before that it does not get now.
    pub only_more: bool,
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Sets the attributes of every page in `range` to `rights.base`, plus WRITE if the VMA is
    /// writable and no write needs to fault: always if shared, else only for what was writable or
    /// is an exclusive private folio. ACCESSED and DIRTY stay. No PMD leaf crosses an end of the
    /// range ([`Edit::split_ends`]). Returns where the rest begins when the budget is spent.
    pub fn protect_some(
        &mut self,
        range: VirtRange,
        rights: Rights,
        budget: &mut Budget,
    ) -> Option<VirtAddr> {
        let mm = self.mm();
        if rights.only_more || mutant::on(Mutant::ProtectHere) {
            self.gather.grants_only();
        }
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
        let mut set = Setter::new(table);
        if rights.writable || rights.base.contains(Attrs::NO_ACCESS) {
            for (va, run) in table.runs(part) {
                let entries = run.index..run.index + run.n;
                let attrs = new_attrs(table.mm, gather.owner(), &run.leaf(va), rights);
                let changed = match attrs.contains(Attrs::NO_ACCESS) {
                    true => forbid(table, entries, attrs),
                    false => set.all(entries, attrs),
                };
                if changed > 0 {
                    gather.changed_range(va, run.n as u64 * PAGE_SIZE, Level::Pte);
                    written += changed;
                }
            }
        } else if let Some(used) = used(table, part) {
            // Of whatever folio: no entry depends on the account.
            let entries = table.indices(used);
            written = match entries.len() {
                // Fast path: nothing follows that would get the same.
                1 => u64::from(set_one(table, entries.start, rights.base)),
                _ => set.all(entries, rights.base),
            };
            if written > 0 {
                gather.changed_range(used.start, used.len(), Level::Pte);
            }
        }
        table.mm.count(Event::EntryWrites, written);
        self.fold_range(part);
    }
}

/// The part from the first page that is mapped to the last one, if any is.
fn used<M: Machine>(table: PteTable<'_, M>, part: VirtRange) -> Option<VirtRange> {
    let mut span = table.indices(part);
    let first = span.start;
    let is_used = |index: &usize| table.mem().load(table.frame, *index) != 0;
    let (low, high) = (span.find(is_used)?, span.rfind(is_used));
    let at = |index: usize| part.start + (index - first) as u64 * PAGE_SIZE;
    Some(VirtRange::new(at(low), at(high.unwrap_or(low) + 1)))
}

/// Sets the attributes of entries. Most have the bits of the one before but for the frame, and get
/// what that one got, undecoded.
struct Setter<'a, M: Machine> {
    table: PteTable<'a, M>,
    /// The bits, but for the frame, of the last entry that the walker had no bit left to set in.
    old: u64,
    /// What was asked for that entry.
    attrs: Attrs,
    /// The bits that were changed in it.
    change: u64,
}

impl<'a, M: Machine> Setter<'a, M> {
    fn new(table: PteTable<'a, M>) -> Self {
        Setter {
            table,
            old: 0,
            attrs: Attrs::empty(),
            change: 0,
        }
    }
    /// Sets the attributes of `entries`, keeping ACCESSED, DIRTY and CONTIG; absent ones stay.
    /// Returns how many changed.
    #[inline(always)]
    fn all(&mut self, entries: Range<usize>, attrs: Attrs) -> u64 {
        let (table, mut written) = (self.table, 0);
        for index in entries {
            let raw = table.mem().load(table.frame, index);
            if raw == 0 {
                continue;
            }
            if frameless::<M>(raw) != self.old || attrs != self.attrs {
                written += u64::from(self.one(index, raw, attrs));
            } else if self.change != 0 {
                table
                    .mem()
                    .store_again(table.frame, index, raw ^ self.change);
                written += 1;
            }
        }
        written
    }
    /// Sets the attributes of one entry, whose bits were `raw`; returns whether it changed.
    #[inline(never)]
    fn one(&mut self, index: usize, raw: u64, attrs: Attrs) -> bool {
        if let Some(old) = leaf_of::<M>(raw, Level::Pte)
            && (M::Pte::is_settled(raw) || M::Pte::is_still(raw) && M::Pte::read_only(raw) == raw)
        {
            self.old = frameless::<M>(raw);
            self.attrs = attrs;
            self.change = raw ^ M::Pte::leaf(old.pfn, with_use(attrs, old.attrs), Level::Pte);
        }
        set_one(self.table, index, attrs)
    }
}

/// `attrs` with what stays of the `old` ones: all of a marker's.
#[inline(always)]
fn with_use(attrs: Attrs, old: Attrs) -> Attrs {
    if old.contains(Attrs::MARKER) && !mutant::on(Mutant::OpenGuards) {
        return old;
    }
    if mutant::on(Mutant::KeepKeys) {
        return (attrs - Attrs::KEY) | old & (USED | Attrs::CONTIG | Attrs::KEY);
    }
    attrs | old & (USED | Attrs::CONTIG)
}

/// Sets the attributes of one entry, keeping ACCESSED, DIRTY and CONTIG; returns whether it
/// changed.
#[inline(always)]
fn set_one<M: Machine>(table: PteTable<'_, M>, index: usize, attrs: Attrs) -> bool {
    table.modify(index, |old| with_use(attrs, old))
}

/// A leaf's bits but for its frame.
#[inline(always)]
fn frameless<M: Machine>(raw: u64) -> u64 {
    raw.wrapping_sub(M::Pte::frame(raw).0.wrapping_mul(M::Pte::NEXT_FRAME))
}

/// PROT_NONE: unfolds blocks; each entry gets the block's ACCESSED and DIRTY.
fn forbid<M: Machine>(table: PteTable<'_, M>, entries: Range<usize>, attrs: Attrs) -> u64 {
    let (mut index, mut written) = (entries.start, 0);
    while index < entries.end {
        let part = table.block_at(index, entries.end);
        let set = |index| table.modify(index, |old| with_use(attrs, old - Attrs::CONTIG));
        written += part.clone().map(|index| u64::from(set(index))).sum::<u64>();
        // The walker sets no bit in invalid entries.
        index = part.end;
        table.share_use(part);
    }
    written
}

/// The new attributes of a leaf, less ACCESSED and DIRTY.
fn new_attrs<M: Machine>(mm: &Mm<M>, owner: &Owner, leaf: &Leaf, rights: Rights) -> Attrs {
    // What is writable stays so: a page with a long-term pin may be, in a folio that is shared.
    let may_write = || rights.shared || leaf.attrs.contains(Attrs::WRITE) || mm.owns(owner, leaf);
    let write = rights.writable && !leaf.attrs.intersects(ASKS) && may_write();
    let write = if write { Attrs::WRITE } else { Attrs::empty() };
    rights.base | write
}
