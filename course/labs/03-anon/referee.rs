//! What is checked of a solution at each step. A wrong one ends it, in words: "lab: ...". What it
//! held then goes back, so that nothing is lost.

use super::{Anon, Entry, Folio, Memory, NoMemory, Page};
use alloc::format;

/// The owner of the page: the machine of the tests, or the kernel.
pub trait Owner: Page {
    /// The address of the page, for messages.
    fn address(&self) -> u64;
    /// Whether nothing is mapped where a folio of this order would be, which lies in the area.
    fn fits(&self, order: u8) -> bool;
}

/// Has a fault resolved.
pub fn fault(solution: &dyn Anon, page: &mut dyn Owner, write: bool) -> Result<(), NoMemory> {
    let mut watched = Watched {
        page,
        write,
        held: [None; HELD],
        stale: false,
        failed: false,
        mapped: 0,
        counted: 0,
    };
    let result = solution.fault(&mut watched, write);
    watched.finish(result);
    result
}

/// How many folios may be held at the same time.
const HELD: usize = 4;

/// A page, and what was done to it.
struct Watched<'a> {
    page: &'a mut dyn Owner,
    write: bool,
    /// Folios that are not mapped, and whether they are cleared.
    held: [Option<(Folio, bool)>; HELD],
    /// Whether a TLB may hold the page of zeros for the page, which is absent.
    stale: bool,
    /// Whether there was no memory for something.
    failed: bool,
    /// Pages that were mapped, and those that were counted.
    mapped: u64,
    counted: u64,
}

impl Watched<'_> {
    fn wrong(&self, why: &str) -> ! {
        let access = if self.write { "write" } else { "read" };
        panic!("lab: {access} fault at {:#x}: {why}", self.page.address());
    }
    /// Forgets a folio that is held; whether it is cleared.
    fn release(&mut self, what: &str, folio: Folio) -> bool {
        let held = |slot: &&mut Option<(Folio, bool)>| slot.is_some_and(|held| held.0 == folio);
        match self.held.iter_mut().find(held).and_then(Option::take) {
            Some((_, cleared)) => cleared,
            None => self.wrong(&format!(
                "{what}: {folio:x?} was not allocated, or is mapped"
            )),
        }
    }
    fn finish(self, result: Result<(), NoMemory>) {
        if let Some((folio, _)) = self.held.iter().flatten().next() {
            self.wrong(&format!("{folio:x?} is neither mapped nor free at the end"));
        }
        let (mapped, counted) = (self.mapped, self.counted);
        if mapped != counted {
            self.wrong(&format!(
                "{mapped} pages were mapped, {counted} are counted"
            ));
        }
        match (result, self.page.entry()) {
            (Err(NoMemory), _) if !self.failed => self.wrong("no memory, though there was enough"),
            (Ok(()), Entry::Absent) => self.wrong("it is over, and the page is absent"),
            (Ok(()), Entry::Zeros) if self.write => {
                self.wrong("it is over, and the page of zeros is there, which cannot be written")
            }
            _ => {}
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.stale {
            self.page.flush();
        }
        for (folio, _) in self.held.iter_mut().filter_map(Option::take) {
            self.page.free(folio);
        }
        self.page.count(self.mapped.saturating_sub(self.counted));
    }
}

impl Page for Watched<'_> {
    fn entry(&self) -> Entry {
        self.page.entry()
    }
    fn order(&self, most: u8) -> u8 {
        self.page.order(most)
    }
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Memory)) {
        if self.stale {
            self.wrong("open: the page is absent, and a TLB may hold the page of zeros for it");
        }
        let (held, failed) = (&mut self.held, &mut self.failed);
        let mut excess = None;
        self.page.open(&mut |memory| {
            let mut watched = Open {
                memory,
                held,
                failed,
                excess: &mut excess,
            };
            work(&mut watched);
        });
        if let Some(folio) = excess {
            self.page.free(folio);
            self.wrong("allocate: it needs one folio, and holds more");
        }
    }
    fn map_zeros(&mut self) -> Result<(), NoMemory> {
        let entry = self.page.entry();
        if self.write || entry != Entry::Absent {
            self.wrong(&format!(
                "the page of zeros is mapped where the page is {entry:?}"
            ));
        }
        let result = self.page.map_zeros();
        self.failed |= result.is_err();
        result
    }
    fn map(&mut self, folio: Folio) -> Result<(), NoMemory> {
        let cleared = self.release("map", folio);
        // Not mapped yet: it goes back if anything is wrong with it.
        self.held[0] = self.held[0].or(Some((folio, cleared)));
        if !cleared {
            self.wrong(&format!(
                "map: {folio:x?} holds what another program left there"
            ));
        }
        if self.stale {
            self.wrong("map: before a flush: a TLB may hold the page of zeros");
        }
        if !self.page.fits(folio.order) {
            let entry = self.page.entry();
            self.wrong(&format!(
                "map: {folio:x?} lies over what is mapped, or outside of the area; the page is \
                 {entry:?}"
            ));
        }
        let result = self.page.map(folio);
        if result.is_ok() {
            self.release("map", folio);
            self.mapped += folio.pages();
        }
        self.failed |= result.is_err();
        result
    }
    fn unmap(&mut self) {
        let entry = self.page.entry();
        if entry != Entry::Zeros {
            self.wrong(&format!(
                "unmap: the page is {entry:?}, not the page of zeros"
            ));
        }
        self.page.unmap();
        self.stale = true;
    }
    fn flush(&mut self) {
        self.page.flush();
        self.stale = false;
    }
    fn free(&mut self, folio: Folio) {
        self.release("free", folio);
        self.page.free(folio);
    }
    fn count(&mut self, pages: u64) {
        self.counted += pages;
        if self.counted > self.mapped {
            let (mapped, counted) = (self.mapped, self.counted);
            self.wrong(&format!(
                "{mapped} pages were mapped, {counted} are counted"
            ));
        }
        self.page.count(pages);
    }
}

/// What a solution does with the lock open.
struct Open<'a> {
    memory: &'a mut dyn Memory,
    held: &'a mut [Option<(Folio, bool)>; HELD],
    failed: &'a mut bool,
    /// A folio for which there was no room.
    excess: &'a mut Option<Folio>,
}

impl Memory for Open<'_> {
    fn allocate(&mut self, order: u8) -> Option<Folio> {
        if self.excess.is_some() {
            return None;
        }
        let folio = self.memory.allocate(order);
        *self.failed |= folio.is_none();
        match self.held.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = folio.map(|folio| (folio, false)),
            None => *self.excess = folio,
        }
        folio
    }
    fn clear(&mut self, folio: Folio) {
        let mut held = self.held.iter_mut().flatten();
        if let Some(held) = held.find(|held| held.0 == folio) {
            held.1 = true;
            self.memory.clear(folio);
        }
    }
}
