//! wait4(2) and waitid(2).

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::Fd;
use crate::process::pidfd;
use crate::process::task::{self, Pid, Task, WaitOptions, WaitRequest, WaitTarget, Waited};
use crate::syscall::door::only;
use crate::syscall::usage::{ResourceUsage, Rusage};
use linux_raw_sys::general as abi;

super::super::door::flag_arguments!(WaitOptions: kept);

/// Options that choose kinds of children.
const KINDS: WaitOptions = WaitOptions::NOTHREAD
    .union(WaitOptions::ALL)
    .union(WaitOptions::CLONE);

/// wait4(2).
pub fn wait4(
    task: &Task,
    pid: Pid,
    status: UserPtr<i32>,
    options: WaitOptions,
    usage: UserPtr<Rusage>,
) -> Result<u64> {
    let known = WaitOptions::NOHANG | WaitOptions::STOPPED | WaitOptions::CONTINUED | KINDS;
    let options = only(options, known)?;
    let target = match pid {
        Pid::MIN => return Err(Errno::ESRCH),
        -1 => WaitTarget::Any,
        0 => WaitTarget::Group(task.process().pgid()),
        pid @ 1.. => WaitTarget::Pid(pid),
        group => WaitTarget::Group(-group),
    };
    let request = WaitRequest {
        target,
        options: options | WaitOptions::EXITED,
    };
    let Some(waited) = task::wait_for_child(task, &request)? else {
        return Ok(0);
    };
    status.write_given(&waited.status)?;
    write_usage(usage, &waited)?;
    Ok(waited.pid as u64)
}

/// The child's resource usage, to where wait4 and waitid want it (null: nowhere).
fn write_usage(into: UserPtr<Rusage>, waited: &Waited) -> Result {
    let Some(into) = into.given() else {
        return Ok(());
    };
    let times = &waited.times;
    let usage = ResourceUsage {
        user: times.user + times.children_user,
        system: times.system + times.children_system,
        peak_rss: waited.peak_rss,
        faults: waited.faults,
        switches: (0, 0),
    };
    usage.write(into)
}

/// waitid(2).
pub fn waitid(
    task: &Task,
    kind: u32,
    id: Pid,
    info: UserPtr<i32>,
    options: WaitOptions,
    usage: UserPtr<Rusage>,
) -> Result<u64> {
    let events = WaitOptions::EXITED | WaitOptions::STOPPED | WaitOptions::CONTINUED;
    let known = events | WaitOptions::NOHANG | WaitOptions::NOWAIT | KINDS;
    if !only(options, known)?.intersects(events) {
        return Err(Errno::EINVAL);
    }
    let target = match kind {
        abi::P_ALL => WaitTarget::Any,
        abi::P_PID if id > 0 => WaitTarget::Pid(id),
        abi::P_PGID if id == 0 => WaitTarget::Group(task.process().pgid()),
        abi::P_PGID if id > 0 => WaitTarget::Group(id),
        abi::P_PIDFD => WaitTarget::Pid(pidfd::process(task, Fd(id))?.pid()),
        _ => return Err(Errno::EINVAL),
    };
    let waited = task::wait_for_child(task, &WaitRequest { target, options })?;
    if let Some(waited) = &waited {
        write_usage(usage, waited)?;
    }
    if let Some(info) = info.given() {
        write_info(info, waited.as_ref())?;
    }
    Ok(0)
}

/// Writes SIGCHLD's siginfo, of which waitid fills six fields; zeros when there is no event.
fn write_info(words: UserPtr<i32>, waited: Option<&Waited>) -> Result {
    let values: [i32; 7] = waited.map_or([0; 7], |w| {
        [
            crate::process::signal::SIGCHLD,
            0,
            w.code as i32,
            0,
            w.pid,
            w.uid as i32,
            w.number,
        ]
    });
    for (n, value) in (0..).zip(&values).filter(|(n, _)| *n != 3) {
        words.element(n).write(value)?;
    }
    Ok(())
}
