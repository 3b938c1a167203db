//! Threads and processes.
//!
//! A [`Task`] is a thread: what the scheduler switches between. A [`Process`] is a thread group:
//! what has a PID, an address space, signal handlers and children. The [`table`] knows them all; a
//! thread is there until it has exited, a process until its parent has waited for it.

mod actions;
mod calls;
mod clone;
mod credentials;
mod ending;
mod exit;
mod faults;
mod groups;
mod heap;
mod image;
mod limits;
mod membership;
mod oom;
mod process;
mod space;
mod start;
mod table;
mod thread;
mod times;
mod wait;

pub use crate::base::Pid;
pub use crate::sched::{TaskState, Work};
pub use clone::{CloneFlags, CloneRequest, clone};
pub use credentials::{Capabilities, Credentials};
pub use exit::{
    MEMORY_IS_BACK, exit_code, exit_group, exit_thread, finish, kill_other_threads, tell_parent,
};
pub use faults::Faults;
pub use groups::{is_orphaned, session_of};
pub use heap::{set_heap_fail, watch_heap, watch_heap_of_trap};
pub use image::Image;
pub use limits::{Resource, ResourceLimits};
pub use oom::NEVER;
pub use process::Process;
pub use start::{FirstProcess, spawn_kernel_thread};
pub use table::{
    PID_MAX, PID_MAX_RANGE, THREADS_MAX, THREADS_MAX_RANGE, counts, find, find_task, in_steps,
    is_listed, processes, processes_after, remove_ended_thread, tasks_after,
};
pub use thread::{AltStack, Start, Task};
pub use times::{ProcessTimes, Remaining};
pub use wait::{WaitOptions, WaitRequest, WaitTarget, Waited, wait_for_child};

pub(crate) use groups::{group_members, move_to_group, new_session};

use crate::base::cpus;
use crate::sched;
use alloc::sync::Arc;
use core::fmt;

/// The thread that runs now. Panics before the first thread runs.
pub fn current() -> Arc<Task> {
    sched::running()
}

/// Calls `f` with the thread that runs now.
pub fn with_current<R>(f: impl FnOnce(&Arc<Task>) -> R) -> R {
    f(&current())
}

/// Name and number of the running thread for reports.
pub fn describe_current() -> impl fmt::Display {
    describe_on(cpus::current())
}

/// Name and number of the thread that a CPU runs, for reports: `sh[17]`, `none` before the first
/// one and when it is idle. Waits for no lock and takes no memory: a panic asks, too.
pub fn describe_on(cpu: usize) -> impl fmt::Display {
    fmt::from_fn(move |out| match sched::try_current(cpu) {
        Some(task) => write!(out, "{}", describe(&task)),
        None => out.write_str("none"),
    })
}

/// Name and number of a thread, as [`describe_on`].
pub fn describe(task: &Task) -> impl fmt::Display {
    fmt::from_fn(move |out| {
        let comm = task.comm_bytes();
        let name = comm.split(|b| *b == 0).next().unwrap_or_default();
        write!(out, "{}[{}]", name.escape_ascii(), task.tid())
    })
}
