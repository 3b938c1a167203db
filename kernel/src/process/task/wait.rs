//! Waiting for children: wait4 and waitid.

use super::exit::exit_code;
use super::{Pid, Process, ProcessTimes, Task, table};
use crate::base::errno::{Errno, Result};
use crate::process::signal::{SIGCHLD, SIGCONT};
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
    pub faults: u64,
}

impl WaitRequest {
    fn has(&self, option: WaitOptions) -> bool {
        self.options.intersects(option)
    }

    fn accepts(&self, child: &Process) -> bool {
        let is_clone = child.exit_signal.load(Relaxed) != SIGCHLD;
        let kind = self.has(WaitOptions::ALL) || is_clone == self.has(WaitOptions::CLONE);
        kind && match self.target {
            WaitTarget::Any => true,
            WaitTarget::Pid(pid) => child.pid() == pid,
            WaitTarget::Group(pgid) => child.pgid() == pgid,
        }
    }

    /// The event to report of a child: status, code, number, and whether it is its end.
    fn news(&self, child: &Process) -> Option<(i32, u32, i32, bool)> {
        let take = !self.has(WaitOptions::NOWAIT);
        if child.has_ended() {
            let status = child.exit_status();
            let (code, number) = exit_code(status);
            return self
                .has(WaitOptions::EXITED)
                .then_some((status, code, number, true));
        }
        let mut trace = child.trace.lock();
        if let Some(code) = trace.unreported(take) {
            return Some((code << 8 | 0x7f, abi::CLD_TRAPPED, code, false));
        }
        let traced = trace.is_on();
        drop(trace);
        let mut stop = child.stop.lock();
        if (self.has(WaitOptions::STOPPED) || traced)
            && let Some(signo) = stop.unreported_stop(take)
        {
            return Some((signo << 8 | 0x7f, abi::CLD_STOPPED, signo, false));
        }
        (self.has(WaitOptions::CONTINUED) && stop.unreported_continue(take)).then_some((
            0xffff,
            abi::CLD_CONTINUED,
            SIGCONT,
            false,
        ))
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

/// Checks all children once.
fn look(parent: &Process, request: &WaitRequest) -> Result<Option<Waited>> {
    let mut children = parent.children.lock();
    let mut any = false;
    for at in 0..children.len() {
        let child = &children[at];
        if !request.accepts(child) {
            continue;
        }
        any = true;
        let Some((status, code, number, is_end)) = request.news(child) else {
            continue;
        };
        let reaped = is_end && !request.has(WaitOptions::NOWAIT);
        let child = if reaped {
            children.remove(at)
        } else {
            child.clone()
        };
        drop(children);
        let waited = Waited {
            pid: child.pid(),
            uid: child.credentials(|c| c.uid[0]),
            status,
            code,
            number,
            times: child.times(),
            peak_rss: child
                .last_peak_rss
                .load(Relaxed)
                .max(child.children_peak_rss()),
            faults: child.faults().0 + child.faults().1,
        };
        if reaped {
            reap(parent, &waited);
        }
        return Ok(Some(waited));
    }
    if any { Ok(None) } else { Err(Errno::ECHILD) }
}

/// Frees the zombie, and adds its resource usage to that of its parent's children.
fn reap(parent: &Process, child: &Waited) {
    table::remove_process(child.pid);
    let mut past = parent.past_times.lock();
    past.children_user += child.times.user + child.times.children_user;
    past.children_system += child.times.system + child.times.children_system;
    parent.children_faults.fetch_add(child.faults, Relaxed);
    parent.children_peak_rss.fetch_max(child.peak_rss, Relaxed);
}
