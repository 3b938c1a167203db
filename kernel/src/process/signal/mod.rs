//! Signals: pending sets, actions, delivery to handlers and the return from them.

mod action;
mod deliver;
mod send;
mod stop;

pub use action::Handlers;
pub use deliver::{deliver, sigreturn};
pub use parts::signal::*;
pub use send::{
    force, kill_current, pass_on, queue_process, queue_task, send_group, send_process, send_task,
};
pub use stop::{StopState, complete_stop, continue_process, stop_process};

use crate::base::errno::{Errno, Result};
use crate::process::task::{Process, Task, TaskState, Work};
use core::sync::atomic::Ordering::Relaxed;

impl From<QueueFull> for Errno {
    fn from(_: QueueFull) -> Errno {
        Errno::EAGAIN
    }
}

/// The siginfo of a signal from a process: `code` is SI_USER for kill(2), SI_TKILL for tkill(2) and
/// tgkill(2).
pub fn info_from(sender: &Process, signo: i32, code: i32) -> SigInfo {
    let fields = Fields::Sender {
        pid: sender.pid(),
        uid: sender.credentials(|c| c.uid[0]),
    };
    SigInfo {
        signo,
        code,
        fields,
    }
}

/// EINVAL unless `signo` is 1 to 64.
pub fn check(signo: i32) -> Result<i32> {
    match signo {
        n @ 1..=LAST => Ok(n),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether the running thread has to go back to user mode to handle a signal, stop or end.
pub fn pending() -> bool {
    crate::process::task::with_current(|task| interrupts(task, TaskState::Interruptible))
}

/// Whether a sleep of this kind ends now because of a signal.
pub(crate) fn interrupts(task: &Task, how: TaskState) -> bool {
    let work = task.sched.work();
    match how {
        TaskState::Interruptible => work.intersects(Work::SIGNAL | Work::EXIT),
        TaskState::Killable => work.intersects(Work::SIGNAL) && is_killed(task),
        _ => false,
    }
}

/// Whether the thread is to end as soon as it can: its process ends, or a pending signal will end
/// it.
pub fn is_killed(task: &Task) -> bool {
    let process = task.process();
    let pending = pending_set(task) & !task.blocked();
    let ends = |signo| {
        let action = process.handlers().get(signo);
        let fatal = matches!(Default::of(signo), Default::Terminate | Default::Core);
        let default = matches!(action.disposition(), Disposition::Default);
        pending & bit(signo) != 0 && fatal && default && !process.survives(&action)
    };
    process.is_ending_for(task) || pending != 0 && (1..=LAST).any(ends)
}

/// The signals that are pending for the thread or its process. One lock at a time: they have one
/// rank.
pub(crate) fn pending_set(task: &Task) -> SigSet {
    let own = task.pending.lock().set();
    let shared = task.process().pending.lock().set();
    own | shared
}

/// Takes a pending signal of `set`, the thread's own first. The caller [`recalculate`]s.
pub fn take_of(task: &Task, set: SigSet) -> Option<SigInfo> {
    let own = task.pending.lock().take(set);
    own.or_else(|| task.process().pending.lock().take(set))
}

/// Sets the mask of the running thread (SIGKILL and SIGSTOP stay free) and checks whether a pending
/// signal is free now, or is for another thread.
pub fn set_blocked(task: &Task, set: SigSet) {
    let before = task.blocked();
    task.store_blocked(set & !UNBLOCKABLE);
    // Without the work it was told of none.
    if set & !before != 0 && task.sched.work().contains(Work::SIGNAL) {
        pass_on(task, set & !before);
    }
    recalculate(task);
}

/// Sets the mask until the system call has ended, for sigsuspend, ppoll and pselect: a handler that
/// interrupts the call runs with it, and the old one is restored afterwards.
pub fn set_temporary_mask(set: SigSet) {
    crate::process::task::with_current(|task| {
        task.saved_mask.store(task.blocked(), Relaxed);
        task.sched.add_work(Work::RESTORE_MASK);
        set_blocked(task, set);
    });
}

/// Notes in the thread's work whether a signal that it does not block is pending.
pub(crate) fn recalculate(task: &Task) {
    let set = pending_set(task);
    if set & !task.blocked() != 0 || task.process().wants_attention(task) {
        task.sched.add_work(Work::SIGNAL);
    } else {
        task.sched.clear_work(Work::SIGNAL);
    }
}
