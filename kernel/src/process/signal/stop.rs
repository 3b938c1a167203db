//! Job control: stopping and continuing a process, and notifying its parent.

use super::*;
use crate::arch::trap::UserContext;
use crate::process::task::Process;
use crate::process::trace;
use crate::sched;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// Stop state of a process, and the events that wait(2) has not reported yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopState {
    /// The signal that stopped it.
    stopped_by: Option<i32>,
    /// All its threads have stopped.
    complete: bool,
    /// A stop that wait has not reported yet.
    unreported_stop: Option<i32>,
    /// A continuation that wait has not reported yet.
    unreported_continue: bool,
}

impl StopState {
    /// Not stopped.
    pub const RUNNING: StopState = StopState {
        stopped_by: None,
        complete: false,
        unreported_stop: None,
        unreported_continue: false,
    };

    /// Whether it is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// The signal that stopped it.
    pub fn signal(&self) -> Option<i32> {
        self.stopped_by
    }

    /// All threads have stopped: the stop is to be reported. The signal that stopped the process;
    /// `None`: it does not stop, or it is reported.
    fn complete(&mut self) -> Option<i32> {
        let signo = self.stopped_by.filter(|_| !self.complete)?;
        self.complete = true;
        self.unreported_stop = Some(signo);
        Some(signo)
    }

    /// The stop to be reported; `take`: it counts as reported now.
    pub fn unreported_stop(&mut self, take: bool) -> Option<i32> {
        let told = self.unreported_stop;
        if take {
            self.unreported_stop = None;
        }
        told
    }

    /// Whether a continuation is to be reported; `take`: it counts as reported now.
    pub fn unreported_continue(&mut self, take: bool) -> bool {
        let told = self.unreported_continue;
        if take {
            self.unreported_continue = false;
        }
        told
    }

    /// SIGKILL also ends stopped processes.
    pub(super) fn clear_for_kill(&mut self) {
        *self = Self::RUNNING;
    }
}

/// The default action of a stop signal: stops the process. The last thread that stops notifies its
/// parent.
pub fn stop_process(process: &Arc<Process>, signo: i32) {
    let mut stop = process.stop.lock();
    if !stop.is_stopped() {
        *stop = StopState {
            stopped_by: Some(signo),
            ..StopState::RUNNING
        };
    }
    drop(stop);
    for task in process.threads() {
        // One that its tracer has sent on alone stops again.
        trace::stop_changes(&task);
        task.sched.add_work(Work::SIGNAL);
        sched::wake_from(&task, |state| state == TaskState::Interruptible);
    }
}

/// Notifies the parent if all threads of the process have stopped.
pub fn complete_stop(process: &Arc<Process>) {
    if !process.threads().all(|task| task.has_stopped.load(Relaxed)) {
        return;
    }
    let stopped_by = process.stop.lock().complete();
    if let Some(signo) = stopped_by {
        notify_parent(process, abi::CLD_STOPPED, signo);
    }
}

/// SIGCONT: continues a stopped process, whatever its action for the signal is.
pub fn continue_process(process: &Arc<Process>) {
    let mut stop = process.stop.lock();
    if !stop.is_stopped() {
        return;
    }
    *stop = StopState {
        unreported_continue: true,
        ..StopState::RUNNING
    };
    drop(stop);
    for task in process.threads() {
        trace::stop_changes(&task);
        sched::wake_from(&task, |state| state == TaskState::Stopped);
    }
    notify_parent(process, abi::CLD_CONTINUED, SIGCONT);
}

/// Stops the running thread while its process is stopped: for its tracer if it has one, which may
/// let it go on alone.
pub(super) fn stay_stopped(
    task: &Arc<Task>,
    user: &mut UserContext,
    interrupted: &mut Option<Errno>,
) {
    loop {
        task.sched.prepare();
        let stopped_by = task.stopped_by().filter(|_| !is_killed(task));
        let Some(signo) = stopped_by else {
            task.has_stopped.store(false, Relaxed);
            break task.sched.set_state(TaskState::Runnable);
        };
        task.has_stopped.store(true, Relaxed);
        complete_stop(task.process());
        if task.sched.work().contains(Work::TRACED) {
            task.sched.set_state(TaskState::Runnable);
            trace::at_group_stop(task, user, interrupted, signo);
            continue;
        }
        if task.sched.settle(TaskState::Stopped) {
            sched::schedule();
        }
    }
}

pub(super) fn notify_parent(process: &Arc<Process>, code: u32, status: i32) {
    let Some(parent) = process.parent() else {
        return;
    };
    if !parent.handlers().get(SIGCHLD).has(ActionFlags::NOCLDSTOP) {
        send_process(&parent, process.child_info(code, status));
    }
    parent.child_events.wake_all();
}
