//! A machine for tests: the page tables of one process. Each step of a solution is checked.

mod tree;

use super::referee::{self, Owner};
use super::{ENTRIES, Entry, Level, NoMemory, Subject, Tables};
use core::ops::Range;
use tree::{Slot, Slots, Tree, What, index, indices};

/// Page tables. What a program maps is the frame with the number that the page has at first.
pub struct Machine {
    tree: Tree,
    most: Level,
    writes: u64,
    flushes: u64,
}

impl Machine {
    /// Nothing is mapped, there is memory for 1,000 tables, and any entry may move whole.
    pub fn new() -> Machine {
        Machine {
            tree: Tree::new(1000),
            most: Level::Pgd,
            writes: 0,
            flushes: 0,
        }
    }
    /// A range is mapped, page by page.
    pub fn pages(mut self, range: Range<u64>) -> Machine {
        for at in range.step_by(4096) {
            self.map(Level::Pte, at);
        }
        self
    }
    /// 2 MiB are mapped by one leaf.
    pub fn large(mut self, at: u64) -> Machine {
        self.map(Level::Pmd, at);
        self
    }
    /// There is memory for so many more tables.
    pub fn memory(mut self, memory: u64) -> Machine {
        self.tree.memory = memory;
        self
    }
    /// Entries of no higher level may move whole.
    pub fn most(self, most: Level) -> Machine {
        Machine { most, ..self }
    }

    /// Moves a range to an address where nothing is mapped.
    pub fn mremap(
        &mut self,
        solution: &Subject,
        from: Range<u64>,
        to: u64,
    ) -> Result<(), NoMemory> {
        referee::move_range(solution, self, from, to)
    }

    /// The frame that a page is mapped to.
    pub fn frame(&self, at: u64) -> Option<u64> {
        self.tree.frame(at)
    }
    /// How many tables there are, with the root.
    pub fn tables(&self) -> usize {
        self.tree.len()
    }
    /// How many entries were hidden, moved, or written by a split.
    pub fn writes(&self) -> u64 {
        self.writes
    }
    /// How often TLBs were flushed.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    fn map(&mut self, level: Level, at: u64) {
        self.make(level, at).expect("a test has too little memory");
        let slots = self.tree.slots(level, at).expect("it was made");
        slots.insert(index(level, at), Slot::seen(What::Leaf(at / 4096)));
    }
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new()
    }
}

impl Tables for Machine {
    fn most(&self) -> Level {
        self.most
    }
    fn entry(&self, level: Level, at: u64) -> Entry {
        self.tree.entry(level, at)
    }
    fn is_absent(&self, level: Level, range: &Range<u64>) -> bool {
        self.tree.is_absent(level, range)
    }
    fn make(&mut self, level: Level, to: u64) -> Result<(), NoMemory> {
        self.tree.make_down_to(level, to)
    }
    fn split(&mut self, at: u64) -> Result<(), NoMemory> {
        let slot = self.tree.slot(Level::Pmd, at).map(|slot| slot.what);
        let Some(What::Leaf(frame)) = slot else {
            return Ok(());
        };
        let table = Slot::seen(What::Table(self.tree.make(Level::Pte)?));
        if let Some(slots) = self.tree.slots(Level::Pmd, at) {
            slots.insert(index(Level::Pmd, at), table);
        }
        if let Some(slots) = self.tree.slots(Level::Pte, at) {
            slots.extend((0..ENTRIES).map(|n| (n, Slot::seen(What::Leaf(frame + n)))));
        }
        self.writes += ENTRIES + 1;
        Ok(())
    }
    fn hide(&mut self, level: Level, range: &Range<u64>) {
        let Some(slots) = self.tree.slots(level, range.start) else {
            return;
        };
        for (_, slot) in slots.range_mut(indices(level, range)) {
            slot.hidden = true;
            self.writes += 1;
        }
    }
    fn flush(&mut self) {
        self.flushes += 1;
    }
    fn carry(&mut self, level: Level, range: &Range<u64>, to: u64) {
        let Some(slots) = self.tree.slots(level, range.start) else {
            return;
        };
        let (old, new) = (index(level, range.start), index(level, to));
        let mut moved = Slots::new();
        for at in indices(level, range) {
            if let Some(slot) = slots.remove(&at) {
                moved.insert(new + (at - old), Slot::seen(slot.what));
            }
        }
        self.writes += moved.len() as u64;
        if let Some(slots) = self.tree.slots(level, to) {
            slots.append(&mut moved);
        }
    }
    fn free_empty(&mut self, range: &Range<u64>) {
        self.tree.free_empty(range);
    }
}

impl Owner for Machine {
    fn has_table(&self, level: Level, at: u64) -> bool {
        self.tree.has_table(level, at)
    }
    fn mapped(&self, range: &Range<u64>) -> Option<u64> {
        let mut leaf = |_, at, slot: Slot| matches!(slot.what, What::Leaf(_)).then_some(at);
        self.tree.each(Level::Pgd, range, &mut leaf)
    }
    fn empty_table(&self, range: &Range<u64>) -> Option<u64> {
        self.tree.empty(range).map(|(_, at, _)| at)
    }
    fn show(&mut self, _range: &Range<u64>) {
        // The test has failed: the machine is not used any more.
    }
}
