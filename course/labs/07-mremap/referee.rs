//! What is checked of a solution at each step. A wrong one ends it, in words: "lab: ...".

use super::{ENTRIES, Entry, Level, Mover, NoMemory, Tables};
use alloc::format;
use core::ops::Range;

/// The owner of the tables: the machine of the tests, or the kernel.
pub trait Owner: Tables {
    /// Whether there is a table that has the entry of a level for an address.
    fn has_table(&self, level: Level, at: u64) -> bool;
    /// The first address of a range that is mapped, hidden or not.
    fn mapped(&self, range: &Range<u64>) -> Option<u64>;
    /// The first address of a table for a range, or of a part of the range, that holds nothing.
    fn empty_table(&self, range: &Range<u64>) -> Option<u64>;
    /// Has CPUs see again what is hidden in a range.
    fn show(&mut self, range: &Range<u64>);
}

/// Has a range moved.
pub fn move_range(
    solution: &dyn Mover,
    tables: &mut dyn Owner,
    from: Range<u64>,
    to: u64,
) -> Result<(), NoMemory> {
    let mut watched = Watched {
        tables,
        to: to..to + (from.end - from.start),
        hidden: from.start,
        flushed: from.start,
        made: false,
        failed: false,
        right: false,
        from: from.clone(),
    };
    let result = solution.move_range(&mut watched, from, to);
    watched.finish(result);
    result
}

/// Tables, and what was done to them.
struct Watched<'a> {
    tables: &'a mut dyn Owner,
    from: Range<u64>,
    to: Range<u64>,
    /// Up to where all that is mapped is hidden, and where it is also flushed.
    hidden: u64,
    flushed: u64,
    /// Whether a table was made: what moved before may have left an empty one.
    made: bool,
    /// Whether there was no memory for something.
    failed: bool,
    /// Whether all of it was right.
    right: bool,
}

impl Watched<'_> {
    fn wrong(&self, what: &str, why: &str) -> ! {
        let (from, to) = (&self.from, self.to.start);
        panic!("lab: {what}: {why}; moving {from:#x?} to {to:#x}");
    }

    /// Panics unless the range is of entries of one table, and lies in another.
    fn check(&self, what: &str, level: Level, range: &Range<u64>, within: &Range<u64>) {
        let Range { start, end } = *range;
        let wrong = |why: &str| self.wrong(&format!("{what} {start:#x}-{end:#x}"), why);
        if range.is_empty() {
            wrong("there is nothing in it");
        }
        if start < within.start || end > within.end {
            wrong("it reaches out of the range");
        }
        if start % level.bytes() != 0 || end % level.bytes() != 0 {
            wrong(&format!("it cuts an entry of {level:?}"));
        }
        let table = level.bytes() * ENTRIES;
        if start / table != (end - 1) / table {
            wrong(&format!("its entries of {level:?} are of two tables"));
        }
    }

    fn no_more(&self, what: &str) {
        if self.hidden != self.from.start {
            self.wrong(
                what,
                "entries are hidden: had there been no memory now, it would have been too late",
            );
        }
    }

    fn finish(mut self, result: Result<(), NoMemory>) {
        let end = "at the end";
        match result {
            Err(NoMemory) if !self.failed => self.wrong(end, "no memory, though there was enough"),
            Err(NoMemory) => self.no_more(end),
            Ok(()) => {
                if let Some(at) = self.tables.mapped(&self.from) {
                    self.wrong(end, &format!("{at:#x} is still mapped"));
                }
                if let Some(at) = self.tables.empty_table(&self.from) {
                    self.wrong(end, &format!("the table at {at:#x} is left, and empty"));
                }
            }
        }
        if self.made
            && let Some(at) = self.tables.empty_table(&self.to)
        {
            self.wrong(end, &format!("the table at {at:#x} was made, and is empty"));
        }
        self.right = true;
    }
}

/// After a wrong step nothing stays hidden: the simulated machine ends in order, and looks for a
/// shorter way to the same step.
impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.right {
            self.tables.flush();
            self.tables.show(&self.from);
        }
    }
}

impl Tables for Watched<'_> {
    fn most(&self) -> Level {
        self.tables.most()
    }
    fn entry(&self, level: Level, at: u64) -> Entry {
        self.tables.entry(level, at)
    }
    fn is_absent(&self, level: Level, range: &Range<u64>) -> bool {
        self.check("is_absent", level, range, &(0..u64::MAX));
        self.tables.is_absent(level, range)
    }
    fn make(&mut self, level: Level, to: u64) -> Result<(), NoMemory> {
        self.no_more("make");
        if !self.to.contains(&to) {
            self.wrong("make", &format!("nothing moves to {to:#x}"));
        }
        self.made |= !self.tables.has_table(level, to);
        let result = self.tables.make(level, to);
        self.failed |= result.is_err();
        result
    }
    fn split(&mut self, at: u64) -> Result<(), NoMemory> {
        self.no_more("split");
        if !self.from.contains(&at) || self.tables.entry(Level::Pmd, at) != Entry::Leaf {
            self.wrong(
                "split",
                &format!("at {at:#x} there is no PMD leaf that moves"),
            );
        }
        let result = self.tables.split(at);
        self.failed |= result.is_err();
        result
    }
    fn hide(&mut self, level: Level, range: &Range<u64>) {
        self.check("hide", level, range, &self.from);
        if range.start < self.hidden {
            let up_to = self.hidden;
            let why = format!(
                "{:#x}, after what lies below {up_to:#x}: from below up",
                range.start
            );
            self.wrong("hide", &why);
        }
        let mut passed_over = self.hidden..range.start;
        if !self.tables.has_table(level, range.start) {
            passed_over.end = range.end;
        }
        if let Some(at) = self.tables.mapped(&passed_over) {
            let why = format!("{at:#x} is mapped, and not by an entry of {level:?} that is hidden");
            self.wrong("hide", &why);
        }
        self.tables.hide(level, range);
        self.hidden = range.end;
    }
    fn flush(&mut self) {
        self.tables.flush();
        self.flushed = self.hidden;
    }
    fn carry(&mut self, level: Level, range: &Range<u64>, to: u64) {
        self.check("carry", level, range, &self.from);
        let target = self.to.start + (range.start - self.from.start);
        if to != target {
            let why = format!("to {to:#x}: {:#x} belongs to {target:#x}", range.start);
            self.wrong("carry", &why);
        }
        let there = to..to + (range.end - range.start);
        self.check("carry: to", level, &there, &self.to);
        if level > self.tables.most() {
            self.wrong("carry", &format!("entries of {level:?} may not move whole"));
        }
        if range.end > self.flushed {
            let at = range.end;
            let why = match at > self.hidden {
                true => "is not hidden: CPUs write into its entries",
                false => "is hidden, and not flushed: TLBs hold it at its old address",
            };
            self.wrong("carry", &format!("what lies before {at:#x} {why}"));
        }
        if self.tables.is_absent(level, range) {
            return;
        }
        if !self.tables.has_table(level, to) {
            self.wrong("carry", &format!("there is no table for {to:#x}"));
        }
        self.tables.carry(level, range, to);
    }
    fn free_empty(&mut self, range: &Range<u64>) {
        if self.flushed != self.hidden {
            self.wrong(
                "free_empty",
                "before a flush: a CPU may still read these tables",
            );
        }
        self.tables.free_empty(range);
    }
}
