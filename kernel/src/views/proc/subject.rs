//! Whom a file of /proc is about.
//!
//! What /proc shows, it does not own: an open file may outlive its process by any time, and may be
//! one of those that the process has open. So a file knows the process by weak references, and
//! looks it up again at each call (Linux: the inode has a `struct pid`).

use crate::base::errno::{Errno, Result};
use crate::base::machine::Space;
use crate::process::task::{self, Process, Task};
use alloc::sync::{Arc, Weak};

/// The process or thread that a file is about, for as long as a call looks at it. No inode, open
/// file or closure keeps one: that is what [`Known`] is for.
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread, in a task/TID directory.
    pub task: Option<Arc<Task>>,
}

impl Subject {
    /// The thread that per-thread figures are about: the leader, when no other was asked for.
    pub fn thread(&self) -> Option<Arc<Task>> {
        self.task.clone().or_else(|| self.process.leader())
    }
    /// PID or TID, as the directory is called.
    pub fn number(&self) -> i32 {
        self.task
            .as_ref()
            .map_or(self.process.pid(), |task| task.tid())
    }
    /// The address space; ESRCH once the process has ended.
    pub fn space(&self) -> Result<Space> {
        self.process.space.get().ok_or(Errno::ESRCH)
    }
    /// What a file keeps of it.
    pub fn known(&self) -> Known {
        Known {
            process: Arc::downgrade(&self.process),
            task: self.task.as_ref().map(Arc::downgrade),
        }
    }
}

/// What a file keeps of its [`Subject`].
#[derive(Clone)]
pub struct Known {
    process: Weak<Process>,
    task: Option<Weak<Task>>,
}

impl Known {
    /// The subject; ESRCH once the process has been waited for, or the thread has ended, whoever
    /// else still has a reference to it.
    pub fn subject(&self) -> Result<Subject> {
        let process = self.process.upgrade().filter(task::is_listed);
        let process = process.ok_or(Errno::ESRCH)?;
        let task = match &self.task {
            None => None,
            Some(task) => Some(listed_thread(task)?),
        };
        Ok(Subject { process, task })
    }
}

fn listed_thread(task: &Weak<Task>) -> Result<Arc<Task>> {
    let task = task.upgrade().filter(|task| {
        task::find_task(task.tid()).is_some_and(|listed| Arc::ptr_eq(&listed, task))
    });
    task.ok_or(Errno::ESRCH)
}
