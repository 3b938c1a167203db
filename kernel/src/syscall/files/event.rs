//! Counters and timers as files: eventfd2(2), timerfd_create(2) and its relatives.

use super::usable;
use crate::base::clock::epoch;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::kinds::anonymous;
use crate::fs::kinds::eventfd::EventFd;
use crate::fs::kinds::timerfd::{Setting, TimerFd};
use crate::fs::open::ops::FileOps;
use crate::fs::{Fd, OpenFile, OpenFlags};
use crate::process::task::Task;
use crate::sched::timers;
use crate::syscall::door::flag_arguments;
use crate::syscall::time::{Timespec, timespec, timespec_ns};
use alloc::sync::Arc;
use core::any::Any;
use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// EFD_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct EventFlags: u32 {
        /// EFD_SEMAPHORE: each read takes one.
        const SEMAPHORE = c::EFD_SEMAPHORE;
        /// EFD_NONBLOCK.
        const NONBLOCK = c::EFD_NONBLOCK;
        /// EFD_CLOEXEC.
        const CLOEXEC = c::EFD_CLOEXEC;
    }

    /// Flags of timerfd_create(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct TimerFdFlags: u32 {
        /// TFD_NONBLOCK.
        const NONBLOCK = c::TFD_NONBLOCK;
        /// TFD_CLOEXEC.
        const CLOEXEC = c::TFD_CLOEXEC;
    }

    /// Flags of timerfd_settime(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct TimerSetFlags: u32 {
        /// TFD_TIMER_ABSTIME: the first time is one of the clock's, not from now.
        const ABSTIME = c::TFD_TIMER_ABSTIME;
        /// TFD_TIMER_CANCEL_ON_SET, without effect.
        const CANCEL_ON_SET = c::TFD_TIMER_CANCEL_ON_SET;
    }
}

flag_arguments!(EventFlags: invalid, TimerFdFlags: invalid, TimerSetFlags: invalid);

/// Enters such a file. Their flags are open(2)'s bits.
fn install(task: &Task, label: &'static str, ops: Arc<dyn FileOps>, flags: u32) -> Result<u64> {
    let flags = OpenFlags::from_bits_truncate(flags);
    let open = OpenFlags::RDWR | (flags & OpenFlags::NONBLOCK);
    let file = anonymous::open(label, ops, open);
    let close_on_exec = flags.contains(OpenFlags::CLOEXEC);
    Ok(task.files().install(file, close_on_exec)?.to_return())
}

/// eventfd2(2).
pub fn eventfd2(task: &Task, count: u32, flags: EventFlags) -> Result<u64> {
    let event = EventFd::new(count, flags.contains(EventFlags::SEMAPHORE));
    let flags = (flags - EventFlags::SEMAPHORE).bits();
    install(task, "anon_inode:[eventfd]", event, flags)
}

/// eventfd(2).
#[cfg(target_arch = "x86_64")]
pub fn eventfd(task: &Task, count: u32) -> Result<u64> {
    eventfd2(task, count, EventFlags::empty())
}

/// timerfd_create(2).
pub fn timerfd_create(task: &Task, clock: u32, flags: TimerFdFlags) -> Result<u64> {
    let realtime = match clock {
        c::CLOCK_REALTIME | c::CLOCK_REALTIME_ALARM => true,
        c::CLOCK_MONOTONIC | c::CLOCK_BOOTTIME | c::CLOCK_BOOTTIME_ALARM => false,
        _ => return Err(Errno::EINVAL),
    };
    let timer = TimerFd::new(realtime);
    install(task, "anon_inode:[timerfd]", timer, flags.bits())
}

/// `struct itimerspec`: the interval, then the first time.
type TimesPtr = UserPtr<Timespec>;

/// The timer behind a descriptor; EBADF, EINVAL.
fn with_timer<R>(task: &Task, fd: Fd, f: impl FnOnce(&TimerFd) -> R) -> Result<R> {
    let file: Arc<OpenFile> = usable(task, fd)?;
    let ops: &dyn Any = file.ops();
    ops.downcast_ref().map(f).ok_or(Errno::EINVAL)
}

fn write_times(at: TimesPtr, left: Setting) -> Result {
    at.write(&timespec(left.interval))?;
    at.element(1).write(&timespec(left.deadline))
}

/// timerfd_settime(2).
pub fn timerfd_settime(
    task: &Task,
    fd: Fd,
    flags: TimerSetFlags,
    new: TimesPtr,
    old: TimesPtr,
) -> Result<u64> {
    let interval = timespec_ns(&new.read()?)?;
    let first = timespec_ns(&new.element(1).read()?)?;
    let absolute = flags.contains(TimerSetFlags::ABSTIME);
    let before = with_timer(task, fd, |timer| {
        let before = timer.left();
        let deadline = match (first, absolute) {
            (0, _) => 0,
            (_, false) => timers::now().saturating_add(first),
            (_, true) if timer.realtime => first.saturating_sub(epoch()).max(1),
            (_, true) => first,
        };
        timer.set(Setting { deadline, interval });
        before
    })?;
    if old.given().is_some() {
        write_times(old, before)?;
    }
    Ok(0)
}

/// timerfd_gettime(2).
pub fn timerfd_gettime(task: &Task, fd: Fd, into: TimesPtr) -> Result<u64> {
    let left = with_timer(task, fd, TimerFd::left)?;
    write_times(into, left).map(|()| 0)
}
