//! The shadow: where each table stands, what CPUs may still hold of entries that changed, and which
//! bits the walker set.
//!
//! TLBs hold what chance gives them; the shadow holds what they *may* hold, so a broken rule is
//! found the first time that the code breaks it. Checked at each write of an entry: arm64's
//! break-before-make, a misaligned contiguous block, one whose frames or memory types do not agree,
//! memory that is writable at one place while a CPU may still reach it at another. Checked at rest
//! ([`Sim::settle`]): missed flushes, blocks that are not uniform, accessed and dirty bits that are
//! gone.

mod rest;
mod stale;
mod used;

use crate::machine::Sim;
use crate::tlb::Flush;
use mm::addr::{Order, Pfn, VirtAddr};
use mm::arch::{Asid, Attrs, Entry, Level, PteFormat, TABLE_ENTRIES};
use stale::{Renewed, Stale};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use used::Used;

/// What the walker sets in an entry.
pub(crate) const USED: Attrs = Attrs::ACCESSED.union(Attrs::DIRTY);
/// What a translation allows.
const RIGHTS: Attrs = Attrs::WRITE.union(Attrs::EXEC).union(Attrs::USER);

/// What an entry means to the hardware. Of a leaf's attributes those that the walker does not set,
/// without the software's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Nothing,
    /// A table, and whether nothing in it may be written.
    Table(Pfn, bool),
    Leaf(Pfn, Attrs),
}

/// One entry of one table, by what it translates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Slot {
    root: Pfn,
    level: Level,
    /// The first address, in units of what the entry translates.
    number: u64,
}

impl Slot {
    fn new(root: Pfn, level: Level, va: VirtAddr) -> Slot {
        Slot {
            root,
            level,
            number: va.0 >> level.shift(),
        }
    }
    fn va(&self) -> VirtAddr {
        VirtAddr(self.number << self.level.shift())
    }
}

/// Where a table stands: its level and the first address that it translates.
#[derive(Clone, Copy)]
struct Place {
    root: Pfn,
    level: Level,
    va: VirtAddr,
    /// Nothing in it may be written, whatever the entries say.
    read_only: bool,
}

impl Place {
    fn slot(&self, index: usize) -> Slot {
        let va = VirtAddr(self.va.0 + ((index as u64) << self.level.shift()));
        Slot::new(self.root, self.level, va)
    }
    /// Where a table that entry `index` points to stands.
    fn below(&self, index: usize, read_only: bool) -> Place {
        Place {
            root: self.root,
            level: self.level.lower().expect("a PTE is never a table"),
            va: self.slot(index).va(),
            read_only: self.read_only || read_only,
        }
    }
}

/// A root that a CPU has loaded.
struct Root {
    asid: Asid,
    /// The CPUs that may hold translations of it, one bit each.
    cpus: u64,
}

#[derive(Default)]
pub struct Shadow {
    roots: HashMap<Pfn, Root>,
    /// Spaces may share a table.
    places: HashMap<Pfn, Vec<Place>>,
    stale: Stale,
    /// Frames that got new contents and were not unmapped since: what CPUs hold of them is of the
    /// old ones.
    renewed: Renewed,
    used: Used,
}

impl Shadow {
    /// Frames that got new contents: no tables any more, and nothing that was used.
    pub fn renew(&mut self, first: Pfn, order: Order) {
        for pfn in (0..order.pages()).map(|i| first + i) {
            self.places.remove(&pfn);
            if self.roots.remove(&pfn).is_some() {
                self.stale.forget(pfn);
                self.used.forget(pfn);
            }
            self.used.renew(pfn);
            self.renewed.insert(pfn);
        }
    }
    pub fn flush_range(&mut self, asid: Asid, flush: Flush) {
        let roots = &self.roots;
        self.stale
            .flush_range(|root| roots[&root].asid == asid, flush);
    }
    /// A whole tag is flushed; only the CPUs that have the space loaded can come by new
    /// translations of it.
    pub fn flush_asid(&mut self, asid: Asid, active: &[Option<Pfn>]) {
        for (root, info) in self.roots.iter_mut().filter(|(_, info)| info.asid == asid) {
            self.stale.forget(*root);
            let bits = active.iter().enumerate();
            info.cpus = bits
                .filter(|(_, a)| **a == Some(*root))
                .map(|(cpu, _)| 1 << cpu)
                .sum();
        }
    }
    /// A CPU loads a root: what it holds without a tag does not survive.
    fn load(&mut self, cpu: usize, root: Pfn, asid: Asid) {
        for (other, info) in self.roots.iter_mut().filter(|(_, info)| info.asid.0 == 0) {
            info.cpus &= !(1 << cpu);
            self.stale.lose(*other, cpu);
        }
        let info = self.roots.entry(root).or_insert(Root { asid, cpus: 0 });
        info.asid = asid;
        info.cpus |= 1 << cpu;
    }
    fn cpus(&self, root: Pfn) -> u64 {
        self.roots.get(&root).map_or(0, |info| info.cpus)
    }
}

impl<F: PteFormat> Sim<F> {
    /// Entries of a contiguous block.
    pub(crate) fn span() -> usize {
        F::CONTIG_ORDER.map_or(1, |order| order.pages() as usize)
    }

    /// An entry was written.
    pub(crate) fn written(&self, table: Pfn, index: usize, old: u64, new: u64) {
        let mut shadow = self.shadow();
        let places = shadow.places.get(&table).cloned().unwrap_or_default();
        let result = places.into_iter().try_for_each(|place| {
            let (old, new) = (what::<F>(old, place), what::<F>(new, place));
            if old == new {
                return Ok(());
            }
            self.goes(&mut shadow, place, index, old);
            self.comes(&mut shadow, place, (table, index), new)
        });
        drop(shadow);
        complain(result);
    }

