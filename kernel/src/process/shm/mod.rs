//! Shared memory of System V, sysvipc(7): segments that programs find by a key, in one namespace.
//!
//! ```text
//!   table --until IPC_RMID--> Segment <-- VMA: its mapped file
//!     '----------weak------------^
//! ```
//! A segment is kept by the table until IPC_RMID, and by each VMA that maps it. How many those are
//! is shm_nattch, and a removed segment goes with the last of them, whichever call that ends.
//!
//! Times and the last process are noted by shmat(2), shmdt(2), fork, exit and execve. Unlike in
//! Linux, munmap(2) and other calls that cut or drop VMAs note nothing: they do not look at files.

mod attach;
mod table;

pub use attach::{ended, first_part, inherited, next_part, segment_of};
pub use table::{
    ID_BITS, Limits, MAX_SEGMENTS, at_index, by_id, from_index, get, highest_index, is_used,
    limits, remove, set_limits, totals,
};

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Object, mm};
use crate::base::{Pid, ranks};
use crate::fs::kinds::anonymous;
use crate::fs::tree::clock;
use crate::process::task::Process;
use crate::sched::{self, kernel_lock};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use mm::addr::{Order, PAGE_SHIFT, PAGE_SIZE};
use mm::sync::Lock;
use mm::vma::MappedFile;

/// IPC_PRIVATE: a key that finds nothing.
pub const PRIVATE: i32 = 0;

/// What shmget(2) asks for.
#[derive(Clone, Copy)]
pub struct New {
    /// The key, or [`PRIVATE`].
    pub key: i32,
    /// Bytes.
    pub size: u64,
    /// The access mode.
    pub mode: u32,
    /// The order of its pages, if they are to be huge ones.
    pub huge: Option<Order>,
    /// SHM_NORESERVE: it may be larger than memory, and reserves no huge pages.
    pub no_reserve: bool,
}

impl New {
    /// The length of what is attached: whole pages. `None`: there is no such length.
    fn len(&self) -> Option<u64> {
        let page = self.huge.unwrap_or_default().bytes();
        let len = self.size.checked_next_multiple_of(page)?;
        (len <= i64::MAX as u64).then_some(len)
    }
}

/// What IPC_SET, SHM_LOCK and attaching change.
#[derive(Clone, Copy)]
pub struct State {
    /// Its owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// The access mode.
    pub mode: u32,
    /// SHM_LOCK. Nothing follows from it: no page is ever swapped out.
    pub locked: bool,
    /// IPC_RMID: it goes with its last VMA, and no key finds it.
    pub removed: bool,
    /// When it was last attached, detached and changed, in s since 1970; 0: never.
    pub attached: i64,
    /// See there.
    pub detached: i64,
    /// See there.
    pub changed: i64,
    /// The process that attached or detached it last; 0: none.
    pub last_pid: Pid,
}

/// A segment of shared memory.
pub struct Segment {
    id: i32,
    key: i32,
    /// Bytes, as they were asked for.
    pub size: u64,
    /// Its maker: user, group and process.
    pub creator: (u32, u32, Pid),
    object: Arc<Object>,
    /// SHM_NORESERVE.
    no_reserve: bool,
    state: Lock<State, { ranks::SHM_SEGMENT }>,
}

impl Segment {
    /// A segment with the number `id`. EINVAL: it is too large for any file; ENOMEM: there is not
    /// so much memory, or not so many huge pages.
    fn new(new: &New, id: i32, creator: &Process) -> Result<Segment> {
        let len = new.len().ok_or(Errno::EINVAL)?;
        let object = match new.huge {
            Some(order) => Object::huge(mm(), order, None),
            None if new.no_reserve => Object::new(mm()),
            None => Object::promised(mm(), len)?,
        };
        object.set_len(len);
        if new.huge.is_some() && !new.no_reserve {
            object.claim(0, len >> PAGE_SHIFT)?;
        }
        let (uid, gid) = creator.credentials(|it| (it.euid(), it.egid()));
        Ok(Segment {
            id,
            key: new.key,
            size: new.size,
            creator: (uid, gid, creator.pid()),
            object,
            no_reserve: new.no_reserve,
            state: Lock::new(State {
                uid,
                gid,
                mode: new.mode,
                locked: false,
                removed: false,
                attached: 0,
                detached: 0,
                changed: clock::now().seconds,
                last_pid: 0,
            }),
        })
    }

    /// Its number.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The key that finds it, or [`PRIVATE`].
    pub fn key(&self) -> i32 {
        match self.state().removed {
            true => PRIVATE,
            false => self.key,
        }
    }

    /// A copy of what changes.
    pub fn state(&self) -> State {
        *self.state.lock()
    }

    /// Changes it.
    pub fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock())
    }

    /// IPC_SET.
    pub fn set_owner(&self, uid: u32, gid: u32, mode: u32) {
        self.change(|state| {
            (state.uid, state.gid, state.mode) = (uid, gid, mode);
            state.changed = clock::now().seconds;
        });
    }

    /// SHM_LOCK and SHM_UNLOCK. Huge pages are never swapped, and are not marked, as in Linux.
    pub fn set_locked(&self, locked: bool) {
        if self.object.huge_order().is_none() {
            self.change(|state| state.locked = locked);
        }
    }

    /// How many VMAs map it, in all address spaces.
    pub fn attachments(self: &Arc<Self>) -> u64 {
        let kept = usize::from(!self.state().removed);
        // The caller's own reference, and the table's.
        Arc::strong_count(self).saturating_sub(1 + kept) as u64
    }

    /// Its size in pages.
    pub fn pages(&self) -> u64 {
        self.size.div_ceil(PAGE_SIZE)
    }

    /// Its pages that are in memory.
    pub fn resident(&self) -> u64 {
        self.object.pages()
    }

    /// The length of what is attached, in bytes.
    pub fn len(&self) -> u64 {
        self.object.len()
    }

    fn note(&self, pid: Pid, f: impl FnOnce(&mut State, i64)) {
        let now = clock::now().seconds;
        self.change(|state| {
            state.last_pid = pid;
            f(state, now);
        });
    }

    /// A process has attached it.
    pub fn note_attach(&self, pid: Pid) {
        self.note(pid, |state, now| state.attached = now);
    }

    /// A process has detached it.
    pub fn note_detach(&self, pid: Pid) {
        self.note(pid, |state, now| state.detached = now);
    }
}

impl Drop for Segment {
    /// The last VMA may end in a call that runs without the kernel lock.
    fn drop(&mut self) {
        kernel_lock::with(|| {
            table::forget(self);
            while !self.object.set_len_step(0) {
                // What was begun is done, also by a thread that is to end.
                sched::breathe();
            }
        });
    }
}

impl MappedFile for Segment {
    fn path(&self) -> String {
        format!("/SYSV{:08x} (deleted)", self.key)
    }
    /// As in Linux, the inode is the number.
    fn id(&self) -> (u64, u64) {
        let device = match self.object.huge_order() {
            Some(_) => anonymous::device(),
            None => SHARED_MEMORY,
        };
        (device, self.id as u64)
    }
    fn keeps_pages(&self) -> bool {
        !self.state().removed
    }
}

/// st_dev of shared memory without a name in the tree: 00:01.
const SHARED_MEMORY: u64 = 1;
