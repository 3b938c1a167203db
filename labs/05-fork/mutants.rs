//! Lab 5: broken solutions. Each stands between a right one and its tables, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Broken, ENTRIES, Entry, Folio, Fork, NoMemory, Tables};
use crate::Mutant;
use core::ops::Range;

pub const ALL: &[Mutant] = &[
    ("NoProtect", "leaves the parent the right to write"),
    ("CopyFirst", "copies entries before it protects them"),
    (
        "ReferLater",
        "counts references after it has copied the entries",
    ),
    ("OneForAll", "counts one reference for a run"),
    ("AcrossFolios", "takes two folios side by side for one"),
    ("SharesPinned", "does not look whether a folio is pinned"),
    (
        "ProtectsPinned",
        "takes the right to write from the parent's entry of a page that it copies",
    ),
    ("GoesOn", "does not notice that there is no memory"),
    ("MissesOne", "does not see one entry, which the seed picks"),
    ("PastTheEnd", "copies an entry more than it is told to"),
];

/// What stands between.
struct Between<'a> {
    tables: &'a mut dyn Tables,
    of: &'a Broken,
    /// What was put off until entries are copied.
    later: Option<(usize, usize)>,
}

impl Between<'_> {
    fn is(&self, name: &str) -> bool {
        self.of.name == name
    }
}

impl Tables for Between<'_> {
    fn read(&self, index: usize) -> Option<Entry> {
        let missed = self.is("MissesOne") && self.of.seed % ENTRIES as u64 == index as u64;
        if missed {
            None
        } else {
            self.tables.read(index)
        }
    }
    fn folio(&self, frame: u64) -> Folio {
        let mut folio = self.tables.folio(frame);
        if self.is("AcrossFolios") {
            let pages = 2 * (folio.frames.end - folio.frames.start);
            let first = frame - frame % pages;
            folio.frames = first..first + pages;
        }
        folio.pinned &= !self.is("SharesPinned");
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
            "NoProtect" => {}
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
        if self.is("ProtectsPinned") {
            self.tables.protect(index, 1);
        }
        match self.tables.duplicate(index) {
            Err(NoMemory) if self.is("GoesOn") => Ok(()),
            result => result,
        }
    }
}

impl Fork for Broken {
    fn fork(&self, tables: &mut dyn Tables, range: Range<usize>) -> Result<(), NoMemory> {
        let (of, later) = (self, None);
        let more = usize::from(self.name == "PastTheEnd" && range.end < ENTRIES);
        let range = range.start..range.end + more;
        self.right.fork(&mut Between { tables, of, later }, range)
    }
}
