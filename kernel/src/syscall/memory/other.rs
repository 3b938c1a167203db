//! Calls on the memory of another process: process_madvise(2), process_mrelease(2).

use super::{advise, userfault};
use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::base::user_ptr::UserSlice;
use crate::fs::Fd;
use crate::fs::open::io::IoVec;
use crate::process::pidfd;
use crate::process::signal;
use crate::process::task::{self, Process, Task};
use crate::sched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as abi;
use mm::Advice;
use mm::addr::VirtAddr;

/// A pidfd, or a number that stands for the caller.
fn process(task: &Task, fd: Fd) -> Result<Arc<Process>> {
    match fd.0 {
        PIDFD_SELF_THREAD | PIDFD_SELF_THREAD_GROUP => Ok(task.process().clone()),
        _ => pidfd::process(task, fd),
    }
}

/// PIDFD_SELF_THREAD and PIDFD_SELF_THREAD_GROUP of pidfd.h: newer than the headers in use.
const PIDFD_SELF_THREAD: i32 = -10000;
const PIDFD_SELF_THREAD_GROUP: i32 = -20000;

/// Reads a list of ranges of another process. EINVAL: more than 1024, or one that is too long.
pub(super) fn ranges(list: UserSlice<IoVec>) -> Result<Vec<IoVec>> {
    if list.len > u64::from(abi::UIO_MAXIOV) {
        return Err(Errno::EINVAL);
    }
    let mut ranges = fallible::filled([0; 2], list.len as usize)?;
    for (range, element) in ranges.iter_mut().zip(list.elements()) {
        *range = element.read()?;
        if range[1] > isize::MAX as u64 {
            return Err(Errno::EINVAL);
        }
    }
    Ok(ranges)
}

/// process_madvise(2): how many bytes were advised before the first range that is refused; its
/// error when it is the first of all. EINVAL: for another process, advice that could change what it
/// reads.
pub fn process_madvise(
    task: &Task,
    fd: Fd,
    list: UserSlice<IoVec>,
    advice: u32,
    flags: u32,
) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let ranges = ranges(list)?;
    let process = process(task, fd)?;
    let space = process.space.get().ok_or(Errno::ESRCH)?;
    let advice = Advice::from_repr(advice).ok_or(Errno::EINVAL)?;
    let own = task.space.with(|own| own.is(&space)) == Some(true);
    if !own {
        may_advise(task, advice)?;
    }
    let told = own && userfault::are_told();
    advise_all(task, &space, &ranges, advice, told)
}

/// EINVAL for advice that could change what another process reads; EPERM unless the caller is root.
fn may_advise(task: &Task, advice: Advice) -> Result {
    use Advice::{Cold, Collapse, PageOut, WillNeed};
    if !matches!(advice, Cold | PageOut | WillNeed | Collapse) {
        return Err(Errno::EINVAL);
    }
    match task.process().credentials(|c| c.euid()) {
        0 => Ok(()),
        _ => Err(Errno::EPERM),
    }
}

/// `told`: it is the caller's own memory, and monitors are told of what is dropped.
fn advise_all(
    task: &Task,
    space: &AddressSpace,
    ranges: &[IoVec],
    advice: Advice,
    told: bool,
) -> Result<u64> {
    let mut done = 0;
    for &[start, len] in ranges {
        if told {
            userfault::removing(task, VirtAddr(start), len, advice)?;
        }
        match advise(task, space, VirtAddr(start), len, advice) {
            Err(why) if done == 0 => return Err(why),
            Err(_) => break,
            Ok(()) => done += len,
        }
        if sched::breathe() {
            break;
        }
    }
    Ok(done)
}

/// process_mrelease(2): returns when the memory of a process that ends is free. EINVAL: it does not
/// end; ESRCH: it has no memory any more.
pub fn process_mrelease(task: &Task, fd: Fd, flags: u32) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let process = process(task, fd)?;
    if !process.has_memory() {
        return Err(Errno::ESRCH);
    }
    if !process.threads().all(|thread| signal::is_killed(&thread)) {
        return Err(Errno::EINVAL);
    }
    // Its threads free it as they end, and nothing keeps them from it.
    task::MEMORY_IS_BACK.wait_killable(|| (!process.has_memory()).then_some(()))?;
    Ok(0)
}
