//! Sending.

use super::*;
use crate::sched;
use crate::task::{self, Pid, Process};
use alloc::sync::Arc;

/// To a process: any thread that does not block it will handle it.
pub fn send_process(process: &Arc<Process>, info: SigInfo) {
    if !prepare(process, None, info.signo) {
        return;
    }
    process.pending.lock().add(info);
    notify_some_thread(process, info.signo);
}

/// To one thread.
pub fn send_task(task: &Arc<Task>, info: SigInfo) {
    if !prepare(task.process(), Some(task), info.signo) {
        return;
    }
    task.pending.lock().add(info);
    notify(task, info.signo);
}

/// To all processes of a group, from the kernel (terminal). Returns how many there are.
pub fn send_group(pgid: Pid, signo: i32) -> usize {
    let members = task::group_members(pgid);
    for process in &members {
        send_process(process, SigInfo::kernel(signo));
    }
    members.len()
}

/// A fault of the running thread: it cannot be blocked or ignored; if it is, the default action is taken.
pub fn force(task: &Arc<Task>, info: SigInfo) {
    let handlers = task.process().handlers();
    let action = handlers.get(info.signo);
    let blocked = task.blocked() & bit(info.signo) != 0;
    if blocked || action.disposition() == Disposition::Ignore {
        handlers.set(info.signo, Action::DEFAULT);
        task.store_blocked(task.blocked() & !bit(info.signo));
    }
    task.pending.lock().add(info);
    task.add_work(Work::SIGNAL);
}

/// SIGKILL for the running process, PID 1 too: nothing else can be done about it.
pub fn kill_current(task: &Arc<Task>) {
    force(task, SigInfo::kernel(SIGKILL));
}

/// What happens when a signal is sent, before it is pending. `false`: it has no effect.
fn prepare(process: &Arc<Process>, target: Option<&Arc<Task>>, signo: i32) -> bool {
    if process.has_ended() {
        return false;
    }
    if bit(signo) & STOPPING != 0 {
        drop_pending(process, bit(SIGCONT));
    }
    if signo == SIGCONT {
        drop_pending(process, STOPPING);
        continue_process(process);
    }
    if signo == SIGKILL {
        process.stop.lock().clear_for_kill();
    }
    let action = process.handlers().get(signo);
    // PID 1 is asked only about signals that it has a handler for.
    if process.pid() == 1 && action.disposition() == Disposition::Default {
        return false;
    }
    let blocked = match target {
        Some(task) => task.blocked() & bit(signo) != 0,
        None => process
            .threads()
            .iter()
            .all(|task| task.blocked() & bit(signo) != 0),
    };
    blocked || !action.ignores(signo)
}

fn drop_pending(process: &Process, set: SigSet) {
    process.pending.lock().remove(set);
    for task in process.threads() {
        task.pending.lock().remove(set);
    }
}

/// Tells the thread that should handle a signal of the process: the leader if it may, else the first that may.
fn notify_some_thread(process: &Arc<Process>, signo: i32) {
    if signo == SIGKILL {
        process
            .threads()
            .iter()
            .for_each(|task| notify(task, signo));
    } else if let Some(task) = process
        .threads()
        .iter()
        .find(|task| task.blocked() & bit(signo) == 0)
    {
        notify(task, signo);
    } else {
        // Blocked by all: sigtimedwait may be waiting for it.
        process
            .threads()
            .iter()
            .for_each(|task| notify(task, signo));
    }
}

/// Tells a thread that a signal is pending.
fn notify(task: &Arc<Task>, signo: i32) {
    if task.blocked() & bit(signo) == 0 {
        task.add_work(Work::SIGNAL);
        sched::wake_from(task, |state| match state {
            TaskState::Interruptible => true,
            TaskState::Killable | TaskState::Stopped => signo == SIGKILL,
            _ => false,
        });
    } else {
        task.process().signal_queue.wake_all();
    }
}
