//! A machine for tests: the page tables of a parent and its child, and the folios that they map.
//! Each step of a solution is looked at before it is done, as in the kernel.

use super::{ENTRIES, Entry, Folio, NoMemory, Subject, Tables, referee};
use alloc::vec::Vec;
use core::ops::Range;

/// Where the frames begin that copies are made in.
const COPIES: u64 = 1 << 20;

/// The tables of a parent and a child.
pub struct Machine {
    parent: [Option<Entry>; ENTRIES],
    child: [Option<Entry>; ENTRIES],
    /// The folios of more than one page, and those that are pinned.
    folios: Vec<Folio>,
    /// Pages that are free.
    free: u64,
    updates: usize,
    copies: u64,
}

impl Machine {
    /// Tables without entries, and as much memory as is wanted. Each frame is a folio of its own.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Machine {
        Machine {
            parent: [None; ENTRIES],
            child: [None; ENTRIES],
            folios: Vec::new(),
            free: u64::MAX,
            updates: 0,
            copies: 0,
        }
    }
    /// The frames from `first` on are a folio of so many pages.
    pub fn folio(&mut self, first: u64, pages: u64) {
        let (frames, pinned) = (first..first + pages, false);
        self.folios.push(Folio { frames, pinned });
    }
    /// A device uses a page of the folio of this frame.
    pub fn pin(&mut self, frame: u64) {
        if self.at(frame).is_none() {
            self.folio(frame, 1);
        }
        if let Some(at) = self.at(frame) {
            self.folios[at].pinned = true;
        }
    }
    /// `n` entries of the parent from `index` on map the frames from `first` on, to be written to.
    pub fn map(&mut self, index: usize, first: u64, n: usize) {
        for page in 0..n {
            self.parent[index + page] = Some(Entry {
                frame: first + page as u64,
                writable: true,
            });
        }
    }
    /// `n` entries of the parent from `index` on may not write, as after an earlier fork.
    pub fn read_only(&mut self, index: usize, n: usize) {
        let entries = self.parent[index..index + n].iter_mut().flatten();
        entries.for_each(|entry| entry.writable = false);
    }
    /// There is memory for so many pages, and then there is none.
    pub fn memory(&mut self, pages: u64) {
        self.free = pages;
    }
    /// Has a solution copy entries. Panics where a step is wrong, or something is left out.
    pub fn fork(&mut self, solution: &Subject, range: Range<usize>) -> Result<(), NoMemory> {
        referee::fork(solution, self, range, 0)
    }
    /// What an entry of the parent says.
    pub fn parent(&self, index: usize) -> Option<Entry> {
        self.parent[index]
    }
    /// What an entry of the child says.
    pub fn child(&self, index: usize) -> Option<Entry> {
        self.child[index]
    }
    /// How often references were counted.
    pub fn updates(&self) -> usize {
        self.updates
    }
    /// How many pages were copied.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// Where the folio of a frame stands.
    fn at(&self, frame: u64) -> Option<usize> {
        let has = |folio: &Folio| folio.frames.contains(&frame);
        self.folios.iter().position(has)
    }
}

impl Tables for Machine {
    fn read(&self, index: usize) -> Option<Entry> {
        self.parent[index]
    }
    fn folio(&self, frame: u64) -> Folio {
        match self.at(frame) {
            Some(at) => self.folios[at].clone(),
            None => Folio {
                frames: frame..frame + 1,
                pinned: false,
            },
        }
    }
    fn refer(&mut self, _: usize, _: usize) {
        self.updates += 1;
    }
    fn protect(&mut self, index: usize, n: usize) {
        self.read_only(index, n);
    }
    fn copy(&mut self, index: usize, n: usize) {
        let entries = index..index + n;
        self.child[entries.clone()].copy_from_slice(&self.parent[entries]);
    }
    fn duplicate(&mut self, index: usize) -> Result<(), NoMemory> {
        self.free = self.free.checked_sub(1).ok_or(NoMemory)?;
        let frame = COPIES + self.copies;
        self.copies += 1;
        self.child[index] = self.parent[index].map(|entry| Entry { frame, ..entry });
        Ok(())
    }
}
