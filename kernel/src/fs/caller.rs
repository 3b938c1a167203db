//! The interface from the file layer to the calling process.

use crate::base::Pid;
use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use parts::signal::{SIGPIPE, SIGXFSZ};

/// The highest RLIMIT_NOFILE that counts (/proc/sys/fs/nr_open): a table is one piece of the
/// kernel's heap.
pub const MAX_OPEN_FILES: u64 = 65536;

/// The numbers that say whose terminal it is.
#[derive(Clone, Copy)]
pub struct Ids {
    /// The process.
    pub pid: Pid,
    /// Its process group.
    pub pgid: Pid,
    /// Its session.
    pub sid: Pid,
}

impl Ids {
    /// Whether it leads its session.
    pub fn leads_session(&self) -> bool {
        self.sid == self.pid
    }
}

/// A process as SO_PEERCRED and SCM_CREDENTIALS show it, with its effective user and group.
#[derive(Clone, Copy)]
pub struct Creator {
    /// Its number.
    pub pid: Pid,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

impl Creator {
    /// The other side of a socket that has none.
    pub const NOBODY: Creator = Creator {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
}

/// The running process, and what else of processes concerns files.
pub trait Caller {
    /// Soft RLIMIT_NOFILE.
    fn open_files_limit() -> u64;
    /// Soft RLIMIT_FSIZE; `None` for the kernel's own writes, at boot.
    fn file_size_limit() -> Option<u64>;
    /// Sends a signal from the kernel to the running thread.
    fn signal(signo: i32);
    /// Its process, group and session.
    fn ids() -> Ids;
    /// As sockets show it to each other.
    fn creator() -> Creator;
    /// Whether a job control signal that stops would not stop it, or for ever: the running thread
    /// ignores or blocks it, or its process group is orphaned.
    fn is_unstoppable(signo: i32) -> bool;
    /// Sends a signal from the kernel to all processes of a group.
    fn signal_group(pgid: Pid, signo: i32);
    /// The session of a process group that has members.
    fn session_of(pgid: Pid) -> Option<Pid>;
    /// userfaultfd(2) without a check of the caller, who was let open its device.
    fn userfaultfd(flags: u64) -> Result<u64>;
}

/// Frames for what files hold, and for what a monitor fills.
pub trait Frames {
    /// Whether there are some now, after what the caller does has failed so often, before which
    /// there were so many stalls ([`mm::Mm::stalls`]). May sleep.
    fn come(stalls: u64, attempt: u32) -> bool;
}

/// RLIMIT_NOFILE of the running process.
pub fn open_files_limit() -> usize {
    Above::open_files_limit().min(MAX_OPEN_FILES) as usize
}

/// RLIMIT_FSIZE for a write at `position`: how many of `len` bytes it leaves; SIGXFSZ and EFBIG
/// when none.
pub fn within_file_size(position: u64, len: usize) -> Result<usize> {
    let Some(limit) = Above::file_size_limit() else {
        return Ok(len);
    };
    if position >= limit && len > 0 {
        Above::signal(SIGXFSZ);
        return Err(Errno::EFBIG);
    }
    Ok(usize::try_from(limit - position.min(limit)).map_or(len, |left| left.min(len)))
}

/// The running process, as sockets show it to each other.
pub fn creator() -> Creator {
    Above::creator()
}

/// A write to a pipe without readers.
pub fn broken_pipe() {
    Above::signal(SIGPIPE);
}
