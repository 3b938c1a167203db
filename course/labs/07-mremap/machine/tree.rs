//! The tree of page tables of a [`super::Machine`].

use crate::mremap::{ENTRIES, Entry, Level, NoMemory};
use alloc::collections::BTreeMap;
use core::ops::Range;

/// The number of the root.
const ROOT: u64 = 0;

/// Page tables.
pub struct Tree {
    /// By number.
    tables: BTreeMap<u64, Table>,
    made: u64,
    /// How many more tables there is memory for.
    pub memory: u64,
}

struct Table {
    level: Level,
    slots: Slots,
}

/// The entries of a table that are not absent, by their indices.
pub type Slots = BTreeMap<u64, Slot>;

/// An entry.
#[derive(Clone, Copy)]
pub struct Slot {
    pub what: What,
    pub hidden: bool,
}

/// What an entry says.
#[derive(Clone, Copy)]
pub enum What {
    /// The number of a table.
    Table(u64),
    /// The first frame.
    Leaf(u64),
}

impl Slot {
    /// An entry that CPUs see.
    pub fn seen(what: What) -> Slot {
        let hidden = false;
        Slot { what, hidden }
    }
}

/// Which entry of a table is for an address.
pub fn index(level: Level, at: u64) -> u64 {
    at / level.bytes() % ENTRIES
}

/// The entries of one table for a range.
pub fn indices(level: Level, range: &Range<u64>) -> Range<u64> {
    let first = index(level, range.start);
    first..first + (range.end - range.start) / level.bytes()
}

impl Tree {
    /// The root, and memory for so many more tables.
    pub fn new(memory: u64) -> Tree {
        let root = Table::new(Level::Pgd);
        let tables = BTreeMap::from([(ROOT, root)]);
        let made = ROOT;
        Tree {
            tables,
            made,
            memory,
        }
    }
    /// How many tables there are.
    pub fn len(&self) -> usize {
        self.tables.len()
    }
    /// The frame that CPUs find for a page.
    pub fn frame(&self, at: u64) -> Option<u64> {
        let (mut number, mut level) = (ROOT, Level::Pgd);
        loop {
            let slot = self.tables.get(&number)?.slots.get(&index(level, at))?;
            match slot.what {
                _ if slot.hidden => return None,
                What::Leaf(frame) => return Some(frame + at % level.bytes() / 4096),
                What::Table(below) => number = below,
            }
            level = level.below()?;
        }
    }
    /// What the entry of a level for an address says.
    pub fn entry(&self, level: Level, at: u64) -> Entry {
        match self.slot(level, at).map(|slot| slot.what) {
            None => Entry::Absent,
            Some(What::Table(_)) => Entry::Table,
            Some(What::Leaf(_)) => Entry::Leaf,
        }
    }
    /// Whether there is a table that has the entry of a level for an address.
    pub fn has_table(&self, level: Level, at: u64) -> bool {
        let table = self
            .number(level, at)
            .and_then(|number| self.tables.get(&number));
        table.is_some_and(|table| table.level == level)
    }
    /// The entries of the table that has the one of a level for an address.
    pub fn slots(&mut self, level: Level, at: u64) -> Option<&mut Slots> {
        let number = self.number(level, at)?;
        self.tables.get_mut(&number).map(|table| &mut table.slots)
    }
    /// The entry of a level for an address.
    pub fn slot(&self, level: Level, at: u64) -> Option<Slot> {
        let table = self.tables.get(&self.number(level, at)?)?;
        table.slots.get(&index(level, at)).copied()
    }
    /// Whether all entries of a level for a range are absent.
    pub fn is_absent(&self, level: Level, range: &Range<u64>) -> bool {
        let number = self.number(level, range.start);
        let table = number.and_then(|number| self.tables.get(&number));
        let none = |table: &Table| table.slots.range(indices(level, range)).next().is_none();
        table.is_none_or(none)
    }
    /// Takes memory for a table; its number.
    pub fn make(&mut self, level: Level) -> Result<u64, NoMemory> {
        self.memory = self.memory.checked_sub(1).ok_or(NoMemory)?;
        self.made += 1;
        self.tables.insert(self.made, Table::new(level));
        Ok(self.made)
    }
    /// Makes the table that has the entry of a level for an address, and those above it.
    pub fn make_down_to(&mut self, level: Level, at: u64) -> Result<(), NoMemory> {
        let mut here = Level::Pgd;
        while here > level
            && let Some(below) = here.below()
        {
            match self.entry(here, at) {
                Entry::Table => {}
                Entry::Leaf => panic!("lab: make: there is a leaf at {at:#x}"),
                Entry::Absent => {
                    let slot = Slot::seen(What::Table(self.make(below)?));
                    let slots = self.slots(here, at);
                    slots.and_then(|slots| slots.insert(index(here, at), slot));
                }
            }
            here = below;
        }
        Ok(())
    }
    /// Frees the tables for a range that hold nothing.
    pub fn free_empty(&mut self, range: &Range<u64>) {
        while let Some((level, at, number)) = self.empty(range) {
            self.tables.remove(&number);
            self.memory += 1;
            let slots = self.slots(level, at);
            slots.and_then(|slots| slots.remove(&index(level, at)));
        }
    }
    /// An empty table for a range: the level and address of its entry, and its number.
    pub fn empty(&self, range: &Range<u64>) -> Option<(Level, u64, u64)> {
        self.each(Level::Pgd, range, &mut |level, at, slot| match slot.what {
            What::Table(number) if self.tables.get(&number)?.slots.is_empty() => {
                Some((level, at, number))
            }
            _ => None,
        })
    }
    /// Calls `f` with the level and the address of each entry for a range, from the root down, and
    /// stops where it says so.
    pub fn each<T>(
        &self,
        level: Level,
        range: &Range<u64>,
        f: &mut impl FnMut(Level, u64, Slot) -> Option<T>,
    ) -> Option<T> {
        let first = range.start - range.start % level.bytes();
        for at in (first..range.end).step_by(level.bytes() as usize) {
            let Some(slot) = self.slot(level, at) else {
                continue;
            };
            if let Some(found) = f(level, at.max(range.start), slot) {
                return Some(found);
            }
            let part = at.max(range.start)..(at + level.bytes()).min(range.end);
            if let (What::Table(_), Some(below)) = (slot.what, level.below())
                && let Some(found) = self.each(below, &part, f)
            {
                return Some(found);
            }
        }
        None
    }

    /// The number of the table that has the entry of a level for an address.
    fn number(&self, level: Level, at: u64) -> Option<u64> {
        let (mut number, mut here) = (ROOT, Level::Pgd);
        while here > level {
            match self.tables.get(&number)?.slots.get(&index(here, at))?.what {
                What::Table(below) => number = below,
                What::Leaf(_) => return None,
            }
            here = here.below()?;
        }
        Some(number)
    }
}

impl Table {
    fn new(level: Level) -> Table {
        let slots = Slots::new();
        Table { level, slots }
    }
}
