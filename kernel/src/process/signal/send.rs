//! Sending signals: to a thread, a process, a group.

use super::*;
use crate::process::signalfd;
use crate::process::task::{self, Pid, Process, Resource};
use crate::sched::{self, kernel_lock};
use alloc::sync::Arc;

/// Sends a signal to a process: any thread that does not block it handles it. EAGAIN as
/// [`Pending::add`].
pub fn queue_process(process: &Arc<Process>, info: SigInfo) -> Result {
    if prepare(process, None, info.signo) {
        let limit = limit(process, info.signo);
        process.pending.lock().add(info, limit)?;
        notify_some_thread(process, info.signo);
    }
    Ok(())
}

/// Sends a signal to one thread. EAGAIN as [`Pending::add`].
pub fn queue_task(task: &Arc<Task>, info: SigInfo) -> Result {
    if prepare(task.process(), Some(task), info.signo) {
        let limit = limit(task.process(), info.signo);
        task.pending.lock().add(info, limit)?;
        notify(task, info.signo);
    }
    Ok(())
}

/// Sends a signal of the kernel to a process. A real-time signal that finds no room is lost, as a
/// child's exit signal may be.
pub fn send_process(process: &Arc<Process>, info: SigInfo) {
    let _ = queue_process(process, info);
}

/// Sends a signal of the kernel to one thread, as [`send_process`].
pub fn send_task(task: &Arc<Task>, info: SigInfo) {
    let _ = queue_task(task, info);
}

/// The highest RLIMIT_SIGPENDING that counts: a queue is one piece of the kernel's heap, and is
/// searched.
const MOST_QUEUED: u64 = 1 << 15;

/// How many signals may be queued for another of this number: RLIMIT_SIGPENDING, which is for
/// real-time signals.
fn limit(process: &Process, signo: i32) -> u64 {
    match signo {
        FIRST_REALTIME.. => process.limits().soft(Resource::SigPending).min(MOST_QUEUED),
        _ => u64::MAX,
    }
}

/// Sends a signal of the kernel (the terminal) to all processes of a group. Returns how many there
/// are.
pub fn send_group(pgid: Pid, signo: i32) -> usize {
    let mut members = 0;
    for process in task::group_members(pgid) {
        send_process(&process, SigInfo::kernel(signo));
        members += 1;
    }
    members
}

/// Sends a fault's signal to the running thread. It cannot be blocked or ignored: if it is, the
/// default action is taken.
pub fn force(task: &Arc<Task>, info: SigInfo) {
    let handlers = task.process().handlers();
    let action = handlers.get(info.signo);
    let blocked = task.blocked() & bit(info.signo) != 0;
    if blocked || action.disposition() == Disposition::Ignore {
        handlers.set(info.signo, Action::DEFAULT);
        task.store_blocked(task.blocked() & !bit(info.signo));
    }
    if handlers.get(info.signo).disposition() == Disposition::Default {
        task.process().protected.store(false, Relaxed);
    }
    // A fault's signal is a standard one: it always pends.
    let _ = task.pending.lock().add(info, u64::MAX);
    task.sched.add_work(Work::SIGNAL);
}

/// Kills the running process, PID 1 too: there is no other way to continue.
pub fn kill_current(task: &Arc<Task>) {
    force(task, SigInfo::kernel(SIGKILL));
}

/// Effects of sending a signal before it is pending. Returns `false` when it has no effect.
fn prepare(process: &Arc<Process>, target: Option<&Arc<Task>>, signo: i32) -> bool {
    debug_assert!(kernel_lock::is_mine());
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
    let blocked = match target {
        Some(task) => task.blocked() & bit(signo) != 0,
        None => process
            .threads()
            .all(|task| task.blocked() & bit(signo) != 0),
    };
    // What is blocked waits: there may be a handler by the time that it is not, or sigtimedwait(2)
    // asks for it.
    let has_effect = !action.ignores(signo) && !process.survives(&action);
    blocked || has_effect || is_traced(process, target)
}

/// Whether a tracer hears of the signal, also of one that does nothing.
fn is_traced(process: &Process, target: Option<&Arc<Task>>) -> bool {
    let traced = |task: &Arc<Task>| task.sched.work().contains(Work::TRACED);
    match target {
        Some(task) => traced(task),
        None => process.threads().any(|task| traced(&task)),
    }
}

fn drop_pending(process: &Process, set: SigSet) {
    process.pending.lock().remove(set);
    for task in process.threads() {
        task.pending.lock().remove(set);
    }
}

/// Notifies the thread that should handle a signal of the process: the leader if it may, else the
/// first that may.
fn notify_some_thread(process: &Arc<Process>, signo: i32) {
    let free = |task: &Arc<Task>| task.blocked() & bit(signo) == 0;
    let one = process.threads().find(free).filter(|_| signo != SIGKILL);
    match one {
        Some(task) => notify(&task, signo),
        // Blocked by all: sigtimedwait may be waiting for it.
        None => process.threads().for_each(|task| notify(&task, signo)),
    }
}

/// A thread does not take signals of its process (`set`) that it could take before: it ends, or
/// blocks them from now on. Those that pend, and of which it may have been told, go on to others.
pub fn pass_on(task: &Task, set: SigSet) {
    let process = task.process();
    let mut left = process.pending.lock().set() & set;
    if left == 0 {
        return;
    }
    // Each other thread once, however many signals there are.
    for other in process.threads() {
        let its = left & !other.blocked();
        let first = (1..=LAST).find(|signo| its & bit(*signo) != 0);
        if let (Some(signo), false) = (first, core::ptr::eq(&raw const *other, task)) {
            // It takes them all.
            notify(&other, signo);
            left &= !its;
        }
        if left == 0 {
            return;
        }
    }
    // sigtimedwait may be waiting for them.
    signalfd::notify(process);
}

/// Tells a thread that a signal is pending.
fn notify(task: &Arc<Task>, signo: i32) {
    if task.blocked() & bit(signo) == 0 {
        task.sched.add_work(Work::SIGNAL);
        sched::wake_from(task, |state| match state {
            TaskState::Interruptible => true,
            TaskState::Killable => is_killed(task),
            TaskState::Stopped | TaskState::Traced => signo == SIGKILL,
            _ => false,
        });
    } else {
        signalfd::notify(task.process());
    }
}
