//! Lab 7: broken solutions. Each stands between a right one and the tables, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Broken, ENTRIES, Entry, Level, Mover, NoMemory, Tables};
use crate::Mutant;
use alloc::vec::Vec;
use core::ops::Range;

pub const ALL: &[Mutant] = &[
    ("NoFlush", "does not flush the TLB"),
    ("EarlyFlush", "flushes before it has hidden the entries"),
    (
        "LateTables",
        "makes the tables after it has hidden the entries",
    ),
    (
        "Unalike",
        "moves whole tables to where they are not aligned alike",
    ),
    ("NoSplit", "does not split a PMD leaf that is cut"),
    ("LosesTail", "forgets what follows the last whole 2 MiB"),
    (
        "MissesOne",
        "forgets one page of 512, which the seed picks, where pages move",
    ),
    (
        "PagesOnly",
        "moves pages one by one where whole tables would do",
    ),
    (
        "LeavesTables",
        "does not free the tables that it has emptied",
    ),
    (
        "LosesTables",
        "does not free what it has made when there is no memory for all",
    ),
];

/// What stands between.
struct Between<'a> {
    tables: &'a mut dyn Tables,
    of: &'a Broken,
    from: Range<u64>,
    /// By how much the solution is told another target.
    shift: u64,
    /// Whether anything was hidden.
    begun: bool,
    /// The tables that are still to be made.
    late: Vec<(Level, u64)>,
}

impl Between<'_> {
    fn is(&self, name: &str) -> bool {
        self.of.name == name
    }
}

impl Tables for Between<'_> {
    fn most(&self) -> Level {
        match self.of.name {
            "PagesOnly" => Level::Pte,
            _ => self.tables.most(),
        }
    }
    fn entry(&self, level: Level, at: u64) -> Entry {
        self.tables.entry(level, at)
    }
    fn is_absent(&self, level: Level, range: &Range<u64>) -> bool {
        self.tables.is_absent(level, range)
    }
    fn make(&mut self, level: Level, to: u64) -> Result<(), NoMemory> {
        if self.is("LateTables") {
            self.late.push((level, to));
            return Ok(());
        }
        self.tables.make(level, to + self.shift)
    }
    fn split(&mut self, at: u64) -> Result<(), NoMemory> {
        match self.of.name {
            "NoSplit" => Ok(()),
            _ => self.tables.split(at),
        }
    }
    fn hide(&mut self, level: Level, range: &Range<u64>) {
        if self.is("EarlyFlush") && !self.begun {
            self.tables.flush();
        }
        self.begun = true;
        self.tables.hide(level, range);
    }
    fn flush(&mut self) {
        if !self.is("NoFlush") && !self.is("EarlyFlush") {
            self.tables.flush();
        }
    }
    fn carry(&mut self, level: Level, range: &Range<u64>, to: u64) {
        for (level, to) in self.late.split_off(0) {
            let _ = self.tables.make(level, to);
        }
        let to = to + self.shift;
        let missed = (range.start / 4096 / ENTRIES * ENTRIES + self.of.seed % ENTRIES) * 4096;
        if !self.is("MissesOne") || level != Level::Pte || !range.contains(&missed) {
            return self.tables.carry(level, range, to);
        }
        for part in [range.start..missed, missed + 4096..range.end] {
            if !part.is_empty() {
                let to = to + (part.start - range.start);
                self.tables.carry(level, &part, to);
            }
        }
    }
    fn free_empty(&mut self, range: &Range<u64>) {
        if *range == self.from {
            if !self.is("LeavesTables") {
                self.tables.free_empty(range);
            }
        } else if !self.is("LosesTables") {
            let range = range.start + self.shift..range.end + self.shift;
            self.tables.free_empty(&range);
        }
    }
}

impl Mover for Broken {
    fn move_range(
        &self,
        tables: &mut dyn Tables,
        mut from: Range<u64>,
        mut to: u64,
    ) -> Result<(), NoMemory> {
        let large = Level::Pmd.bytes();
        let shift = match self.name {
            "Unalike" => to.wrapping_sub(from.start) % large,
            _ => 0,
        };
        to -= shift;
        let end = from.end - from.end % large;
        if self.name == "LosesTail" && end > from.start {
            from.end = end;
        }
        let mut between = Between {
            tables,
            of: self,
            from: from.clone(),
            shift,
            begun: false,
            late: Vec::new(),
        };
        self.right.move_range(&mut between, from, to)
    }
}
