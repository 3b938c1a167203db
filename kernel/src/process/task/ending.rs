//! Exit state of a process, and the siginfo of its SIGCHLD.

use super::Task;
use super::process::{NO_STATUS, Process};
use crate::process::signal::{Fields, SIGCHLD, SigInfo};
use crate::process::trace;
use crate::sched::Work;
use core::sync::atomic::Ordering::Relaxed;

impl Process {
    /// Whether all threads have ended; it waits for its parent then (a zombie).
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    pub(super) fn set_ended(&self, status: i32) {
        self.status.store(status, Relaxed);
        self.ended.store(true, Relaxed);
    }

    /// Its wait status, once it has ended.
    pub fn exit_status(&self) -> i32 {
        self.status.load(Relaxed)
    }

    /// The status with which all threads are to end, if they are.
    pub fn group_exit(&self) -> Option<i32> {
        Some(self.group_exit.load(Relaxed)).filter(|status| *status != NO_STATUS)
    }

    /// Sets the status; the first one counts. Returns `false` when there was one already.
    pub(super) fn set_group_exit(&self, status: i32) -> bool {
        self.group_exit
            .compare_exchange(NO_STATUS, status, Relaxed, Relaxed)
            .is_ok()
    }

    /// Whether this thread is to end because the process does, or because another thread does
    /// execve.
    pub(crate) fn is_ending_for(&self, task: &Task) -> bool {
        let exec = self.exec_thread.load(Relaxed);
        self.group_exit.load(Relaxed) != NO_STATUS || (exec != 0 && exec != task.tid())
    }

    /// Whether all threads but one are to end, for execve or a core dump.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.exec_thread.load(Relaxed) != 0
    }

    /// Whether this thread has to check the state of the process before it goes back to user mode.
    pub(crate) fn wants_attention(&self, task: &Task) -> bool {
        let traced = task.sched.work().contains(Work::TRACED);
        self.is_ending_for(task)
            || task.stopped_by().is_some()
            || traced && trace::is_interrupted(task)
    }

    /// SIGCHLD's siginfo about this process.
    pub(crate) fn child_info(&self, code: u32, status: i32) -> SigInfo {
        let times = self.times();
        let fields = Fields::Child {
            pid: self.pid(),
            uid: self.credentials(|c| c.uid[0]),
            status,
            utime: times.user / 10_000_000,
            stime: times.system / 10_000_000,
        };
        SigInfo {
            signo: SIGCHLD,
            code: code as i32,
            fields,
        }
    }
}
