//! What wait(2) tells a tracer of its tracees.

use super::{Trace, links};
use crate::process::task::{self, Process, Task, WaitOptions, WaitRequest, WaitTarget};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

/// An event of a child or tracee.
#[derive(Clone, Copy, Debug)]
pub struct News {
    /// The status word of wait(2).
    pub status: i32,
    /// CLD_*.
    pub code: u32,
    /// Exit status or signal.
    pub number: i32,
    /// It is its end.
    pub is_end: bool,
}

impl News {
    /// A thread or process that has ended with this wait status.
    pub fn end(status: i32) -> Self {
        let (code, number) = task::exit_code(status);
        News {
            status,
            code,
            number,
            is_end: true,
        }
    }

    /// A stop with this WSTOPSIG.
    pub fn stop(stopped_by: i32, code: u32) -> Self {
        News {
            status: stopped_by << 8 | 0x7f,
            code,
            number: stopped_by,
            is_end: false,
        }
    }
}

fn accepts(request: &WaitRequest, task: &Task) -> bool {
    match request.target {
        WaitTarget::Any => true,
        WaitTarget::Pid(pid) => task.tid() == pid,
        WaitTarget::Group(pgid) => task.process().pgid() == pgid,
    }
}

/// The stop to be reported; `take`: it counts as reported now.
fn unreported(trace: &mut Trace, take: bool) -> Option<News> {
    let stop = trace.stop.as_mut().filter(|stop| stop.unreported)?;
    stop.unreported = !take;
    Some(News::stop(stop.code, stop.cld()))
}

/// What there is to report of a tracee. The end of a child of the tracer's own is told as that of
/// others'.
fn news(tracer: &Process, request: &WaitRequest, task: &Task) -> Option<News> {
    let process = task.process();
    let mut trace = task.trace.lock();
    let trace = trace.as_mut()?;
    let is_leader = task.tid() == process.pid();
    let has_ended = trace.has_ended || is_leader && process.has_ended();
    if !has_ended {
        let take = !request.options.contains(WaitOptions::NOWAIT);
        return unreported(trace, take);
    }
    let is_own = is_leader && process.ppid() == tracer.pid();
    let wanted = request.options.contains(WaitOptions::EXITED) && !is_own;
    wanted.then(|| News::end(task.last_status()))
}

/// Looks at the tracees of a process once: whether there are such, and one of which there is
/// something to report. One that has ended is nobody's tracee any more.
pub fn look(tracer: &Process, request: &WaitRequest) -> (bool, Option<(Arc<Task>, News)>) {
    let found = {
        let tracees = tracer.tracees.lock();
        let mut any = tracees
            .iter()
            .filter(|task| accepts(request, task))
            .peekable();
        if any.peek().is_none() {
            return (false, None);
        }
        any.find_map(|task| Some((task.clone(), news(tracer, request, task)?)))
    };
    if let Some((task, news)) = &found
        && news.is_end
        && !request.options.contains(WaitOptions::NOWAIT)
    {
        release(tracer, task);
    }
    (true, found)
}

/// A tracee that has ended was waited for: a thread is gone, a process is its parent's again.
fn release(tracer: &Process, task: &Arc<Task>) {
    let process = task.process();
    links::forget_task(tracer, task);
    if task.tid() == process.pid() {
        process.tracer.store(0, Relaxed);
        task::tell_parent(process);
    } else {
        task::remove_ended_thread(task);
    }
}
