//! Checks at rest, when no verb is running.

use super::complain;
use crate::machine::Sim;
use crate::shadow::{RIGHTS, Shadow, Slot, USED, What};
use mm::addr::{PAGE_SHIFT, Pfn, VirtAddr, VirtRange};
use mm::arch::{Asid, Attrs, Entry, Level, PteFormat, TABLE_ENTRIES};
use mm::fault::Access;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;

/// The translation of each page: its frame, and attributes with ACCESSED and DIRTY gathered over
/// its block.
type Pages = BTreeMap<u64, (Pfn, Attrs)>;

impl<F: PteFormat> Sim<F> {
    /// Checks what holds at rest, when no verb is running: every change that took a right or a
    /// frame away has been flushed, contiguous blocks are uniform, and what the walker set is still
    /// there. Panics with a description of the fault. `private` tests for frames of private memory:
    /// an object's may be unmapped and mapped again without its bits.
    pub fn settle(&self, private: impl Fn(Pfn) -> bool) {
        let mut shadow = self.shadow();
        let result = self.rest(&mut shadow, &private);
        drop(shadow);
        complain(result);
    }

    /// Records bits that were cleared on purpose in `range`: ACCESSED by MADV_COLD, both by
    /// MADV_FREE. Applies to the frames mapped there, wherever they were mapped when they were
    /// used.
    pub fn forgive(&self, root: Pfn, range: VirtRange, bits: Attrs) {
        let mut pages = Pages::new();
        let top = (Level::Pgd, VirtAddr(0), Attrs::empty());
        complain(self.pages(root, top, &mut pages));
        let here = range.start.page().0..range.end.page().0;
        let frames: HashSet<Pfn> = pages
            .range(here.clone())
            .map(|(_, (pfn, _))| *pfn)
            .collect();
        let cleared = |page, pfn| here.contains(&page) || frames.contains(&pfn);
        self.shadow().used.forgive(root, cleared, bits);
    }

    /// Records an access through the walker or a TLB. A hit in a TLB sets no accessed bit.
    pub(crate) fn note_used(&self, root: Pfn, va: VirtAddr, pfn: Pfn, access: Access, hit: bool) {
        let mut bits = Attrs::empty();
        bits.set(Attrs::ACCESSED, !hit);
        bits.set(Attrs::DIRTY, access == Access::Write);
        let mut shadow = self.shadow();
        shadow.used.note(root, va.page().0, pfn, bits);
    }

    fn rest(&self, shadow: &mut Shadow, private: &dyn Fn(Pfn) -> bool) -> Result<(), String> {
        let roots: Vec<Pfn> = shadow.roots.keys().copied().collect();
        for root in roots {
            if shadow.cpus(root) == 0 {
                continue;
            }
            let mut pages = Pages::new();
            let top = (Level::Pgd, VirtAddr(0), Attrs::empty());
            self.pages(root, top, &mut pages)?;
            for (slot, held) in shadow.stale.of(root) {
                self.flushed(root, slot, held, &pages)?;
            }
            self.kept(shadow, root, &pages, private)?;
        }
        Ok(())
    }

    /// Gathers the pages below a table. `denied`: rights that the entries above do not give.
    fn pages(
        &self,
        table: Pfn,
        (level, va, denied): (Level, VirtAddr, Attrs),
        pages: &mut Pages,
    ) -> Result<(), String> {
        if level == Level::Pte {
            for first in (0..TABLE_ENTRIES).step_by(Self::span()) {
                self.block(table, first, (va, denied), pages)?;
            }
            return Ok(());
        }
        for index in 0..TABLE_ENTRIES {
            let at = VirtAddr(va.0 + ((index as u64) << level.shift()));
            match self.entry(table, index, level) {
                Entry::Table(child) => {
                    let lower = level.lower().expect("a PTE is never a table");
                    self.pages(child, (lower, at, denied), pages)?;
                }
                Entry::Shared(child) => {
                    self.pages(child, (Level::Pte, at, denied | Attrs::WRITE), pages)?;
                }
                Entry::Leaf { pfn, attrs } => {
                    for i in 0..level.order().pages() {
                        pages.insert(at.page().0 + i, (pfn + i, attrs - denied));
                    }
                }
                Entry::Absent => {}
            }
        }
        Ok(())
    }

    /// Gathers one aligned block of a PTE table; its entries must agree if any has the contiguous
    /// bit.
    fn block(
        &self,
        table: Pfn,
        first: usize,
        (va, denied): (VirtAddr, Attrs),
        pages: &mut Pages,
    ) -> Result<(), String> {
        let all: Vec<_> = (first..first + Self::span())
            .map(|i| match self.entry(table, i, Level::Pte) {
                Entry::Leaf { pfn, attrs } => Some((pfn, attrs)),
                _ => None,
            })
            .collect();
        let folded = all
            .iter()
            .flatten()
            .any(|(_, a)| a.contains(Attrs::CONTIG) && !a.contains(Attrs::NO_ACCESS));
        if folded {
            self.uniform(&all)
                .map_err(|why| format!("non-uniform block: {first} of {table:?}: {why}"))?;
        }
        let gathered = all
            .iter()
            .flatten()
            .fold(Attrs::empty(), |sum, (_, a)| sum | *a & USED);
        for (i, (pfn, attrs)) in all.iter().enumerate().filter_map(|(i, e)| Some((i, (*e)?))) {
            let bits = if folded { gathered } else { Attrs::empty() };
            pages.insert(
                va.page().0 + (first + i) as u64,
                (pfn, (attrs | bits) - denied),
            );
        }
        Ok(())
    }

