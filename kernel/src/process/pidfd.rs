//! pidfd_open(2): a process as a file, readable once it has ended.

use crate::base::errno::{Errno, Result};
use crate::fs::Fd;
use crate::fs::OpenFlags;
use crate::fs::kinds::anonymous;
use crate::fs::kinds::pseudo::Text;
use crate::fs::open::ops::{FileOps, Ready};
use crate::process::task::{self, Process, Task};
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

struct PidFd(Arc<Process>);

impl FileOps for PidFd {
    fn poll(&self) -> Ready {
        match self.0.has_ended() {
            true if !task::is_listed(&self.0) => Ready::IN | Ready::HUP,
            true => Ready::IN,
            false => Ready::empty(),
        }
    }
    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.0.exit_events);
    }
    fn describe(&self, out: &mut Text) {
        let pid = if task::is_listed(&self.0) {
            self.0.pid()
        } else {
            -1
        };
        out.put(format_args!("Pid:\t{pid}\nNSpid:\t{pid}\n"));
    }
}

/// A new descriptor of a process, closed by execve.
pub fn open(task: &Task, process: Arc<Process>, nonblocking: bool) -> Result<Fd> {
    let mut flags = OpenFlags::RDWR;
    flags.set(OpenFlags::NONBLOCK, nonblocking);
    let file = anonymous::open("anon_inode:[pidfd]", Arc::new(PidFd(process)), flags);
    task.files().install(file, true)
}

/// The process behind a pidfd; EBADF.
pub fn process(task: &Task, fd: Fd) -> Result<Arc<Process>> {
    let file = task.files().get(fd)?;
    let any: &dyn Any = file.ops();
    any.downcast_ref::<PidFd>()
        .map(|pidfd| pidfd.0.clone())
        .ok_or(Errno::EBADF)
}
