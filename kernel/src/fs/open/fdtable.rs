//! Tables of file descriptors.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::room;
use crate::fs::caller;
use crate::fs::open::fd::Fd;
use crate::fs::open::file::OpenFile;
use crate::sched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::sync::Lock;

type Slot = parts::slots::Slot<Arc<OpenFile>>;
type Slots = parts::slots::Slots<Arc<OpenFile>>;

/// Files that are closed between two pauses.
const STEP: usize = 64;
/// Numbers that are examined between two pauses.
const LOOKS: usize = 8192;

/// A process's open files; threads may share it (CLONE_FILES). Dropped, it closes all.
pub struct FdTable(Lock<Slots, { ranks::FILES }>);

/// Result of a step in a search for files to close.
enum Found {
    File(Slot),
    /// None in this step.
    Nothing,
    End,
}

impl Default for FdTable {
    fn default() -> Self {
        Self::new()
    }
}

impl FdTable {
    /// An empty table.
    pub fn new() -> FdTable {
        FdTable::of(Vec::new())
    }

    fn of(list: Vec<Option<Slot>>) -> FdTable {
        FdTable(Lock::new(Slots::of(list)))
    }

    /// A copy for a child: the open files are shared. Made in steps, and anew when another thread
    /// has changed the table between two of them. ENOMEM for a table that is too long, EINTR: the
    /// thread is to end. The caller holds no lock.
    pub fn fork(&self) -> Result<FdTable> {
        loop {
            let mut list = Vec::new();
            let mut slots = self.0.lock();
            let (used, changes) = (slots.used(), slots.changes);
            fallible::reserve(&mut list, used)?;
            while slots.changes == changes {
                let step = list.len()..used.min(list.len() + LOOKS);
                list.extend_from_slice(&slots.list[step]);
                if list.len() == used {
                    return Ok(FdTable::of(list));
                }
                drop(slots);
                if sched::breathe() {
                    return Err(Errno::EINTR);
                }
                slots = self.0.lock();
            }
        }
    }

    /// Closes what FD_CLOEXEC marks.
    pub fn close_on_exec(&self) {
        self.close_where(0, u32::MAX, |slot| slot.close_on_exec);
    }

    /// The open file behind `fd`; EBADF.
    pub fn get(&self, fd: Fd) -> Result<Arc<OpenFile>> {
        let slots = self.0.lock();
        let slot = fd.index().and_then(|fd| slots.list.get(fd)?.as_ref());
        slot.map(|slot| slot.file.clone()).ok_or(Errno::EBADF)
    }

    /// Enters a file at the lowest free number from `from` on; EMFILE at RLIMIT_NOFILE,
    /// ENFILE when memory is short, EINVAL for a `from` past it.
    pub fn install_from(
        &self,
        file: Arc<OpenFile>,
        close_on_exec: bool,
        from: usize,
    ) -> Result<Fd> {
        let limit = caller::open_files_limit();
        if from >= limit {
            return Err(Errno::EINVAL);
        }
        room::check(Errno::ENFILE)?;
        let mut slots = self.0.lock();
        let fd = slots.lowest_free(from);
        if fd >= limit {
            return Err(Errno::EMFILE);
        }
        slots.grow_to(fd)?;
        let slot = Slot {
            file,
            close_on_exec,
        };
        slots.replace(fd, slot);
        Ok(Fd(fd as i32))
    }

    /// EMFILE when no number is free: for what is taken from somewhere before it is entered.
    pub fn check_free(&self) -> Result {
        let limit = caller::open_files_limit();
        match self.0.lock().lowest_free(0) < limit {
            true => Ok(()),
            false => Err(Errno::EMFILE),
        }
    }

    /// Enters a file at the lowest free number.
    pub fn install(&self, file: Arc<OpenFile>, close_on_exec: bool) -> Result<Fd> {
        self.install_from(file, close_on_exec, 0)
    }

    /// Enters a file at `fd` of a table that is not in use yet.
    pub fn install_initial(&self, fd: usize, file: Arc<OpenFile>) {
        let mut slots = self.0.lock();
        if slots.list.len() <= fd {
            slots.list.resize(fd + 1, None);
        }
        slots.list[fd] = Some(Slot {
            file,
            close_on_exec: false,
        });
    }

