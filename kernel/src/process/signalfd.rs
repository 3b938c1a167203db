//! signalfd(2): signals that are blocked as a file, of which they are read.
//!
//! A read takes those of the thread that reads and of its process, whichever process made the file:
//! a child's file is about the child. So all such files share one wait queue.

use crate::base::errno::{Errno, Result};
use crate::fs::kinds::anonymous;
use crate::fs::kinds::pseudo::Text;
use crate::fs::open::file::OpenFile;
use crate::fs::open::io::Sink;
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::fs::{Fd, OpenFlags};
use crate::process::signal::{self, FdInfo, SigInfo, SigSet, UNBLOCKABLE};
use crate::process::task::{self, Process, Task};
use crate::sched;
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A signal that is blocked has come, for some process.
static CAME: WaitQueue = WaitQueue::new();

/// The set of signals that it is about: changed and read under the kernel lock.
struct SignalFd(AtomicU64);

/// Tells those that wait for signals of a process that one has come which is blocked.
pub fn notify(process: &Process) {
    process.signal_queue.wake_all();
    CAME.wake_all();
}

impl SignalFd {
    fn take(&self, task: &Task) -> Option<SigInfo> {
        signal::take_of(task, self.0.load(Relaxed))
    }
}

impl FileOps for SignalFd {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if sink.left() < size_of::<FdInfo>() {
            return Err(Errno::EINVAL);
        }
        let task = task::current();
        let mut next = Some(CAME.wait_unless(at.nonblocking, || self.take(&task))?);
        let mut done = 0;
        while let Some(info) = next {
            // As on Linux, a signal that memory refuses is lost.
            match sink.give(&info.to_fd_bytes()) {
                Ok(n) if n == size_of::<FdInfo>() => done += n,
                _ if done > 0 => break,
                _ => return Err(Errno::EFAULT),
            }
            let ends = sink.left() < size_of::<FdInfo>() || sched::breathe();
            next = if ends { None } else { self.take(&task) };
        }
        signal::recalculate(&task);
        Ok(done)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let pending = signal::pending_set(&task::current());
        let mut ready = Ready::empty();
        ready.set(Ready::IN, pending & self.0.load(Relaxed) != 0);
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&CAME);
    }

    fn describe(&self, out: &mut Text) {
        out.put(format_args!("sigmask:\t{:016x}\n", self.0.load(Relaxed)));
    }
}

/// A new file about `set`.
pub fn open(set: SigSet, flags: OpenFlags) -> Arc<OpenFile> {
    let ops = Arc::new(SignalFd(AtomicU64::new(set & !UNBLOCKABLE)));
    anonymous::open("anon_inode:[signalfd]", ops, OpenFlags::RDWR | flags)
}

/// The file is about `set` from now on; EBADF, EINVAL.
pub fn change(task: &Task, fd: Fd, set: SigSet) -> Result {
    let file = task.files().get(fd)?;
    file.usable()?;
    let any: &dyn Any = file.ops();
    let it = any.downcast_ref::<SignalFd>().ok_or(Errno::EINVAL)?;
    it.0.store(set & !UNBLOCKABLE, Relaxed);
    // One that waits may find one of the new set.
    CAME.wake_all();
    Ok(())
}
