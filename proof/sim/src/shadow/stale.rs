//! Translations of changed entries that CPUs may still hold, until a flush covers them.

use super::{Slot, What};
use crate::tlb::Flush;
use mm::addr::{Pfn, VirtRange};
use mm::arch::{Attrs, Level};
use std::collections::{BTreeMap, HashSet};

/// A translation that CPUs may hold.
struct Held {
    what: What,
    /// One bit for each CPU.
    cpus: u64,
    /// When the entry was last changed.
    since: Moment,
}

/// A point in the order of flushes: a flush covers what was changed before it began.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

#[derive(Default)]
pub struct Stale(BTreeMap<Slot, Vec<Held>>, Moment);

/// The old and the new contents of a frame are different things: a frame that got new contents
/// between two mappings.
pub(crate) type Renewed = HashSet<Pfn>;

impl Stale {
    pub(crate) fn push(&mut self, slot: Slot, what: What, cpus: u64) {
        if cpus == 0 {
            return;
        }
        let (held, since) = (self.0.entry(slot).or_default(), self.1);
        match held.iter_mut().find(|h| h.what == what) {
            Some(known) => {
                known.cpus |= cpus;
                known.since = since;
            }
            None => held.push(Held { what, cpus, since }),
        }
    }

    /// Begins a flush of what was changed up to now.
    pub(crate) fn moment(&mut self) -> Moment {
        self.1.0 += 1;
        self.1
    }

    /// The first translation that CPUs may hold and that differs from `new` in frame, size or
    /// contiguity (DDI 0487, D8.16.1).
    pub(crate) fn conflict(&self, slot: Slot, new: What, span: u64) -> Option<(Slot, What)> {
        if new == What::Nothing || self.0.is_empty() {
            return None;
        }
        let here = self.find(slot, |old| match (old, new) {
            (What::Leaf(old, was), What::Leaf(new, is)) => {
                old != new || (was ^ is).contains(Attrs::CONTIG)
            }
            // Rights may change at once.
            (What::Table(old, _), What::Table(new, _)) => old != new,
            (old, new) => old != new,
        });
        here.or_else(|| self.larger(slot)).or_else(|| match new {
            What::Leaf(..) if slot.level != Level::Pte => self.smaller(slot),
            What::Leaf(pfn, attrs) => self.neighbour(slot, pfn, attrs, span),
            _ => None,
        })
    }
    /// A translation to another frame or table that CPUs may hold: one of them would see old
    /// contents after another has written new ones.
    pub(crate) fn replaced(&self, slot: Slot, new: What) -> Option<(Slot, What)> {
        if self.0.is_empty() {
            return None;
        }
        self.find(slot, |old| match (old, new) {
            (What::Leaf(old, _), What::Leaf(new, _)) => old != new,
            (What::Table(old, _), What::Table(new, _)) => old != new,
            _ => false,
        })
    }
    /// Another slot of the root by which a CPU may still reach frames that become writable at
    /// `slot`.
    pub(crate) fn elsewhere(&self, slot: Slot, new: What, renewed: &Renewed) -> Option<Slot> {
        let What::Leaf(pfn, attrs) = new else {
            return None;
        };
        if self.0.is_empty() || !attrs.contains(Attrs::WRITE) || renewed.contains(&pfn) {
            return None;
        }
        let frames = |pfn: Pfn, level: Level| pfn.0..pfn.0 + level.order().pages();
        let new = frames(pfn, slot.level);
        let reaches = |(other, what): &(Slot, What)| match *what {
            What::Leaf(old, _) => {
                let old = frames(old, other.level);
                let same = other.va() == slot.va() || other.level != slot.level;
                !same && old.start < new.end && new.start < old.end
            }
            _ => false,
        };
        self.of(slot.root).find(reaches).map(|(other, _)| other)
    }
    /// A translation to one of these frames that CPUs may hold.
    pub(crate) fn reaches(&self, first: Pfn, pages: u64) -> Option<Slot> {
        let frames = first.0..first.0 + pages;
        let reaches = |slot: &Slot, held: &Held| match held.what {
            What::Leaf(old, _) => {
                old.0 < frames.end && frames.start < old.0 + slot.level.order().pages()
            }
            _ => false,
        };
        let mut all = self.0.iter();
        let found = all.find(|(slot, held)| held.iter().any(|held| reaches(slot, held)));
        found.map(|(slot, _)| *slot)
    }
    fn find(&self, slot: Slot, wrong: impl Fn(What) -> bool) -> Option<(Slot, What)> {
        let held = self.0.get(&slot)?.iter().find(|h| wrong(h.what))?;
        Some((slot, held.what))
    }
    /// A larger leaf over the slot.
    fn larger(&self, slot: Slot) -> Option<(Slot, What)> {
        [Level::Pmd, Level::Pud]
            .into_iter()
            .filter(|level| *level > slot.level)
            .find_map(|level| {
                let over = Slot::new(slot.root, level, slot.va());
                self.find(over, |old| matches!(old, What::Leaf(..)))
            })
    }
    /// Anything inside a large leaf.
    fn smaller(&self, slot: Slot) -> Option<(Slot, What)> {
        [Level::Pte, Level::Pmd]
            .into_iter()
            .filter(|level| *level < slot.level)
            .find_map(|level| {
                let first = Slot::new(slot.root, level, slot.va());
                let end = Slot {
                    number: first.number + (slot.level.bytes() >> level.shift()),
                    ..first
                };
                let (slot, held) = self.0.range(first..end).next()?;
                Some((*slot, held.first()?.what))
            })
    }
    /// Another entry of the contiguous block that an old or the new translation covers.
    fn neighbour(&self, slot: Slot, pfn: Pfn, attrs: Attrs, span: u64) -> Option<(Slot, What)> {
        let first = slot.number & !(span - 1);
        (first..first + span)
            .filter(|number| *number != slot.number)
            .find_map(|number| {
                self.find(Slot { number, ..slot }, |old| {
                    let What::Leaf(old, was) = old else {
                        return false;
                    };
                    let wide = (was | attrs).contains(Attrs::CONTIG);
                    let same = old.0.wrapping_sub(number) == pfn.0.wrapping_sub(slot.number);
                    wide && (!same || (was ^ attrs).contains(Attrs::CONTIG))
                })
            })
    }

