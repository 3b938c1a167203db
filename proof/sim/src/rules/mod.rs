//! The rules of the hardware, checked against the shadow.
//!
//! At each write of an entry: another frame or table than CPUs may still hold, on arm64 all of
//! its break-before-make; a misaligned contiguous block, one whose frames or memory types do not
//! agree, memory that is writable at one place while a CPU may still reach it at another. When a
//! frame gets new contents: a CPU may still reach the old ones. At rest ([`Sim::settle`]): missed
//! flushes, blocks that are not uniform, accessed and dirty bits that are gone.

mod rest;
mod stale;

use crate::machine::Sim;
use crate::shadow::{RIGHTS, Shadow, TablePosition, USED, What};
use mm::addr::{Order, Pfn, VirtAddr};
use mm::arch::{Asid, Attrs, Entry, Level, PteFormat, TABLE_ENTRIES};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

impl<F: PteFormat> Sim<F> {
    /// Entries of a contiguous block.
    pub(crate) fn span() -> usize {
        F::CONTIG_ORDER.map_or(1, |order| order.pages() as usize)
    }

    /// Checks an entry that was written with the shadow locked.
    pub(crate) fn written(
        &self,
        mut shadow: MutexGuard<'_, Shadow>,
        (table, index): (Pfn, usize),
        old: u64,
        new: u64,
    ) {
        let positions = shadow.positions.get(&table).cloned().unwrap_or_default();
        let result = positions.into_iter().try_for_each(|position| {
            let (old, new) = (what::<F>(old, position), what::<F>(new, position));
            if old == new {
                return Ok(());
            }
            self.goes(&mut shadow, position, index, old);
            self.comes(&mut shadow, position, (table, index), new)
        });
        drop(shadow);
        complain(result);
    }

    /// Checks frames that get new contents. Where flushes do nothing ([`Sim::drop_flushes`]) that
    /// is for other checks to find.
    pub(crate) fn renew(&self, first: Pfn, order: Order) {
        let result = self.shadow().renew(first, order);
        if !self.0.drop_flushes.load(Ordering::Relaxed) {
            complain(result);
        }
    }

    /// Loads a root on a CPU.
    pub(crate) fn load_root(&self, cpu: usize, root: Pfn, asid: Asid) {
        // Both locked: no entry changes between what the CPU does and what is recorded.
        let mut caches = self.caches(cpu);
        let mut shadow = self.shadow();
        caches.activate(root, asid);
        shadow.load(cpu, root, asid);
        let position = TablePosition {
            root,
            level: Level::Pgd,
            va: VirtAddr(0),
            read_only: false,
        };
        let known = shadow.positions.insert(root, vec![position]).is_some();
        let result = if known {
            Ok(())
        } else {
            self.table_comes(&mut shadow, position, root)
        };
        drop((shadow, caches));
        complain(result);
    }

    /// The meaning of an entry now.
    fn what(&self, table: Pfn, index: usize, position: TablePosition) -> What {
        what::<F>(
            self.0.ram.word(table, index).load(Ordering::Acquire),
            position,
        )
    }

    /// Records the old meaning of an entry as stale: CPUs may still hold it.
    fn goes(&self, shadow: &mut Shadow, position: TablePosition, index: usize, old: What) {
        if old == What::Nothing {
            return;
        }
        let cpus = shadow.cpus(position.root);
        if let What::Leaf(pfn, _) = old {
            shadow.renewed.remove(&pfn);
        }
        shadow.stale.push(position.slot(index), old, cpus);
        if let What::Table(child, read_only) = old {
            let below = position.below(index, read_only);
            for i in 0..TABLE_ENTRIES {
                let old = self.what(child, i, below);
                self.goes(shadow, below, i, old);
            }
            let at = |p: &TablePosition| (p.root, p.va) == (below.root, below.va);
            if let Some(positions) = shadow.positions.get_mut(&child) {
                positions.retain(|p| !at(p));
            }
        }
    }

    /// Checks the new meaning of an entry by the rules that hold at the moment of the write.
    fn comes(
        &self,
        shadow: &mut Shadow,
        position: TablePosition,
        (table, index): (Pfn, usize),
        new: What,
    ) -> Result<(), String> {
        let slot = position.slot(index);
        let held = match F::BREAK_BEFORE_MAKE {
            true => shadow.stale.conflict(slot, new, Self::span() as u64),
            false => shadow.stale.replaced(slot, new),
        };
        if let Some((held, what)) = held {
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
            What::Leaf(pfn, attrs) if position.level == Level::Pte => {
                self.agrees((table, index), position, pfn, attrs)
            }
            What::Leaf(..) => Ok(()),
            What::Table(child, read_only) => {
                let below = position.below(index, read_only);
                let positions = shadow.positions.entry(child).or_default();
                if positions.iter().any(|p| p.root == below.root) {
                    return Err(format!("table {child:?} is hooked in twice"));
                }
                positions.push(below);
                self.table_comes(shadow, below, child)
            }
        }
    }

    /// Checks all entries of a table that becomes reachable.
    fn table_comes(
        &self,
        shadow: &mut Shadow,
        position: TablePosition,
        table: Pfn,
    ) -> Result<(), String> {
        (0..TABLE_ENTRIES).try_for_each(|i| {
            let new = self.what(table, i, position);
            self.comes(shadow, position, (table, i), new)
        })
    }

    /// Checks a leaf against the others of its block. While a verb runs they may differ in rights
    /// and in what the walker sets, and some may be absent; frames, memory type and the contiguous
    /// bit agree at any moment.
    fn agrees(
        &self,
        (table, index): (Pfn, usize),
        position: TablePosition,
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
            let What::Leaf(other, theirs) = self.what(table, i, position) else {
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

/// Bits that the hardware ignores.
const SOFTWARE: Attrs = Attrs::TRACKED.union(Attrs::UFFD_WP);

/// The meaning of an entry to the hardware.
fn what<F: PteFormat>(raw: u64, position: TablePosition) -> What {
    let above = if position.read_only {
        Attrs::WRITE
    } else {
        Attrs::empty()
    };
    match F::decode(raw, position.level) {
        Entry::Absent => What::Nothing,
        Entry::Table(pfn) => What::Table(pfn, false),
        Entry::Shared(pfn) => What::Table(pfn, true),
        Entry::Leaf { attrs, .. } if attrs.contains(Attrs::NO_ACCESS) => What::Nothing,
        Entry::Leaf { pfn, attrs } => What::Leaf(pfn, attrs - USED - SOFTWARE - above),
    }
}

/// Fails the test, unless it is failing already.
fn complain(result: Result<(), String>) {
    if let Err(message) = result
        && !std::thread::panicking()
    {
        panic!("{message}");
    }
}