    /// dup3(2): enters a file at `fd`, closing what was there; EBADF past RLIMIT_NOFILE.
    pub fn install_at(&self, fd: Fd, file: Arc<OpenFile>, close_on_exec: bool) -> Result {
        let index = fd.index().filter(|fd| *fd < caller::open_files_limit());
        let index = index.ok_or(Errno::EBADF)?;
        let mut slots = self.0.lock();
        slots.grow_to(index)?;
        let slot = Slot {
            file,
            close_on_exec,
        };
        let old = slots.replace(index, slot);
        // Closing may do a lot: not under the lock.
        drop(slots);
        drop(old);
        Ok(())
    }

    /// close(2).
    pub fn close(&self, fd: Fd) -> Result {
        let mut slots = self.0.lock();
        let slot = fd.index().and_then(|fd| slots.take(fd));
        drop(slots);
        slot.map(drop).ok_or(Errno::EBADF)
    }

    /// close_range(2). The caller holds no lock.
    pub fn close_range(&self, first: u32, last: u32) {
        self.close_where(first, last, |_| true);
    }

    fn close_where(&self, first: u32, last: u32, mut doomed: impl FnMut(&Slot) -> bool) {
        let (mut at, mut closed) = (first as usize, 0);
        loop {
            match self.take_where(&mut at, last as usize, &mut doomed) {
                // Closing may do a lot: not under the lock.
                Found::File(gone) => drop(gone),
                Found::Nothing => closed = STEP - 1,
                Found::End => return,
            }
            closed += 1;
            if closed % STEP == 0 {
                sched::breathe();
            }
        }
    }

    /// Takes out the first doomed one of `at..=last`, if it is near; the next look starts behind
    /// it.
    fn take_where(
        &self,
        at: &mut usize,
        last: usize,
        doomed: &mut impl FnMut(&Slot) -> bool,
    ) -> Found {
        let mut slots = self.0.lock();
        let end = slots.list.len().min(last.saturating_add(1));
        let near = end.min(at.saturating_add(LOOKS));
        let is_doomed = |slot: &Option<Slot>| slot.as_ref().is_some_and(&mut *doomed);
        let range = slots.list.get(*at..near).unwrap_or_default();
        let fd = range.iter().position(is_doomed).map(|ahead| *at + ahead);
        *at = fd.map_or(near, |fd| fd + 1);
        match fd.and_then(|fd| slots.take(fd)) {
            Some(slot) => Found::File(slot),
            None if near < end => Found::Nothing,
            None => Found::End,
        }
    }

    /// FD_CLOEXEC of `fd`.
    pub fn closes_on_exec(&self, fd: Fd) -> Result<bool> {
        self.with_slot(fd, |slot| slot.close_on_exec)
    }

    /// Sets FD_CLOEXEC of `fd`.
    pub fn set_close_on_exec(&self, fd: Fd, value: bool) -> Result {
        self.with_slot(fd, |slot| slot.close_on_exec = value)
    }

    /// Sets FD_CLOEXEC of a range (CLOSE_RANGE_CLOEXEC).
    pub fn mark_range(&self, first: u32, last: u32) {
        let (mut at, last) = (first as usize, last as usize);
        loop {
            let mut slots = self.0.lock();
            let end = slots.list.len().min(last.saturating_add(1));
            let near = end.min(at.saturating_add(LOOKS));
            slots.changes += 1;
            let range = slots.list.get_mut(at..near).unwrap_or_default();
            for slot in range.iter_mut().flatten() {
                slot.close_on_exec = true;
            }
            if near == end {
                return;
            }
            at = near;
            drop(slots);
            sched::breathe();
        }
    }

    fn with_slot<T>(&self, fd: Fd, f: impl FnOnce(&mut Slot) -> T) -> Result<T> {
        let mut slots = self.0.lock();
        slots.changes += 1;
        let slot = fd.index().and_then(|fd| slots.list.get_mut(fd)?.as_mut());
        slot.map(f).ok_or(Errno::EBADF)
    }

    /// The first number in use from `from` on (/proc/PID/fd).
    pub fn next_number(&self, from: Fd) -> Option<Fd> {
        let slots = self.0.lock();
        let rest = slots.list.get(from.index()?..)?;
        let ahead = rest.iter().position(Option::is_some)?;
        Some(Fd(from.0 + ahead as i32))
    }

    /// Length of the table (FDSize of /proc/PID/status).
    pub fn size(&self) -> usize {
        self.0.lock().list.len().next_power_of_two().max(64)
    }
}
