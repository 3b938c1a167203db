//! What is checked of a solution at each step, before it is done: in the kernel, and in the machine
//! for tests. A wrong step ends it, in words: "lab: ...".

use super::{ENTRIES, Entry, Folio, Fork, NoMemory, Tables};
use core::ops::Range;

/// Has a solution copy the entries of `range` of a table, of which the first is for address
/// `start`.
pub fn fork(
    solution: &dyn Fork,
    tables: &mut dyn Tables,
    range: Range<usize>,
    start: u64,
) -> Result<(), NoMemory> {
    let mut watched = Watched {
        tables,
        range: range.clone(),
        start,
        referred: Set::default(),
        done: Set::default(),
        failed: false,
    };
    let result = solution.fork(&mut watched, range);
    watched.finish(result);
    result
}

/// Entries of a table.
#[derive(Default)]
struct Set([u64; ENTRIES / 64]);

impl Set {
    fn has(&self, index: usize) -> bool {
        self.0[index / 64] & 1 << (index % 64) != 0
    }
    fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }
}

/// Tables, and what was done to them.
struct Watched<'a> {
    tables: &'a mut dyn Tables,
    range: Range<usize>,
    start: u64,
    /// Entries for whose pages the child has a reference.
    referred: Set,
    /// Entries that the child has.
    done: Set,
    /// Whether there was no memory.
    failed: bool,
}

impl Watched<'_> {
    fn wrong(&self, verb: &str, index: usize, why: &str) -> ! {
        let at = self.start + (index * 4096) as u64;
        panic!("lab: {verb}: entry {index} at {at:#x}: {why}");
    }
    /// What an entry says that is there, and in the range.
    fn entry(&self, verb: &str, index: usize) -> Entry {
        if self.failed {
            self.wrong(
                verb,
                index,
                "there was no memory for a page: fork ends there",
            );
        }
        if !self.range.contains(&index) {
            self.wrong(verb, index, "it is not in the range");
        }
        match self.tables.read(index) {
            Some(entry) => entry,
            None => self.wrong(verb, index, "it is absent"),
        }
    }

    fn check_refer(&self, index: usize, n: usize) {
        let first = self.entry("refer", index);
        let folio = self.tables.folio(first.frame);
        if folio.pinned {
            self.wrong(
                "refer",
                index,
                "a device uses its folio: the child gets a copy",
            );
        }
        for page in 0..n {
            let (index, next) = (index + page, first.frame + page as u64);
            if self.entry("refer", index).frame != next {
                self.wrong("refer", index, "it does not map the page that would follow");
            }
            if !folio.frames.contains(&next) {
                self.wrong("refer", index, "it maps a page of another folio");
            }
            if self.referred.has(index) || self.done.has(index) {
                self.wrong("refer", index, "the child has its page already");
            }
        }
    }
    fn check_protect(&self, index: usize) {
        let entry = self.entry("protect", index);
        if entry.writable && self.tables.folio(entry.frame).pinned {
            self.wrong(
                "protect",
                index,
                "a device uses its folio, and the parent's writes have to stay there",
            );
        }
    }
    fn check_copy(&self, index: usize) {
        let entry = self.entry("copy", index);
        if !self.referred.has(index) {
            self.wrong("copy", index, "the child has no reference to its page");
        }
        if entry.writable {
            self.wrong(
                "copy",
                index,
                "it may be written to: parent and child would see each other's writes",
            );
        }
        if self.done.has(index) {
            self.wrong("copy", index, "it was copied before");
        }
    }
    fn check_duplicate(&self, index: usize) {
        self.entry("duplicate", index);
        if self.referred.has(index) || self.done.has(index) {
            self.wrong("duplicate", index, "the child has its page already");
        }
    }

    fn finish(self, result: Result<(), NoMemory>) {
        if self.failed != result.is_err() {
            panic!(
                "lab: fork: there was{} memory for each page, and the answer is {result:?}",
                if self.failed { " no" } else { "" }
            );
        }
        for index in self.range.clone() {
            let (referred, done) = (self.referred.has(index), self.done.has(index));
            if referred && !done {
                self.wrong(
                    "fork",
                    index,
                    "the child has a reference to its page, and no entry: it is never given back",
                );
            }
            if !done && !self.failed && self.tables.read(index).is_some() {
                self.wrong("fork", index, "the child has not got it");
            }
        }
    }
}

impl Tables for Watched<'_> {
    fn read(&self, index: usize) -> Option<Entry> {
        // A look beyond the range does no harm, beyond the table there is nothing.
        (index < ENTRIES).then(|| self.tables.read(index))?
    }
    fn folio(&self, frame: u64) -> Folio {
        self.tables.folio(frame)
    }
    fn refer(&mut self, index: usize, n: usize) {
        self.check_refer(index, n);
        (index..index + n).for_each(|index| self.referred.add(index));
        self.tables.refer(index, n);
    }
    fn protect(&mut self, index: usize, n: usize) {
        (index..index + n).for_each(|index| self.check_protect(index));
        self.tables.protect(index, n);
    }
    fn copy(&mut self, index: usize, n: usize) {
        for index in index..index + n {
            self.check_copy(index);
            self.done.add(index);
        }
        self.tables.copy(index, n);
    }
    fn duplicate(&mut self, index: usize) -> Result<(), NoMemory> {
        self.check_duplicate(index);
        let result = self.tables.duplicate(index);
        match result {
            Ok(()) => self.done.add(index),
            Err(NoMemory) => self.failed = true,
        }
        result
    }
}