    pub(crate) fn flush_range(&mut self, of: impl Fn(Pfn) -> bool, flush: Flush, before: Moment) {
        self.0.retain(|slot, held| {
            if of(slot.root) && flush.hits(slot.va(), slot.level.bytes()) {
                let stays = |h: &Held| matches!(h.what, What::Table(..)) && !flush.tables;
                held.retain(|h| h.since >= before || stays(h));
            }
            !held.is_empty()
        });
    }
    /// Drops those leaves in `range` that `does_no_harm`.
    pub(crate) fn widened(
        &mut self,
        range: VirtRange,
        does_no_harm: impl Fn(Slot, Pfn, Attrs) -> bool,
    ) {
        self.0.retain(|slot, held| {
            if slot.va() < range.end && slot.va() + slot.level.bytes() > range.start {
                held.retain(|h| match h.what {
                    What::Leaf(pfn, attrs) => !does_no_harm(*slot, pfn, attrs),
                    _ => true,
                });
            }
            !held.is_empty()
        });
    }
    /// Drops all of a root, which was flushed or ended.
    pub(crate) fn forget(&mut self, root: Pfn) {
        self.0.retain(|slot, _| slot.root != root);
    }
    /// Drops one CPU's translations of a root.
    pub(crate) fn lose(&mut self, root: Pfn, cpu: usize) {
        self.0.retain(|slot, held| {
            if slot.root == root {
                held.iter_mut().for_each(|h| h.cpus &= !(1 << cpu));
                held.retain(|h| h.cpus != 0);
            }
            !held.is_empty()
        });
    }
    /// The CPUs that may hold a translation of the slot, one bit each.
    pub(crate) fn holders(&self, slot: Slot) -> u64 {
        let held = self.0.get(&slot).into_iter().flatten();
        held.fold(0, |cpus, h| cpus | h.cpus)
    }
    /// The translations of a root that CPUs may hold.
    pub(crate) fn of(&self, root: Pfn) -> impl Iterator<Item = (Slot, What)> {
        self.0
            .iter()
            .filter(move |(slot, _)| slot.root == root)
            .flat_map(|(slot, held)| held.iter().map(|h| (*slot, h.what)))
    }
}
