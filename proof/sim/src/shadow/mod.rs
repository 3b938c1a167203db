//! The shadow: the position of each table, what CPUs may still hold of entries that changed, and
//! which bits the walker set.
//!
//! The contents of TLBs depend on the seed; the shadow records what each *may* hold, so that
//! `rules` finds a broken rule the first time that the code breaks it.

mod stale;
mod used;

use crate::tlb::Flush;
use mm::addr::{Order, Pfn, VirtAddr};
use mm::arch::{Asid, Attrs, Level};
pub(crate) use stale::Moment;
use stale::{Renewed, Stale};
use std::collections::HashMap;
use used::Used;

/// The bits that the walker sets in an entry.
pub(crate) const USED: Attrs = Attrs::ACCESSED.union(Attrs::DIRTY);
/// The rights of a translation.
pub(crate) const RIGHTS: Attrs = Attrs::WRITE.union(Attrs::EXEC).union(Attrs::USER);

/// The meaning of an entry to the hardware. A leaf's attributes are without those that the walker
/// sets and the software's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Nothing,
    /// A table, and whether nothing in it may be written.
    Table(Pfn, bool),
    Leaf(Pfn, Attrs),
}

/// One entry of one table, by what it translates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Slot {
    pub(crate) root: Pfn,
    pub(crate) level: Level,
    /// The first address, in units of what the entry translates.
    pub(crate) number: u64,
}

impl Slot {
    pub(crate) fn new(root: Pfn, level: Level, va: VirtAddr) -> Slot {
        Slot {
            root,
            level,
            number: va.0 >> level.shift(),
        }
    }
    pub(crate) fn va(&self) -> VirtAddr {
        VirtAddr(self.number << self.level.shift())
    }
}

/// The position of a table: its root, its level and the first address that it translates.
#[derive(Clone, Copy)]
pub(crate) struct TablePosition {
    pub(crate) root: Pfn,
    pub(crate) level: Level,
    pub(crate) va: VirtAddr,
    /// The table is read-only, whatever rights its entries have.
    pub(crate) read_only: bool,
}

impl TablePosition {
    pub(crate) fn slot(&self, index: usize) -> Slot {
        let va = VirtAddr(self.va.0 + ((index as u64) << self.level.shift()));
        Slot::new(self.root, self.level, va)
    }
    /// The position of a table that entry `index` points to.
    pub(crate) fn below(&self, index: usize, read_only: bool) -> TablePosition {
        TablePosition {
            root: self.root,
            level: self.level.lower().expect("a PTE is never a table"),
            va: self.slot(index).va(),
            read_only: self.read_only || read_only,
        }
    }
}

/// A root that a CPU has loaded.
pub(crate) struct Root {
    pub(crate) asid: Asid,
    /// The CPUs that may hold translations of it, one bit each.
    pub(crate) cpus: u64,
}

#[derive(Default)]
pub struct Shadow {
    pub(crate) roots: HashMap<Pfn, Root>,
    /// Spaces may share a table.
    pub(crate) positions: HashMap<Pfn, Vec<TablePosition>>,
    pub(crate) stale: Stale,
    /// Frames that got new contents and were not unmapped since: translations that CPUs hold belong
    /// to the old contents.
    pub(crate) renewed: Renewed,
    pub(crate) used: Used,
}

impl Shadow {
    /// Records new contents of frames: they are no tables any more, and were not used. Error: a CPU
    /// may still hold a translation to them.
    pub fn renew(&mut self, first: Pfn, order: Order) -> Result<(), String> {
        let held = self.stale.reaches(first, order.pages());
        for pfn in (0..order.pages()).map(|i| first + i) {
            self.positions.remove(&pfn);
            if self.roots.remove(&pfn).is_some() {
                self.stale.forget(pfn);
                self.used.forget(pfn);
            }
            self.used.renew(pfn);
            self.renewed.insert(pfn);
        }
        held.map_or(Ok(()), |slot| {
            Err(format!(
                "missed flush: {first:?} gets new contents while a CPU may reach it at {:?}",
                slot.va()
            ))
        })
    }
    /// Records a flush of what was changed before a moment.
    pub fn flush_range(&mut self, asid: Asid, flush: Flush, before: Moment) {
        let roots = &self.roots;
        self.stale
            .flush_range(|root| roots[&root].asid == asid, flush, before);
    }
    /// Records a flush of a tag: only the CPUs that have the space loaded can get new translations
    /// of it.
    pub fn flush_asid(&mut self, asid: Asid, active: &[Option<Pfn>]) {
        // Other spaces with the shared tag are loaded and left meanwhile, so `active` may be past
        // for them. What is known of such a space without the flush asks for no less.
        if asid.0 == 0 {
            return;
        }
        for (root, info) in self.roots.iter_mut().filter(|(_, info)| info.asid == asid) {
            self.stale.forget(*root);
            let bits = active.iter().enumerate();
            info.cpus = bits
                .filter(|(_, a)| **a == Some(*root))
                .map(|(cpu, _)| 1 << cpu)
                .sum();
        }
    }
    /// Records that a CPU loads a root: its translations without a tag are dropped.
    pub(crate) fn load(&mut self, cpu: usize, root: Pfn, asid: Asid) {
        for (other, info) in self.roots.iter_mut().filter(|(_, info)| info.asid.0 == 0) {
            info.cpus &= !(1 << cpu);
            self.stale.lose(*other, cpu);
        }
        let info = self.roots.entry(root).or_insert(Root { asid, cpus: 0 });
        info.asid = asid;
        info.cpus |= 1 << cpu;
    }
    pub(crate) fn cpus(&self, root: Pfn) -> u64 {
        self.roots.get(&root).map_or(0, |info| info.cpus)
    }
}