    fn uniform(&self, all: &[Option<(Pfn, Attrs)>]) -> Result<(), String> {
        let Some((pfn, attrs)) = all[0] else {
            return Err("its first entry is absent".into());
        };
        // Without hardware that sets it, the dirty bit of a writable page is a right: the page is
        // read-only without.
        let free = if self.sets_bits() || !attrs.contains(Attrs::WRITE) {
            USED
        } else {
            Attrs::ACCESSED
        };
        let alike =
            |i: usize| all[i].is_some_and(|(p, a)| p == pfn + i as u64 && a - free == attrs - free);
        match (0..all.len()).find(|i| !alike(*i)) {
            Some(i) => Err(format!(
                "entry 0 says {pfn:?} {attrs:?}, entry {i} {:?}",
                all[i]
            )),
            None => Ok(()),
        }
    }

    pub(super) fn entry(&self, table: Pfn, index: usize, level: Level) -> Entry {
        let word = self.0.ram.word(table, index);
        F::decode(word.load(Ordering::Acquire), level)
    }

    /// Checks that a translation a CPU may hold allows no more than the tables do.
    fn flushed(&self, root: Pfn, slot: Slot, held: What, pages: &Pages) -> Result<(), String> {
        let missed = |now: &dyn std::fmt::Debug| {
            Err(format!(
                "missed flush: a CPU may hold {held:?} of {:?} {:?}, now {now:?}",
                slot.level,
                slot.va()
            ))
        };
        match held {
            What::Nothing => {}
            What::Table(child, read_only) => {
                let now = self.lookup(root, slot);
                // A right that is there again may be missed for a while.
                let same = now == Entry::Table(child) || read_only && now == Entry::Shared(child);
                if !same {
                    return missed(&now);
                }
            }
            What::Leaf(pfn, attrs) => {
                for i in 0..slot.level.order().pages() {
                    let now = pages.get(&((slot.va().0 >> PAGE_SHIFT) + i));
                    let covered = now.is_some_and(|(p, a)| {
                        let key = a.key() == attrs.key();
                        let rights = !a.contains(Attrs::NO_ACCESS) && a.contains(attrs & RIGHTS);
                        *p == pfn + i && key && rights
                    });
                    if !covered {
                        return missed(&now);
                    }
                }
            }
        }
        Ok(())
    }

    /// Entries of a tag in `range` have gained rights: a CPU that holds one from before reaches the
    /// same memory by it, and faults where it may not. Whatever goes there later is recorded anew.
    pub(crate) fn note_widened(&self, asid: Asid, range: VirtRange) {
        let mut shadow = self.shadow();
        let Shadow { roots, stale, .. } = &mut *shadow;
        stale.widened(range, |slot, pfn, attrs| {
            let Entry::Leaf {
                pfn: now,
                attrs: has,
            } = self.lookup(slot.root, slot)
            else {
                return false;
            };
            let alike = Attrs::CONTIG | Attrs::KEY;
            roots[&slot.root].asid == asid
                && now == pfn
                && (has & alike) == (attrs & alike)
                && !has.contains(Attrs::NO_ACCESS)
                && has.contains(attrs & RIGHTS)
        });
    }

    /// The entry of a slot, or the one above it at which the walk ends.
    fn lookup(&self, root: Pfn, slot: Slot) -> Entry {
        let (mut table, mut level) = (root, Level::Pgd);
        loop {
            let entry = self.entry(table, level.index(slot.va()), level);
            match (entry, level.lower()) {
                (Entry::Table(next) | Entry::Shared(next), Some(lower)) if level > slot.level => {
                    (table, level) = (next, lower)
                }
                _ => return entry,
            }
        }
    }

    /// Checks that the bits set by the walker are still there, wherever the page is mapped now.
    fn kept(
        &self,
        shadow: &mut Shadow,
        root: Pfn,
        pages: &Pages,
        private: &dyn Fn(Pfn) -> bool,
    ) -> Result<(), String> {
        let mut by_frame = HashMap::<Pfn, Vec<u64>>::new();
        for (page, (pfn, _)) in pages {
            by_frame.entry(*pfn).or_default().push(*page);
        }
        for (page, record) in shadow.used.take(root) {
            if !private(record.pfn) {
                continue;
            }
            let at = by_frame.get(&record.pfn).map_or(&[][..], |at| at);
            let now = match at {
                _ if at.contains(&page) => page,
                // Moved.
                [only] => *only,
                _ => continue,
            };
            let attrs = pages[&now].1;
            if !attrs.contains(record.bits) {
                return Err(format!(
                    "lost bit: the walker set {:?} in page {now:#x} ({:?}), it says {attrs:?}",
                    record.bits, record.pfn
                ));
            }
            shadow.used.note(root, now, record.pfn, record.bits);
        }
        Ok(())
    }
}
