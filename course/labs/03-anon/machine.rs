//! A machine for tests: one area of a process, and another thread of it that does something each
//! time the lock is open. Each step of a solution is checked.

use super::referee::{self, Owner};
use super::{Entry, Folio, Memory, NoMemory, Page, Subject};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// What another thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meanwhile {
    /// Nothing.
    Nothing,
    /// It reads a page: where nothing is mapped the page of zeros comes there.
    Read(u64),
    /// It writes to a page: where there is no memory of the process a page of it comes there.
    Write(u64),
    /// It gives up what a page has (MADV_DONTNEED).
    Discard(u64),
    /// It unmaps the area.
    Unmap,
}

/// An area of so many pages, from page 0 on.
pub struct Machine {
    /// By page: the frame that is mapped, nothing for the page of zeros.
    entries: BTreeMap<u64, Option<u64>>,
    pages: u64,
    /// Whether the area is unmapped.
    gone: bool,
    /// The largest order that the policy has.
    most: u8,
    /// What is still to happen while the lock is open.
    script: VecDeque<Meanwhile>,
    /// The frames that can still be allocated, and the number of the next one.
    memory: u64,
    next: u64,
    /// The largest folio that there is.
    largest: u8,
    rss: u64,
    opened: usize,
}

/// The page of a fault.
struct At<'a> {
    machine: &'a mut Machine,
    page: u64,
}

impl Machine {
    /// Nothing is mapped, single pages only, 1,000 frames are free, and there is no other thread.
    pub fn new(pages: u64) -> Machine {
        Machine {
            entries: BTreeMap::new(),
            pages,
            gone: false,
            most: 0,
            script: VecDeque::new(),
            memory: 1000,
            next: 1 << 20,
            largest: u8::MAX,
            rss: 0,
            opened: 0,
        }
    }
    /// The policy has folios up to this order.
    pub fn folios(self, most: u8) -> Machine {
        Machine { most, ..self }
    }
    /// So many frames are free, and no folio is larger than of this order.
    pub fn memory(self, memory: u64, largest: u8) -> Machine {
        Machine {
            memory,
            largest,
            ..self
        }
    }
    /// What another thread does each time the lock is open.
    pub fn meanwhile(mut self, script: &[Meanwhile]) -> Machine {
        self.script.extend(script);
        self
    }

    /// A program reads a page, and faults if need be.
    pub fn read(&mut self, solution: &Subject, page: u64) -> Result<(), NoMemory> {
        match self.entry(page) {
            Entry::Absent => referee::fault(
                solution,
                &mut At {
                    machine: self,
                    page,
                },
                false,
            ),
            _ => Ok(()),
        }
    }
    /// A program writes to a page, and faults if need be.
    pub fn write(&mut self, solution: &Subject, page: u64) -> Result<(), NoMemory> {
        match self.entry(page) {
            Entry::Absent | Entry::Zeros => referee::fault(
                solution,
                &mut At {
                    machine: self,
                    page,
                },
                true,
            ),
            _ => Ok(()),
        }
    }

    /// What is mapped at a page.
    pub fn entry(&self, page: u64) -> Entry {
        match self.entries.get(&page) {
            _ if self.gone || page >= self.pages => Entry::Gone,
            None => Entry::Absent,
            Some(None) => Entry::Zeros,
            Some(Some(_)) => Entry::Own,
        }
    }
    /// The frames at the pages from the first on that have memory of the process.
    pub fn frames(&self) -> Vec<(u64, u64)> {
        let own = |(page, frame): (&u64, &Option<u64>)| frame.map(|frame| (*page, frame));
        self.entries.iter().filter_map(own).collect()
    }
    /// The pages that are counted.
    pub fn rss(&self) -> u64 {
        self.rss
    }
    /// Frames that are free.
    pub fn free(&self) -> u64 {
        self.memory
    }
    /// How often the lock was opened.
    pub fn opened(&self) -> usize {
        self.opened
    }

    fn allocate(&mut self, order: u8) -> Option<Folio> {
        let pages = 1_u64.checked_shl(order.into())?;
        if order > self.largest || pages > self.memory {
            return None;
        }
        self.memory -= pages;
        let frame = self.next.next_multiple_of(pages);
        self.next = frame + pages;
        Some(Folio { frame, order })
    }
    /// Takes away what a page has.
    fn drop_page(&mut self, page: u64) {
        if let Some(Some(_)) = self.entries.remove(&page) {
            (self.memory, self.rss) = (self.memory + 1, self.rss - 1);
        }
    }
    fn other_thread(&mut self) {
        match self.script.pop_front().unwrap_or(Meanwhile::Nothing) {
            Meanwhile::Nothing => {}
            _ if self.gone => {}
            Meanwhile::Read(page) => {
                self.entries.entry(page).or_insert(None);
            }
            Meanwhile::Write(page) => {
                if self.entry(page) != Entry::Own
                    && let Some(folio) = self.allocate(0)
                {
                    self.entries.insert(page, Some(folio.frame));
                    self.rss += 1;
                }
            }
            Meanwhile::Discard(page) => self.drop_page(page),
            Meanwhile::Unmap => {
                (0..self.pages).for_each(|page| self.drop_page(page));
                self.gone = true;
            }
        }
    }
}

impl Memory for Machine {
    fn allocate(&mut self, order: u8) -> Option<Folio> {
        Machine::allocate(self, order)
    }
    fn clear(&mut self, _folio: Folio) {}
}

impl Page for At<'_> {
    fn entry(&self) -> Entry {
        self.machine.entry(self.page)
    }
    fn order(&self, most: u8) -> u8 {
        let largest = self.machine.most.min(most);
        (0..=largest)
            .rev()
            .find(|order| self.fits(*order))
            .unwrap_or(0)
    }
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Memory)) {
        self.machine.opened += 1;
        work(self.machine);
        self.machine.other_thread();
    }
    fn map_zeros(&mut self) -> Result<(), NoMemory> {
        self.machine.entries.insert(self.page, None);
        Ok(())
    }
    fn map(&mut self, folio: Folio) -> Result<(), NoMemory> {
        let first = self.page >> folio.order << folio.order;
        for n in 0..folio.pages() {
            self.machine
                .entries
                .insert(first + n, Some(folio.frame + n));
        }
        Ok(())
    }
    fn unmap(&mut self) {
        self.machine.entries.remove(&self.page);
    }
    fn flush(&mut self) {}
    fn free(&mut self, folio: Folio) {
        self.machine.memory += folio.pages();
    }
    fn count(&mut self, pages: u64) {
        self.machine.rss += pages;
    }
}

impl Owner for At<'_> {
    fn address(&self) -> u64 {
        self.page << 12
    }
    fn fits(&self, order: u8) -> bool {
        let first = self.page >> order << order;
        (first..first + (1 << order)).all(|page| self.machine.entry(page) == Entry::Absent)
    }
}