    /// A CPU has loaded a root.
    pub(crate) fn activated(&self, cpu: usize, root: Pfn, asid: Asid) {
        let mut shadow = self.shadow();
        shadow.load(cpu, root, asid);
        let place = Place {
            root,
            level: Level::Pgd,
            va: VirtAddr(0),
            read_only: false,
        };
        let known = shadow.places.insert(root, vec![place]).is_some();
        let result = if known {
            Ok(())
        } else {
            self.table_comes(&mut shadow, place, root)
        };
        drop(shadow);
        complain(result);
    }

    /// What an entry says now.
    fn what(&self, table: Pfn, index: usize, place: Place) -> What {
        what::<F>(self.0.ram.word(table, index).load(Ordering::Acquire), place)
    }

    /// CPUs may go on holding what an entry said.
    fn goes(&self, shadow: &mut Shadow, place: Place, index: usize, old: What) {
        if old == What::Nothing {
            return;
        }
        let cpus = shadow.cpus(place.root);
        if let What::Leaf(pfn, _) = old {
            shadow.renewed.remove(&pfn);
        }
        shadow.stale.push(place.slot(index), old, cpus);
        if let What::Table(child, read_only) = old {
            let below = place.below(index, read_only);
            for i in 0..TABLE_ENTRIES {
                let old = self.what(child, i, below);
                self.goes(shadow, below, i, old);
            }
            let at = |p: &Place| (p.root, p.va) == (below.root, below.va);
            if let Some(places) = shadow.places.get_mut(&child) {
                places.retain(|p| !at(p));
            }
        }
    }

    /// An entry comes to say something: the rules that hold at the moment of the write.
    fn comes(
        &self,
        shadow: &mut Shadow,
        place: Place,
        (table, index): (Pfn, usize),
        new: What,
    ) -> Result<(), String> {
        let slot = place.slot(index);
        if F::BREAK_BEFORE_MAKE
            && let Some((held, what)) = shadow.stale.conflict(slot, new, Self::span() as u64)
        {
            return Err(format!(
                "break-before-make: {:?} comes to say {new:?} while a CPU may hold {what:?} of {:?} {:?}",
                slot.va(),
                held.level,
                held.va()
            ));
        }
        if let Some(other) = shadow.stale.elsewhere(slot, new, &shadow.renewed) {
            return Err(format!(
                "two places: {:?} comes to say {new:?} while a CPU may reach it at {:?}",
                slot.va(),
                other.va()
            ));
        }
        match new {
            What::Nothing => Ok(()),
            What::Leaf(pfn, attrs) if place.level == Level::Pte => {
                self.agrees((table, index), place, pfn, attrs)
            }
            What::Leaf(..) => Ok(()),
            What::Table(child, read_only) => {
                let below = place.below(index, read_only);
                let places = shadow.places.entry(child).or_default();
                if places.iter().any(|p| p.root == below.root) {
                    return Err(format!("table {child:?} is hooked in twice"));
                }
                places.push(below);
                self.table_comes(shadow, below, child)
            }
        }
    }

    /// A table comes to be reached, with all that is in it.
    fn table_comes(&self, shadow: &mut Shadow, place: Place, table: Pfn) -> Result<(), String> {
        (0..TABLE_ENTRIES).try_for_each(|i| {
            let new = self.what(table, i, place);
            self.comes(shadow, place, (table, i), new)
        })
    }

    /// A leaf against the others of its block. While a verb runs they may differ in rights and in
    /// what the walker sets, and some may be absent; frames, memory type and the contiguous bit
    /// agree at any moment.
    fn agrees(
        &self,
        (table, index): (Pfn, usize),
        place: Place,
        pfn: Pfn,
        attrs: Attrs,
    ) -> Result<(), String> {
        let contig = attrs.contains(Attrs::CONTIG);
        let first = index & !(Self::span() - 1);
        if contig && pfn.0 as usize % Self::span() != index - first {
            return Err(format!(
                "misaligned block: entry {index} of {table:?} has the contiguous bit and maps {pfn:?}"
            ));
        }
        for i in (first..first + Self::span()).filter(|i| *i != index) {
            let What::Leaf(other, theirs) = self.what(table, i, place) else {
                continue;
            };
            let follows = other.0.wrapping_sub(i as u64) == pfn.0.wrapping_sub(index as u64);
            let alike = theirs - RIGHTS == attrs - RIGHTS;
            if (contig || theirs.contains(Attrs::CONTIG)) && !(follows && alike) {
                return Err(format!(
                    "non-uniform block: entry {index} of {table:?} comes to map {pfn:?} {attrs:?}, entry {i} says {other:?} {theirs:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The meaning of an entry to the hardware.
fn what<F: PteFormat>(raw: u64, place: Place) -> What {
    let above = if place.read_only {
        Attrs::WRITE
    } else {
        Attrs::empty()
    };
    match F::decode(raw, place.level) {
        Entry::Absent => What::Nothing,
        Entry::Table(pfn) => What::Table(pfn, false),
        Entry::Shared(pfn) => What::Table(pfn, true),
        Entry::Leaf { attrs, .. } if attrs.contains(Attrs::NO_ACCESS) => What::Nothing,
        Entry::Leaf { pfn, attrs } => What::Leaf(pfn, attrs - USED - Attrs::TRACKED - above),
    }
}

/// Fails the test, unless it fails already.
fn complain(result: Result<(), String>) {
    if let Err(message) = result
        && !std::thread::panicking()
    {
        panic!("{message}");
    }
}
