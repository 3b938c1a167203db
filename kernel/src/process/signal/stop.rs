//! Stopping and continuing a process, and what its parent is told.

use super::*;
use crate::process::task::Process;
use crate::sched;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// Whether a process is stopped, and what wait(2) has not yet told.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopState {
    /// The signal that stopped it.
    stopped_by: Option<i32>,
    /// A stop that wait has not told yet.
    untold_stop: Option<i32>,
    /// A continuation that wait has not told yet.
    untold_continue: bool,
}

impl StopState {
    /// Runs.
    pub const RUNNING: StopState = StopState {
        stopped_by: None,
        untold_stop: None,
        untold_continue: false,
    };

    /// Whether it is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// The stop to be told; `take`: it is told now.
    pub fn untold_stop(&mut self, take: bool) -> Option<i32> {
        let told = self.untold_stop;
        if take {
            self.untold_stop = None;
        }
        told
    }

    /// Whether a continuation is to be told; `take`: it is told now.
    pub fn untold_continue(&mut self, take: bool) -> bool {
        let told = self.untold_continue;
        if take {
            self.untold_continue = false;
        }
        told
    }

    /// SIGKILL also reaches the stopped.
    pub(super) fn clear_for_kill(&mut self) {
        *self = Self::RUNNING;
    }
}

/// The default action of a stop signal: the process stops, the parent is told.
pub fn stop_process(process: &Arc<Process>, signo: i32) {
    let mut stop = process.stop.lock();
    if stop.is_stopped() {
        return;
    }
    *stop = StopState {
        stopped_by: Some(signo),
        untold_stop: Some(signo),
        untold_continue: false,
    };
    drop(stop);
    for task in process.threads() {
        task.sched.add_work(Work::SIGNAL);
        sched::wake_from(&task, |state| state == TaskState::Interruptible);
    }
    tell_parent(process, abi::CLD_STOPPED, signo);
}

/// SIGCONT: a stopped process goes on, whatever it does about the signal itself.
pub fn continue_process(process: &Arc<Process>) {
    let mut stop = process.stop.lock();
    if !stop.is_stopped() {
        return;
    }
    *stop = StopState {
        stopped_by: None,
        untold_stop: None,
        untold_continue: true,
    };
    drop(stop);
    for task in process.threads() {
        sched::wake_from(&task, |state| state == TaskState::Stopped);
    }
    tell_parent(process, abi::CLD_CONTINUED, SIGCONT);
}

/// The running thread stays here while its process is stopped.
pub(super) fn stay_stopped(task: &Arc<Task>) {
    let is_stopped = || task.process().stop.lock().is_stopped();
    while is_stopped() && !is_killed(task) {
        task.sched.set_state(TaskState::Stopped);
        sched::schedule();
    }
}

fn tell_parent(process: &Arc<Process>, code: u32, status: i32) {
    let Some(parent) = process.parent() else {
        return;
    };
    if !parent.handlers().get(SIGCHLD).has(ActionFlags::NOCLDSTOP) {
        send_process(&parent, process.child_info(code, status));
    }
    parent.child_events.wake_all();
}
