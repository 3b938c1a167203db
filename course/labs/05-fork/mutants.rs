//! Lab 5: broken solutions. Each stands between a right one and its tables, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Broken, ENTRIES, Entry, Folio, Fork, NoMemory, Tables};
use crate::Mutant;
use core::ops::Range;

pub const ALL: &[Mutant] = &[
    (
        "NoProtect",
        "leaves the parent the right to write to a run of which the first page is read-only",
    ),
    ("CopyFirst", "copies entries before it protects them"),
    (
        "ReferLater",
        "counts references after it has copied the entries",
    ),
    ("OneForAll", "counts one reference for a run"),
    (
        "AcrossFolios",
        "takes a single page and what lies behind it in memory for one folio",
    ),
    (
        "SharesPinned",
        "does not see that a folio is pinned whose first page is not in the run",
    ),
    (
        "ProtectsPinned",
        "takes the right to write from the parent's entry of a single page that it copies",
    ),
    (
        "GoesOn",
        "does not notice that there is no memory for the last entry of the range",
    ),
    (
        "MissesOne",
        "does not see one entry, which the seed picks, if those on both sides are absent",
    ),
    (
        "PastTheEnd",
        "copies an entry more than it is told to, if that one is of a pinned folio",
    ),
];

/// What stands between.
struct Between<'a> {
    tables: &'a mut dyn Tables,
    of: &'a Broken,
    /// Where the range ends.
    end: usize,
    /// What was put off until entries are copied.
    later: Option<(usize, usize)>,
}

impl Between<'_> {
    fn is(&self, name: &str) -> bool {
        self.of.name == name
    }
    /// Whether an entry is one that is not seen.
    fn is_missed(&self, index: usize) -> bool {
        let absent = |index| self.tables.read(index).is_none();
        self.is("MissesOne")
            && self.of.seed % ENTRIES as u64 == index as u64
            && index.checked_sub(1).is_none_or(absent)
            && absent(index + 1)
    }
    fn folio_at(&self, index: usize) -> Option<Folio> {
        let entry = self.tables.read(index)?;
        Some(self.tables.folio(entry.frame))
    }
}

fn is_single(folio: &Folio) -> bool {
    folio.frames.end - folio.frames.start == 1
}

impl Tables for Between<'_> {
    fn read(&self, index: usize) -> Option<Entry> {
        if self.is_missed(index) {
            None
        } else {
            self.tables.read(index)
        }
    }
    fn folio(&self, frame: u64) -> Folio {
        let mut folio = self.tables.folio(frame);
        if self.is("AcrossFolios") && is_single(&folio) {
            folio.frames.end += 1;
        }
        if self.is("SharesPinned") && frame != folio.frames.start {
            folio.pinned = false;
        }
        folio
    }
    fn refer(&mut self, index: usize, n: usize) {
        match self.of.name {
            "ReferLater" => self.later = Some((index, n)),
            "OneForAll" => self.tables.refer(index, 1),
            _ => self.tables.refer(index, n),
        }
    }
    fn protect(&mut self, index: usize, n: usize) {
        match self.of.name {
            "NoProtect" if self.read(index).is_some_and(|entry| !entry.writable) => {}
            "CopyFirst" => self.later = Some((index, n)),
            _ => self.tables.protect(index, n),
        }
    }
    fn copy(&mut self, index: usize, n: usize) {
        self.tables.copy(index, n);
        match (self.of.name, self.later.take()) {
            ("ReferLater", Some((index, n))) => self.tables.refer(index, n),
            (_, Some((index, n))) => self.tables.protect(index, n),
            _ => {}
        }
    }
    fn duplicate(&mut self, index: usize) -> Result<(), NoMemory> {
        if self.is("ProtectsPinned") && self.folio_at(index).is_some_and(|it| is_single(&it)) {
            self.tables.protect(index, 1);
        }
        match self.tables.duplicate(index) {
            Err(NoMemory) if self.is("GoesOn") && index + 1 == self.end => Ok(()),
            result => result,
        }
    }
}

impl Fork for Broken {
    fn fork(&self, tables: &mut dyn Tables, range: Range<usize>) -> Result<(), NoMemory> {
        let (of, end, later) = (self, range.end, None);
        let mut between = Between {
            tables,
            of,
            end,
            later,
        };
        let pinned = between.folio_at(end).is_some_and(|folio| folio.pinned);
        let more = usize::from(self.name == "PastTheEnd" && pinned);
        self.right.fork(&mut between, range.start..end + more)
    }
}
