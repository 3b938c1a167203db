//! A machine for tests: the page tables of one process. Each step of a solution is checked.

use super::referee::{self, Owner};
use super::{ENTRIES, Entry, Level, NoMemory, Subject, Tables};
use alloc::collections::BTreeMap;
use core::ops::Range;

/// The frames of 2 MiB.
const LARGE: u64 = ENTRIES;

/// Page tables. What a program maps is the frame with the number that the page has at first.
pub struct Machine {
    /// By number; 0 is the root.
    tables: BTreeMap<u64, Table>,
    made: u64,
    /// How many more tables there is memory for.
    memory: u64,
    most: Level,
    writes: u64,
    flushes: u64,
}

struct Table {
    level: Level,
    slots: BTreeMap<u64, Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    what: What,
    hidden: bool,
}

#[derive(Clone, Copy)]
enum What {
    Table(u64),
    Leaf(u64),
}

impl Machine {
    /// Nothing is mapped, there is memory for 1,000 tables, and any entry may move whole.
    pub fn new() -> Machine {
        Machine {
            tables: BTreeMap::from([(0, Table::new(Level::Pgd))]),
            made: 0,
            memory: 1000,
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
    pub fn memory(self, memory: u64) -> Machine {
        Machine { memory, ..self }
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
        let (mut table, mut level) = (self.tables.get(&0)?, Level::Pgd);
        loop {
            let slot = table
                .slots
                .get(&index(level, at))
                .filter(|slot| !slot.hidden)?;
            match slot.what {
                What::Leaf(frame) => return Some(frame + at % level.bytes() / 4096),
                What::Table(number) => table = self.tables.get(&number)?,
            }
            level = level.below()?;
        }
    }
    /// How many tables there are, with the root.
    pub fn tables(&self) -> usize {
        self.tables.len()
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
        let what = What::Leaf(at / 4096);
        let slots = self.slots(level, at).expect("it was made");
        slots.insert(
            index(level, at),
            Slot {
                what,
                hidden: false,
            },
        );
    }
    /// The number of the table that has the entry of a level for an address.
    fn number(&self, level: Level, at: u64) -> Option<u64> {
        let (mut number, mut here) = (0, Level::Pgd);
        while here > level {
            match self.tables.get(&number)?.slots.get(&index(here, at))?.what {
                What::Table(below) => number = below,
                What::Leaf(_) => return None,
            }
            here = here.below()?;
        }
        Some(number)
    }
    fn slots(&mut self, level: Level, at: u64) -> Option<&mut BTreeMap<u64, Slot>> {
        let number = self.number(level, at)?;
        self.tables.get_mut(&number).map(|table| &mut table.slots)
    }
    fn slot(&self, level: Level, at: u64) -> Option<Slot> {
        let table = self.tables.get(&self.number(level, at)?)?;
        table.slots.get(&index(level, at)).copied()
    }
    fn new_table(&mut self, level: Level) -> Result<u64, NoMemory> {
        self.memory = self.memory.checked_sub(1).ok_or(NoMemory)?;
        self.made += 1;
        self.tables.insert(self.made, Table::new(level));
        Ok(self.made)
    }
    /// Calls `f` with the level and the address of each entry for a range, from the root down, and
    /// stops where it says so.
    fn each<T>(
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
    /// An empty table for a range: the level and address of its entry, and its number.
    fn empty(&self, range: &Range<u64>) -> Option<(Level, u64, u64)> {
        self.each(Level::Pgd, range, &mut |level, at, slot| match slot.what {
            What::Table(number) if self.tables.get(&number)?.slots.is_empty() => {
                Some((level, at, number))
            }
            _ => None,
        })
    }
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new()
    }
}

impl Table {
    fn new(level: Level) -> Table {
        let slots = BTreeMap::new();
        Table { level, slots }
    }
}

/// Which entry of a table is for an address.
fn index(level: Level, at: u64) -> u64 {
    at / level.bytes() % ENTRIES
}

fn indices(level: Level, range: &Range<u64>) -> Range<u64> {
    let first = index(level, range.start);
    first..first + (range.end - range.start) / level.bytes()
}

impl Tables for Machine {
    fn most(&self) -> Level {
        self.most
    }
    fn entry(&self, level: Level, at: u64) -> Entry {
        match self.slot(level, at).map(|slot| slot.what) {
            None => Entry::Absent,
            Some(What::Table(_)) => Entry::Table,
            Some(What::Leaf(_)) => Entry::Leaf,
        }
    }
    fn is_absent(&self, level: Level, range: &Range<u64>) -> bool {
        let number = self.number(level, range.start);
        let table = number.and_then(|number| self.tables.get(&number));
        table.is_none_or(|table| table.slots.range(indices(level, range)).next().is_none())
    }
    fn make(&mut self, level: Level, to: u64) -> Result<(), NoMemory> {
        let (mut number, mut here) = (0, Level::Pgd);
        while here > level
            && let Some(below) = here.below()
        {
            let slot = self.slot(here, to).map(|slot| slot.what);
            let next = match slot {
                Some(What::Table(next)) => next,
                Some(What::Leaf(_)) => panic!("lab: make: there is a leaf at {to:#x}"),
                None => self.new_table(below)?,
            };
            if let (None, Some(table)) = (slot, self.tables.get_mut(&number)) {
                let what = What::Table(next);
                table.slots.insert(
                    index(here, to),
                    Slot {
                        what,
                        hidden: false,
                    },
                );
            }
            (number, here) = (next, below);
        }
        Ok(())
    }
    fn split(&mut self, at: u64) -> Result<(), NoMemory> {
        let Some(Slot {
            what: What::Leaf(frame),
            ..
        }) = self.slot(Level::Pmd, at)
        else {
            return Ok(());
        };
        let number = self.new_table(Level::Pte)?;
        let page = |n| {
            (
                n,
                Slot {
                    what: What::Leaf(frame + n),
                    hidden: false,
                },
            )
        };
        let slots = (0..LARGE).map(page).collect();
        self.tables.insert(
            number,
            Table {
                level: Level::Pte,
                slots,
            },
        );
        if let Some(slots) = self.slots(Level::Pmd, at) {
            let what = What::Table(number);
            slots.insert(
                index(Level::Pmd, at),
                Slot {
                    what,
                    hidden: false,
                },
            );
        }
        self.writes += LARGE + 1;
        Ok(())
    }
    fn hide(&mut self, level: Level, range: &Range<u64>) {
        let Some(slots) = self.slots(level, range.start) else {
            return;
        };
        let mut hidden = 0;
        for (_, slot) in slots.range_mut(indices(level, range)) {
            slot.hidden = true;
            hidden += 1;
        }
        self.writes += hidden;
    }
    fn flush(&mut self) {
        self.flushes += 1;
    }
    fn carry(&mut self, level: Level, range: &Range<u64>, to: u64) {
        let Some(slots) = self.slots(level, range.start) else {
            return;
        };
        let mut moved = BTreeMap::new();
        for old in indices(level, range) {
            if let Some(Slot { what, .. }) = slots.remove(&old) {
                let new = index(level, to) + (old - index(level, range.start));
                moved.insert(
                    new,
                    Slot {
                        what,
                        hidden: false,
                    },
                );
            }
        }
        self.writes += moved.len() as u64;
        if let Some(slots) = self.slots(level, to) {
            slots.append(&mut moved);
        }
    }
    fn free_empty(&mut self, range: &Range<u64>) {
        while let Some((level, at, number)) = self.empty(range) {
            self.tables.remove(&number);
            self.memory += 1;
            if let Some(slots) = self.slots(level, at) {
                slots.remove(&index(level, at));
            }
        }
    }
}

impl Owner for Machine {
    fn has_table(&self, level: Level, at: u64) -> bool {
        let number = self.number(level, at);
        number.is_some_and(|number| self.tables.get(&number).is_some_and(|t| t.level == level))
    }
    fn mapped(&self, range: &Range<u64>) -> Option<u64> {
        self.each(Level::Pgd, range, &mut |_, at, slot| match slot.what {
            What::Leaf(_) => Some(at),
            What::Table(_) => None,
        })
    }
    fn empty_table(&self, range: &Range<u64>) -> Option<u64> {
        self.empty(range).map(|(_, at, _)| at)
    }
    fn show(&mut self, _range: &Range<u64>) {
        // The test has failed: the machine is not used any more.
    }
}
