//! The entries of a table of file descriptors.

use alloc::vec::Vec;
use fallible::OutOfMemory;

/// An open file `F` under a number.
#[derive(Clone)]
pub struct Slot<F> {
    /// What is open.
    pub file: F,
    /// FD_CLOEXEC.
    pub close_on_exec: bool,
}

/// All numbers of a table.
pub struct Slots<F> {
    /// By their numbers.
    pub list: Vec<Option<Slot<F>>>,
    /// No number below is free.
    free_from: usize,
    /// How often an entry has changed.
    pub changes: u64,
}

impl<F: Clone> Slots<F> {
    /// A table of these.
    pub fn of(list: Vec<Option<Slot<F>>>) -> Slots<F> {
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
    pub fn take(&mut self, fd: usize) -> Option<Slot<F>> {
        let slot = self.list.get_mut(fd)?.take();
        self.free_from = self.free_from.min(fd);
        self.changes += 1;
        slot
    }

    /// Enters a file at a number that there is room for; what was there.
    pub fn replace(&mut self, fd: usize, slot: Slot<F>) -> Option<Slot<F>> {
        self.changes += 1;
        self.list[fd].replace(slot)
    }

    /// Numbers up to the highest that is open.
    pub fn used(&self) -> usize {
        let last = self.list.iter().rposition(Option::is_some);
        last.map_or(0, |last| last + 1)
    }

    /// Makes room for the number `fd`.
    pub fn grow_to(&mut self, fd: usize) -> Result<(), OutOfMemory> {
        if self.list.len() <= fd {
            let more = fd + 1 - self.list.len();
            fallible::reserve(&mut self.list, more)?;
            self.list.resize(fd + 1, None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(file: u32) -> Slot<u32> {
        let close_on_exec = false;
        Slot {
            file,
            close_on_exec,
        }
    }

    /// A table whose numbers 0 to n-1 are open.
    fn full(n: usize) -> Slots<u32> {
        let mut slots = Slots::of(Vec::new());
        for fd in 0..n {
            assert_eq!(slots.lowest_free(0), fd);
            slots.grow_to(fd).expect("memory");
            assert!(slots.replace(fd, slot(fd as u32)).is_none());
        }
        slots
    }

    #[test]
    fn the_lowest_free_number_is_found_again() {
        let mut slots = full(5);
        assert_eq!(slots.lowest_free(0), 5);
        assert_eq!(slots.take(3).map(|s| s.file), Some(3));
        assert_eq!(slots.take(1).map(|s| s.file), Some(1));
        assert_eq!(slots.lowest_free(0), 1);
        // A search from further on does not hide the lower ones.
        assert_eq!(slots.lowest_free(2), 3);
        assert_eq!(slots.lowest_free(4), 5);
        assert_eq!(slots.lowest_free(9), 9);
        assert_eq!(slots.lowest_free(0), 1);
    }

    #[test]
    fn a_number_is_taken_once() {
        let mut slots = full(2);
        assert!(slots.take(1).is_some());
        assert!(slots.take(1).is_none());
        assert!(slots.take(7).is_none());
        assert_eq!(slots.used(), 1);
    }

    #[test]
    fn a_gap_is_free_and_the_end_grows() {
        let mut slots = full(1);
        slots.grow_to(4).expect("memory");
        assert_eq!(slots.replace(4, slot(40)).map(|s| s.file), None);
        assert_eq!(slots.replace(4, slot(41)).map(|s| s.file), Some(40));
        assert_eq!((slots.used(), slots.lowest_free(0)), (5, 1));
    }

    #[test]
    fn each_change_is_counted() {
        let mut slots = full(2);
        let before = slots.changes;
        slots.replace(0, slot(9));
        slots.take(1);
        slots.lowest_free(0);
        assert_eq!(slots.changes, before + 2);
    }
}
