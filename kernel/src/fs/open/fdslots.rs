//! The entries of a table of file descriptors.

use crate::base::errno::Result;
use crate::fs::open::file::OpenFile;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An open file under a number.
#[derive(Clone)]
pub struct Slot {
    /// What is open.
    pub file: Arc<OpenFile>,
    /// FD_CLOEXEC.
    pub close_on_exec: bool,
}

/// All numbers of a table.
pub struct Slots {
    /// By their numbers.
    pub list: Vec<Option<Slot>>,
    /// No number below is free.
    free_from: usize,
    /// How often an entry has changed.
    pub changes: u64,
}

impl Slots {
    /// A table of these.
    pub fn of(list: Vec<Option<Slot>>) -> Slots {
        Slots {
            list,
            free_from: 0,
            changes: 0,
        }
    }

    /// The lowest free number from `from` on, which may be behind the end.
    pub fn lowest_free(&mut self, from: usize) -> usize {
        let start = from.max(self.free_from);
        let free = (start..self.list.len()).find(|fd| self.list[*fd].is_none());
        let free = free.unwrap_or(self.list.len().max(start));
        if from <= self.free_from {
            self.free_from = free;
        }
        free
    }

    /// Takes out a file.
    pub fn take(&mut self, fd: usize) -> Option<Slot> {
        let slot = self.list.get_mut(fd)?.take();
        self.free_from = self.free_from.min(fd);
        self.changes += 1;
        slot
    }

    /// Enters a file at a number that there is room for; what was there.
    pub fn replace(&mut self, fd: usize, slot: Slot) -> Option<Slot> {
        self.changes += 1;
        self.list[fd].replace(slot)
    }

    /// Numbers up to the highest that is open.
    pub fn used(&self) -> usize {
        let last = self.list.iter().rposition(Option::is_some);
        last.map_or(0, |last| last + 1)
    }

    /// Makes room for the number `fd`; ENOMEM.
    pub fn grow_to(&mut self, fd: usize) -> Result {
        if self.list.len() <= fd {
            let more = fd + 1 - self.list.len();
            fallible::reserve(&mut self.list, more)?;
            self.list.resize(fd + 1, None);
        }
        Ok(())
    }
}
