//! Lab 7: broken solutions. Each stands between a right one and the tables, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Broken, ENTRIES, Entry, Level, Mover, NoMemory, Tables};
use crate::Mutant;
use alloc::vec::Vec;
use core::ops::Range;

pub const ALL: &[Mutant] = &[
    ("NoFlush", "does not flush the TLB for a single page"),
    ("EarlyFlush", "flushes before it has hidden the entries"),
    (
        "LateTables",
        "makes the tables after it has hidden the entries",
    ),
    (
        "Unalike",
        "moves entries of 1 GiB to where only entries of 2 MiB are aligned alike",
    ),
    (
        "NoSplit",
        "does not split a PMD leaf where only pages may move whole",
    ),
    (
        "LosesTail",
        "forgets what follows the last border of 1 GiB in the range",
    ),
    (
        "MissesOne",
        "forgets one page of 512, which the seed picks, where pages move to a lower address",
    ),
    (
        "PagesOnly",
        "moves pages one by one where whole tables would do",
    ),
    (
        "LeavesTables",
        "frees an empty table only if the range covers all that the table is for",
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
            "NoSplit" if self.tables.most() == Level::Pte => Ok(()),
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
        let single = self.from.end - self.from.start == Level::Pte.bytes();
        match self.of.name {
            "EarlyFlush" => {}
            "NoFlush" if single => {}
            _ => self.tables.flush(),
        }
    }
    fn carry(&mut self, level: Level, range: &Range<u64>, to: u64) {
        for (level, to) in self.late.split_off(0) {
            let _ = self.tables.make(level, to);
        }
        let to = to + self.shift;
        let missed = (range.start / 4096 / ENTRIES * ENTRIES + self.of.seed % ENTRIES) * 4096;
        let misses = self.is("MissesOne") && level == Level::Pte && to < range.start;
        if !misses || !range.contains(&missed) {
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
            let range = match self.of.name {
                "LeavesTables" => whole(range, Level::Pmd),
                _ => range.clone(),
            };
            if !range.is_empty() {
                self.tables.free_empty(&range);
            }
        } else if !self.is("LosesTables") {
            let range = range.start + self.shift..range.end + self.shift;
            self.tables.free_empty(&range);
        }
    }
}

/// What a range covers of whole entries of a level.
fn whole(range: &Range<u64>, level: Level) -> Range<u64> {
    let end = range.end - range.end % level.bytes();
    range.start.next_multiple_of(level.bytes())..end
}

impl Mover for Broken {
    fn move_range(
        &self,
        tables: &mut dyn Tables,
        mut from: Range<u64>,
        mut to: u64,
    ) -> Result<(), NoMemory> {
        let giant = Level::Pud.bytes();
        let apart = to.wrapping_sub(from.start) % giant;
        let giants = tables.most() >= Level::Pud && !whole(&from, Level::Pud).is_empty();
        let unalike = giants && apart.is_multiple_of(Level::Pmd.bytes()) && apart <= to;
        let shift = match self.name {
            "Unalike" if unalike => apart,
            _ => 0,
        };
        to -= shift;
        let end = from.end - from.end % giant;
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
