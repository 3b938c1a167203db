//! File descriptors.

use crate::errno::{Errno, Result};
use crate::fs::file::OpenFile;
use crate::fs::process;
use crate::pressure::room;
use crate::ranks;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::sync::Lock;

/// A process's open files; threads may share it (CLONE_FILES). Dropped, it closes all.
pub struct FdTable(Lock<Vec<Option<Slot>>, { ranks::FILES }>);

#[derive(Clone)]
struct Slot {
    file: Arc<OpenFile>,
    close_on_exec: bool,
}

impl Default for FdTable {
    fn default() -> Self {
        Self::new()
    }
}

impl FdTable {
    /// Nothing open.
    pub fn new() -> FdTable {
        FdTable(Lock::new(Vec::new()))
    }

    /// A copy for a child: the open files are shared. ENOMEM for a table that is too long.
    pub fn fork(&self) -> Result<FdTable> {
        let slots = self.0.lock();
        let len = slots.iter().rposition(Option::is_some).map_or(0, |n| n + 1);
        Ok(FdTable(Lock::new(fallible::copied(&slots[..len])?)))
    }

    /// Closes what FD_CLOEXEC marks.
    pub fn close_on_exec(&self) {
        self.close_where(0, u32::MAX, |slot| slot.close_on_exec);
    }

    /// The open file behind `fd`; EBADF.
    pub fn get(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let slots = self.0.lock();
        let slot = usize::try_from(fd)
            .ok()
            .and_then(|fd| slots.get(fd)?.as_ref());
        slot.map(|slot| slot.file.clone()).ok_or(Errno::EBADF)
    }

    /// Enters a file at the lowest free number from `from` on; EMFILE at RLIMIT_NOFILE,
    /// ENFILE when memory is short, EINVAL for a `from` past it.
    pub fn install_from(
        &self,
        file: Arc<OpenFile>,
        close_on_exec: bool,
        from: usize,
    ) -> Result<i32> {
        let limit = process::open_files_limit();
        if from >= limit {
            return Err(Errno::EINVAL);
        }
        room::check(Errno::ENFILE)?;
        let mut slots = self.0.lock();
        let fd = (from..slots.len())
            .find(|fd| slots[*fd].is_none())
            .unwrap_or(slots.len().max(from));
        if fd >= limit {
            return Err(Errno::EMFILE);
        }
        if slots.len() <= fd {
            grow(&mut slots, fd + 1)?;
        }
        slots[fd] = Some(Slot {
            file,
            close_on_exec,
        });
        Ok(fd as i32)
    }

    /// Enters a file at the lowest free number.
    pub fn install(&self, file: Arc<OpenFile>, close_on_exec: bool) -> Result<i32> {
        self.install_from(file, close_on_exec, 0)
    }

    /// Enters a file at `fd` of a table that nobody uses yet.
    pub fn install_initial(&self, fd: usize, file: Arc<OpenFile>) {
        let mut slots = self.0.lock();
        if slots.len() <= fd {
            slots.resize(fd + 1, None);
        }
        slots[fd] = Some(Slot {
            file,
            close_on_exec: false,
        });
    }

    /// dup3(2): enters a file at `fd`, closing what was there; EBADF past RLIMIT_NOFILE.
    pub fn install_at(&self, fd: i32, file: Arc<OpenFile>, close_on_exec: bool) -> Result {
        let index = usize::try_from(fd)
            .ok()
            .filter(|fd| *fd < process::open_files_limit());
        let index = index.ok_or(Errno::EBADF)?;
        let mut slots = self.0.lock();
        if slots.len() <= index {
            grow(&mut slots, index + 1)?;
        }
        let old = slots[index].replace(Slot {
            file,
            close_on_exec,
        });
        // Closing may do a lot: not under the lock.
        drop(slots);
        drop(old);
        Ok(())
    }

    /// close(2).
    pub fn close(&self, fd: i32) -> Result {
        let mut slots = self.0.lock();
        let slot = usize::try_from(fd)
            .ok()
            .and_then(|fd| slots.get_mut(fd)?.take());
        drop(slots);
        slot.map(drop).ok_or(Errno::EBADF)
    }

    /// close_range(2).
    pub fn close_range(&self, first: u32, last: u32) {
        self.close_where(first, last, |_| true);
    }

    fn close_where(&self, first: u32, last: u32, mut doomed: impl FnMut(&Slot) -> bool) {
        let mut at = first as usize;
        while let Some(gone) = self.take_where(&mut at, last as usize, &mut doomed) {
            // Closing may do a lot: not under the lock.
            drop(gone);
        }
    }

    /// Takes out the first doomed one of `at..=last`; the next look starts behind it.
    fn take_where(
        &self,
        at: &mut usize,
        last: usize,
        doomed: &mut impl FnMut(&Slot) -> bool,
    ) -> Option<Slot> {
        let mut slots = self.0.lock();
        let end = slots.len().min(last.saturating_add(1));
        let range = slots.get_mut(*at..end)?.iter_mut();
        for slot in range {
            *at += 1;
            if slot.as_ref().is_some_and(&mut *doomed) {
                return slot.take();
            }
        }
        None
    }

    /// FD_CLOEXEC of `fd`.
    pub fn closes_on_exec(&self, fd: i32) -> Result<bool> {
        self.with_slot(fd, |slot| slot.close_on_exec)
    }

    /// Sets FD_CLOEXEC of `fd`.
    pub fn set_close_on_exec(&self, fd: i32, value: bool) -> Result {
        self.with_slot(fd, |slot| slot.close_on_exec = value)
    }

    /// Sets FD_CLOEXEC of a range (CLOSE_RANGE_CLOEXEC).
    pub fn mark_range(&self, first: u32, last: u32) {
        let mut slots = self.0.lock();
        let range = slots
            .iter_mut()
            .skip(first as usize)
            .take((last - first) as usize + 1);
        for slot in range.flatten() {
            slot.close_on_exec = true;
        }
    }

    fn with_slot<T>(&self, fd: i32, f: impl FnOnce(&mut Slot) -> T) -> Result<T> {
        let mut slots = self.0.lock();
        let slot = usize::try_from(fd)
            .ok()
            .and_then(|fd| slots.get_mut(fd)?.as_mut());
        slot.map(f).ok_or(Errno::EBADF)
    }

    /// The first number in use from `from` on (/proc/PID/fd).
    pub fn next_number(&self, from: i32) -> Option<i32> {
        let slots = self.0.lock();
        let rest = slots.get(from as usize..)?;
        let ahead = rest.iter().position(Option::is_some)?;
        Some(from + ahead as i32)
    }

    /// Length of the table (FDSize of /proc/PID/status).
    pub fn size(&self) -> usize {
        self.0.lock().len().next_power_of_two().max(64)
    }
}

/// Makes room for `len` descriptors; ENOMEM.
fn grow(slots: &mut Vec<Option<Slot>>, len: usize) -> Result {
    let more = len - slots.len();
    fallible::reserve(slots, more)?;
    slots.resize(len, None);
    Ok(())
}
