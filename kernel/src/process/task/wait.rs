//! Waiting for children: wait4 and waitid.

use super::{Faults, Pid, Process, ProcessTimes, Task, table};
use crate::base::errno::{Errno, Result};
use crate::process::signal::{SIGCHLD, SIGCONT};
use crate::process::trace::{self, News};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// Children to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// Any child.
    Any,
    /// This one.
    Pid(Pid),
    /// Any child in this process group.
    Group(Pid),
}

bitflags::bitflags! {
    /// Options of wait4(2) and waitid(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct WaitOptions: u32 {
        /// WNOHANG: returns at once.
        const NOHANG = abi::WNOHANG;
        /// WSTOPPED, which wait4 calls WUNTRACED: children that have stopped.
        const STOPPED = abi::WSTOPPED;
        /// WEXITED: children that have ended.
        const EXITED = abi::WEXITED;
        /// WCONTINUED: children that run again.
        const CONTINUED = abi::WCONTINUED;
        /// WNOWAIT: the child can be waited for again.
        const NOWAIT = abi::WNOWAIT;
        /// __WNOTHREAD: not the children of other threads; without effect.
        const NOTHREAD = abi::__WNOTHREAD;
        /// __WALL: children of both kinds.
        const ALL = abi::__WALL;
        /// __WCLONE: only children whose exit signal is not SIGCHLD.
        const CLONE = abi::__WCLONE;
    }
}

/// What to wait for.
#[derive(Clone, Copy, Debug)]
pub struct WaitRequest {
    /// Which children.
    pub target: WaitTarget,
    /// Which events, and how.
    pub options: WaitOptions,
}

/// Result of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// The child.
    pub pid: Pid,
    /// Its real user.
    pub uid: u32,
    /// The status word of wait(2).
    pub status: i32,
    /// CLD_*.
    pub code: u32,
    /// Exit status or signal.
    pub number: i32,
    /// CPU time of the child and of its own children.
    pub times: ProcessTimes,
    /// Its largest resident set, in pages.
    pub peak_rss: u64,
    /// Page faults of the child and of its own children.
    pub faults: Faults,
}

impl WaitRequest {
    fn has(&self, option: WaitOptions) -> bool {
        self.options.intersects(option)
    }

    fn accepts(&self, parent: &Process, child: &Process) -> bool {
        let is_clone = child.exit_signal.load(Relaxed) != SIGCHLD;
        let all = self.has(WaitOptions::ALL) || child.tracer.load(Relaxed) == parent.pid();
        let kind = all || is_clone == self.has(WaitOptions::CLONE);
        kind && match self.target {
            WaitTarget::Any => true,
            WaitTarget::Pid(pid) => child.pid() == pid,
            WaitTarget::Group(pgid) => child.pgid() == pgid,
        }
    }

    /// The event to report of a child of `parent`. Another process that traces it hears of its end
    /// first; of stops, its tracer only ([`trace::look`]).
    fn news(&self, parent: &Process, child: &Process) -> Option<News> {
        let take = !self.has(WaitOptions::NOWAIT);
        let tracer = child.tracer.load(Relaxed);
        if child.has_ended() {
            let wanted = self.has(WaitOptions::EXITED) && (tracer == 0 || tracer == parent.pid());
            return wanted.then(|| News::end(child.exit_status()));
        }
        let mut stop = child.stop.lock();
        if self.has(WaitOptions::STOPPED)
            && tracer != parent.pid()
            && let Some(signo) = stop.unreported_stop(take)
        {
            return Some(News::stop(signo, abi::CLD_STOPPED));
        }
        (self.has(WaitOptions::CONTINUED) && stop.unreported_continue(take)).then_some(News {
            status: 0xffff,
            code: abi::CLD_CONTINUED,
            number: SIGCONT,
            is_end: false,
        })
    }
}

/// Waits for a child. `Ok(None)`: WNOHANG and nothing to report. ECHILD: no such child.
pub fn wait_for_child(task: &Task, request: &WaitRequest) -> Result<Option<Waited>> {
    let parent = task.process();
    let look = || match look(parent, request) {
        Ok(None) if !request.has(WaitOptions::NOHANG) => None,
        found => Some(found),
    };
    match parent.child_events.wait(None, look)? {
        Some(found) => found,
        None => unreachable!("a wait without deadline has no time-out"),
    }
}

/// Checks all children and tracees once.
fn look(parent: &Process, request: &WaitRequest) -> Result<Option<Waited>> {
    let (has_children, child) = look_at_children(parent, request);
    if let Some((child, news)) = child {
        return Ok(Some(waited(child.pid(), &child, news)));
    }
    match trace::look(parent, request) {
        (_, Some((task, news))) => Ok(Some(waited(task.tid(), task.process(), news))),
        (false, None) if !has_children => Err(Errno::ECHILD),
        _ => Ok(None),
    }
}

/// Whether there are such children, and one of which there is something to report.
fn look_at_children(
    parent: &Process,
    request: &WaitRequest,
) -> (bool, Option<(Arc<Process>, News)>) {
    let mut children = parent.children.lock();
    let mut any = false;
    for at in 0..children.len() {
        let child = &children[at];
        if !request.accepts(parent, child) {
            continue;
        }
        any = true;
        let Some(news) = request.news(parent, child) else {
            continue;
        };
        let reaped = news.is_end && !request.has(WaitOptions::NOWAIT);
        let child = if reaped {
            children.remove(at)
        } else {
            child.clone()
        };
        drop(children);
        if reaped {
            reap(parent, &child);
        }
        return (true, Some((child, news)));
    }
    (any, None)
}

fn waited(pid: Pid, process: &Process, news: News) -> Waited {
    let (own, children) = process.faults();
    Waited {
        pid,
        uid: process.credentials(|c| c.uid[0]),
        status: news.status,
        code: news.code,
        number: news.number,
        times: process.times(),
        peak_rss: process
            .last_peak_rss
            .load(Relaxed)
            .max(process.children_peak_rss()),
        faults: own + children,
    }
}

/// Frees the zombie, and adds its resource usage to that of its parent's children.
fn reap(parent: &Process, child: &Arc<Process>) {
    trace::forget(child);
    table::remove_process(child.pid());
    let (times, (own, others)) = (child.times(), child.faults());
    let peak = child.last_peak_rss.load(Relaxed);
    let mut past = parent.past_times.lock();
    past.children_user += times.user + times.children_user;
    past.children_system += times.system + times.children_system;
    parent.children_faults.add(own + others);
    let peak = peak.max(child.children_peak_rss());
    parent.children_peak_rss.fetch_max(peak, Relaxed);
}
