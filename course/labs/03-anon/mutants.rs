//! Lab 3: broken solutions. Each stands between a right one and the page, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Anon, Broken, Entry, Folio, MAX_ORDER, Memory, NoMemory, Page};
use crate::Mutant;
use core::cell::Cell;

pub const ALL: &[Mutant] = &[
    (
        "FreshForReads",
        "takes memory of its own for a page that is only read",
    ),
    (
        "NotCleared",
        "does not clear folios of one order of 4 to 9, which the seed picks",
    ),
    (
        "NoFlush",
        "does not flush the TLB when the page of zeros goes",
    ),
    ("NoBreak", "writes over the entry with the page of zeros"),
    (
        "TrustsTheLock",
        "looks again after the lock was open for the first time, but not after the second",
    ),
    (
        "OnlyThePage",
        "looks again at the page, but not at those that a folio of 8 or more pages would lie over",
    ),
    ("Loses", "gives back one folio, and forgets a second one"),
    ("CountsOne", "counts one page for a folio of 2 MiB"),
    ("CountsZeros", "counts the page of zeros"),
    (
        "GivesUp",
        "has no memory when there is none for folios of four sizes",
    ),
];

/// What stands between.
struct Between<'a> {
    page: &'a mut dyn Page,
    of: &'a Broken,
    /// What the page and the policy said last, as far as it was believed.
    entry: Cell<Option<Entry>>,
    order: Cell<Option<u8>>,
    /// How often the lock was opened, there was no memory for a folio, and one was given back.
    opened: u32,
    failed: u32,
    freed: u32,
}

impl Between<'_> {
    fn is(&self, name: &str) -> bool {
        self.of.name == name
    }
    /// Whether it has failed too often for one that gives up.
    fn gives_up(&self) -> bool {
        self.is("GivesUp") && self.failed >= 4
    }
    /// What is said now, or what was said before.
    fn said<T: Copy>(&self, last: &Cell<Option<T>>, now: T, stale: bool) -> T {
        let said = last.get().filter(|_| stale).unwrap_or(now);
        last.set(Some(said));
        said
    }
}

/// What is done with the lock open.
struct Open<'a> {
    memory: &'a mut dyn Memory,
    of: &'a Broken,
    failed: &'a mut u32,
}

impl Memory for Open<'_> {
    fn allocate(&mut self, order: u8) -> Option<Folio> {
        let folio = self.memory.allocate(order);
        *self.failed += u32::from(folio.is_none());
        folio
    }
    fn clear(&mut self, folio: Folio) {
        let chosen = u64::from(folio.order) == 4 + self.of.seed % 6;
        if self.of.name != "NotCleared" || !chosen {
            self.memory.clear(folio);
        }
    }
}

impl Page for Between<'_> {
    fn entry(&self) -> Entry {
        if self.gives_up() {
            return Entry::Gone;
        }
        let stale = self.is("TrustsTheLock") && self.opened > 1;
        self.said(&self.entry, self.page.entry(), stale)
    }
    fn order(&self, most: u8) -> u8 {
        let stale = match self.of.name {
            "TrustsTheLock" => self.opened > 1,
            "OnlyThePage" => self.order.get().is_some_and(|last| last >= 3),
            _ => false,
        };
        self.said(&self.order, self.page.order(most), stale)
            .min(most)
    }
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Memory)) {
        self.opened += 1;
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
        self.freed += 1;
        if !self.is("Loses") || self.freed == 1 {
            self.page.free(folio);
        }
    }
    fn count(&mut self, pages: u64) {
        let huge = pages == 1 << MAX_ORDER;
        let one = huge && self.is("CountsOne");
        self.page.count(if one { 1 } else { pages });
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
            opened: 0,
            failed: 0,
            freed: 0,
        };
        let as_write = write || self.name == "FreshForReads";
        self.right.fault(&mut between, as_write)?;
        match between.gives_up() {
            true => Err(NoMemory),
            false => Ok(()),
        }
    }
}
