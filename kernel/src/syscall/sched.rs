//! Scheduling calls. There is one scheduling class.

use crate::base::cpus;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::process::task::{self, Pid, Process, Task};
use crate::sched;
use crate::syscall::time;
use alloc::sync::Arc;
use core::ops::RangeInclusive;
use linux_raw_sys::general as abi;

/// sched_yield(2).
pub fn sched_yield() -> Result<u64> {
    sched::yield_now();
    Ok(0)
}

/// A thread by number, 0 for the caller. ESRCH, EINVAL.
fn thread(tid: Pid) -> Result<Arc<Task>> {
    match tid {
        0 => Ok(task::current()),
        tid @ 1.. => task::find_task(tid).ok_or(Errno::ESRCH),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_getaffinity(2). Returns how many bytes of the mask were written.
pub fn getaffinity(tid: Pid, size: u32, mask: UserPtr<u64>) -> Result<u64> {
    let thread = thread(tid)?;
    if size < 8 || !size.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    mask.write(&(thread.sched.allowed() & sched::online_mask()))?;
    Ok(8)
}

/// sched_setaffinity(2). EINVAL: the mask leaves no CPU that is there.
pub fn setaffinity(tid: Pid, size: u32, mask: UserPtr<u8>) -> Result<u64> {
    let mut bytes = [0; 8];
    let mask = UserBytes {
        first: mask,
        len: u64::from(size),
    };
    mask.read(&mut bytes[..size.min(8) as usize])?;
    let thread = thread(tid)?;
    let cpus = u64::from_le_bytes(bytes) & sched::online_mask();
    if cpus == 0 {
        return Err(Errno::EINVAL);
    }
    sched::bind(&thread, cpus);
    Ok(0)
}

/// sched_getscheduler(2).
pub fn getscheduler(tid: Pid) -> Result<u64> {
    Ok(thread(tid)?.policy().into())
}

/// sched_setscheduler(2): classes that share the CPU fairly. EPERM for the others: they would
/// starve the rest.
pub fn setscheduler(tid: Pid, policy: u32, param: UserPtr<i32>) -> Result<u64> {
    let priority = param.read()?;
    set_class(&*thread(tid)?, policy, priority)
}

fn set_class(thread: &Task, policy: u32, priority: i32) -> Result<u64> {
    match policy & !abi::SCHED_RESET_ON_FORK {
        abi::SCHED_NORMAL | abi::SCHED_BATCH | abi::SCHED_IDLE if priority == 0 => {
            thread.set_policy(policy);
            Ok(0)
        }
        abi::SCHED_FIFO | abi::SCHED_RR if (1..=99).contains(&priority) => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_getparam(2).
pub fn getparam(tid: Pid, param: UserPtr<i32>) -> Result<u64> {
    thread(tid)?;
    param.write(&0)?;
    Ok(0)
}

/// sched_setparam(2).
pub fn setparam(tid: Pid, param: UserPtr<i32>) -> Result<u64> {
    setscheduler(tid, thread(tid)?.policy(), param)
}

/// `struct sched_attr` as its first version has it, in words: size and policy, flags, nice value
/// and priority, and three times of SCHED_DEADLINE.
type Attributes = [u64; 6];
/// Bytes of it.
const ATTRIBUTES: u32 = size_of::<Attributes>() as u32;
/// Bytes that a program may say it has.
const MOST_ATTRIBUTES: u32 = 4096;

/// sched_getattr(2). EINVAL, ESRCH.
pub fn getattr(tid: Pid, into: UserPtr<Attributes>, size: u32, flags: u32) -> Result<u64> {
    if into.given().is_none() || !(ATTRIBUTES..=MOST_ATTRIBUTES).contains(&size) || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let thread = thread(tid)?;
    let policy = u64::from(thread.policy());
    let nice = thread.process().nice() as u32;
    let words = [
        u64::from(ATTRIBUTES) | policy << 32,
        0,
        nice.into(),
        0,
        0,
        0,
    ];
    into.write(&words).map(|()| 0)
}

/// sched_setattr(2), as [`setscheduler`] and [`setpriority`]. E2BIG for a size that is not known.
pub fn setattr(tid: Pid, from: UserPtr<Attributes>, flags: u32) -> Result<u64> {
    if from.given().is_none() || tid < 0 || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let size: u32 = from.field(0).read()?;
    // What later versions add is about classes that are not there.
    if size != 0 && !(ATTRIBUTES..=MOST_ATTRIBUTES).contains(&size) {
        from.field(0).write(&ATTRIBUTES)?;
        return Err(Errno::E2BIG);
    }
    let [head, _, nice_and_priority, ..] = from.read()?;
    let thread = thread(tid)?;
    set_class(
        &thread,
        (head >> 32) as u32,
        (nice_and_priority >> 32) as i32,
    )?;
    thread.process().set_nice(nice_and_priority as i32);
    Ok(0)
}

/// sched_get_priority_max(2).
pub fn priority_max(policy: u32) -> Result<u64> {
    Ok(*priorities(policy)?.end())
}

/// sched_get_priority_min(2).
pub fn priority_min(policy: u32) -> Result<u64> {
    Ok(*priorities(policy)?.start())
}

fn priorities(policy: u32) -> Result<RangeInclusive<u64>> {
    match policy {
        abi::SCHED_FIFO | abi::SCHED_RR => Ok(1..=99),
        abi::SCHED_NORMAL | abi::SCHED_BATCH | abi::SCHED_IDLE | abi::SCHED_DEADLINE => Ok(0..=0),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_rr_get_interval(2).
pub fn rr_get_interval(tid: Pid, into: UserPtr<time::Timespec>) -> Result<u64> {
    thread(tid)?;
    into.write(&time::timespec(sched::SLICE))?;
    Ok(0)
}

/// Calls `f` with each process that getpriority(2) means: one, a group's, a user's. ESRCH.
fn each(task: &Task, which: u32, who: Pid, mut f: impl FnMut(&Process)) -> Result {
    let mut found = false;
    let mut call = |process: Arc<Process>| {
        found = true;
        f(&process);
    };
    match which {
        abi::PRIO_PROCESS if who == 0 => call(task.process().clone()),
        abi::PRIO_PROCESS => {
            let by_thread = || task::find_task(who).map(|task| task.process().clone());
            task::find(who)
                .or_else(by_thread)
                .into_iter()
                .for_each(call)
        }
        abi::PRIO_PGRP if who == 0 => {
            task::in_steps(task::group_members(task.process().pgid())).for_each(call)
        }
        abi::PRIO_PGRP => task::in_steps(task::group_members(who)).for_each(call),
        abi::PRIO_USER => {
            let uid = if who == 0 {
                task.process().credentials(|c| c.uid[0])
            } else {
                who as u32
            };
            let of_user = |process: &Arc<Process>| process.credentials(|c| c.uid[0]) == uid;
            task::in_steps(task::processes())
                .filter(of_user)
                .for_each(call)
        }
        _ => return Err(Errno::EINVAL),
    }
    if found { Ok(()) } else { Err(Errno::ESRCH) }
}

/// getpriority(2): 20 less the lowest nice value, so that it is never negative.
pub fn getpriority(task: &Task, which: u32, who: Pid) -> Result<u64> {
    let mut lowest = i32::MAX;
    each(task, which, who, |process| {
        lowest = lowest.min(process.nice())
    })?;
    Ok((20 - lowest) as u64)
}

/// setpriority(2).
pub fn setpriority(task: &Task, which: u32, who: Pid, nice: i32) -> Result<u64> {
    each(task, which, who, |process| process.set_nice(nice)).map(|()| 0)
}

/// getcpu(2). There is one node.
pub fn getcpu(cpu: UserPtr<u32>, node: UserPtr<u32>) -> Result<u64> {
    cpu.write_given(&(cpus::current() as u32))?;
    node.write_given(&0)?;
    Ok(0)
}
