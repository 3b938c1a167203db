//! Lab 3: broken solutions. Each stands between a right one and the page, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Anon, Broken, Entry, Folio, Memory, NoMemory, Page};
use crate::Mutant;
use core::cell::Cell;

pub const ALL: &[Mutant] = &[
    (
        "FreshForReads",
        "takes memory of its own for a page that is only read",
    ),
    (
        "NotCleared",
        "does not clear folios of one order, which the seed picks",
    ),
    (
        "NoFlush",
        "does not flush the TLB when the page of zeros goes",
    ),
    ("NoBreak", "writes over the entry with the page of zeros"),
    (
        "TrustsTheLock",
        "does not look again after the lock was open",
    ),
    (
        "OnlyThePage",
        "looks again at the page, but not at those that the folio would lie over",
    ),
    ("Loses", "forgets the folio when another thread was faster"),
    ("CountsOne", "counts one page for a folio"),
    ("CountsZeros", "counts the page of zeros"),
    (
        "GivesUp",
        "has no memory when there is none for a large folio",
    ),
];

/// What stands between.
struct Between<'a> {
    page: &'a mut dyn Page,
    of: &'a Broken,
    /// What the page and the policy said first.
    entry: Cell<Option<Entry>>,
    order: Cell<Option<u8>>,
    /// Whether there was no memory for a folio.
    failed: bool,
}

impl Between<'_> {
    fn is(&self, name: &str) -> bool {
        self.of.name == name
    }
}

/// What is done with the lock open.
struct Open<'a> {
    memory: &'a mut dyn Memory,
    of: &'a Broken,
    failed: &'a mut bool,
}

impl Memory for Open<'_> {
    fn allocate(&mut self, order: u8) -> Option<Folio> {
        let folio = self.memory.allocate(order);
        *self.failed |= folio.is_none();
        folio
    }
    fn clear(&mut self, folio: Folio) {
        let broken = self.of.name == "NotCleared" && u64::from(folio.order) == self.of.seed % 4;
        if !broken {
            self.memory.clear(folio);
        }
    }
}

impl Page for Between<'_> {
    fn entry(&self) -> Entry {
        let now = self.page.entry();
        if self.is("GivesUp") && self.failed {
            return Entry::Gone;
        }
        let first = self.entry.get().unwrap_or(now);
        self.entry.set(Some(first));
        match self.is("TrustsTheLock") {
            true => first,
            false => now,
        }
    }
    fn order(&self, most: u8) -> u8 {
        let now = self.page.order(most);
        let first = self.order.get().unwrap_or(now);
        self.order.set(Some(first));
        match self.is("OnlyThePage") || self.is("TrustsTheLock") {
            true => first.min(most),
            false => now,
        }
    }
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Memory)) {
        let (of, failed) = (self.of, &mut self.failed);
        self.page
            .open(&mut |memory| work(&mut Open { memory, of, failed }));
    }
    fn map_zeros(&mut self) -> Result<(), NoMemory> {
        self.page.map_zeros()?;
        if self.is("CountsZeros") {
            self.page.count(1);
        }
        Ok(())
    }
    fn map(&mut self, folio: Folio) -> Result<(), NoMemory> {
        self.page.map(folio)
    }
    fn unmap(&mut self) {
        if !self.is("NoBreak") {
            self.page.unmap();
        }
    }
    fn flush(&mut self) {
        if !self.is("NoFlush") {
            self.page.flush();
        }
    }
    fn free(&mut self, folio: Folio) {
        if !self.is("Loses") {
            self.page.free(folio);
        }
    }
    fn count(&mut self, pages: u64) {
        self.page
            .count(if self.is("CountsOne") { 1 } else { pages });
    }
}

impl Anon for Broken {
    fn fault(&self, page: &mut dyn Page, write: bool) -> Result<(), NoMemory> {
        let (entry, order) = (Cell::new(None), Cell::new(None));
        let mut between = Between {
            page,
            of: self,
            entry,
            order,
            failed: false,
        };
        let as_write = write || self.name == "FreshForReads";
        self.right.fault(&mut between, as_write)?;
        match between.failed && self.name == "GivesUp" {
            true => Err(NoMemory),
            false => Ok(()),
        }
    }
}
