//! poll(2): waiting for several files at once. select(2) is in a file of its own.

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserPtr, UserSlice};
use crate::fs::Fd;
use crate::fs::OpenFile;
use crate::fs::caller::open_files_limit;
use crate::fs::open::ops::{MOST_QUEUES, Ready};
use crate::process::signal::{self, SigSet};
use crate::process::task::Task;
use crate::sched;
use crate::sched::timers;
use crate::sched::wait::{self, WaitQueue};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Descriptors that are examined between two pauses.
const STEP: usize = 256;

/// Pauses after descriptor, or word of a set, number `n` of a call, if it is time.
pub(super) fn pause_after(n: usize) {
    if n % STEP == STEP - 1 {
        sched::breathe();
    }
}

/// One file that is waited for.
pub(super) struct Watched {
    /// `None`: an fd that is not open.
    pub(super) file: Option<Arc<OpenFile>>,
    wanted: Ready,
}

impl Watched {
    pub(super) fn new(task: &Task, fd: Fd, wanted: Ready) -> Watched {
        Watched {
            file: task.files().get(fd).ok(),
            wanted,
        }
    }
    /// What is to be reported; errors always are.
    fn ready(&self) -> Ready {
        match &self.file {
            None => Ready::NVAL,
            Some(file) => file.ops().poll() & (self.wanted | Ready::ERR | Ready::HUP),
        }
    }
}

/// Waits until one of the files is ready or the time is over; what each is ready for. ENOMEM.
pub(super) fn wait_for(watched: &[Option<Watched>], deadline: Option<u64>) -> Result<Vec<Ready>> {
    let mut queues: Vec<&WaitQueue> = Vec::new();
    let files = watched.iter().flatten().filter_map(|w| w.file.as_ref());
    for (n, file) in files.enumerate() {
        fallible::reserve(&mut queues, MOST_QUEUES)?;
        file.ops().queues(&mut queues);
        pause_after(n);
    }
    let mut ready = fallible::filled(Ready::empty(), watched.len())?;
    wait::wait_any(&queues, deadline, || {
        for (n, (ready, watched)) in ready.iter_mut().zip(watched).enumerate() {
            *ready = watched.as_ref().map_or(Ready::empty(), Watched::ready);
            pause_after(n);
        }
        ready.iter().any(|r| !r.is_empty()).then_some(())
    })?;
    Ok(ready)
}

/// struct pollfd.
#[derive(Clone, Copy)]
struct PollFd {
    fd: Fd,
    events: u16,
}

impl PollFd {
    fn watch(&self, task: &Task) -> Option<Watched> {
        let wanted = Ready::from_bits_truncate(self.events);
        (self.fd.0 >= 0).then(|| Watched::new(task, self.fd, wanted))
    }
}

/// `struct pollfd`: descriptor, events (2 bytes), answer (2 bytes).
pub type PollFdWord = u64;
/// Where the answer stands in it.
const ANSWER: u64 = 6;

fn read_poll_fds(list: UserSlice<PollFdWord>) -> Result<Vec<PollFd>> {
    if list.len > open_files_limit() as u64 {
        return Err(Errno::EINVAL);
    }
    let mut fds = Vec::new();
    fallible::reserve(&mut fds, list.len as usize)?;
    for (n, element) in list.elements().enumerate() {
        let word = element.read()?;
        fds.push(PollFd {
            fd: word.into(),
            events: (word >> 32) as u16,
        });
        pause_after(n);
    }
    Ok(fds)
}

pub(super) fn watch_each(
    count: usize,
    watch: impl Fn(usize) -> Option<Watched>,
) -> Result<Vec<Option<Watched>>> {
    let watch = |n| {
        pause_after(n);
        watch(n)
    };
    Ok(fallible::collect((0..count).map(watch))?)
}

/// Drops what was waited for: a file may have been closed meanwhile.
pub(super) fn let_go(mut watched: Vec<Option<Watched>>) {
    while let Some(last) = watched.pop() {
        drop(last);
        pause_after(watched.len());
    }
}

fn poll_until(task: &Task, list: UserSlice<PollFdWord>, deadline: Option<u64>) -> Result<u64> {
    let fds = read_poll_fds(list)?;
    let watched = watch_each(fds.len(), |n| fds[n].watch(task))?;
    let ready = wait_for(&watched, deadline);
    let_go(watched);
    let ready = ready?;
    for (n, (element, ready)) in list.elements().zip(&ready).enumerate() {
        element.field(ANSWER).write(&ready.bits())?;
        pause_after(n);
    }
    Ok(ready.iter().filter(|r| !r.is_empty()).count() as u64)
}

/// poll(2): milliseconds, negative for ever.
#[cfg(target_arch = "x86_64")]
pub fn poll(task: &Task, list: UserSlice<PollFdWord>, timeout: i32) -> Result<u64> {
    let deadline = u64::try_from(timeout)
        .ok()
        .map(|ms| timers::now().saturating_add(ms * 1_000_000));
    poll_until(task, list, deadline)
}

/// ppoll(2).
pub fn ppoll(
    task: &Task,
    list: UserSlice<PollFdWord>,
    timeout: UserPtr<TimeWords>,
    mask: UserPtr<SigSet>,
    mask_size: u64,
) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1)?;
    set_mask(mask, mask_size)?;
    let result = poll_until(task, list, deadline.at);
    deadline.write_left();
    result
}

pub(super) fn set_mask(mask: UserPtr<SigSet>, size: u64) -> Result {
    if let Some(mask) = mask.given() {
        if size != size_of::<SigSet>() as u64 {
            return Err(Errno::EINVAL);
        }
        signal::set_temporary_mask(mask.read()?);
    }
    Ok(())
}

/// `struct timespec` or `struct timeval`: seconds, and a fraction.
pub type TimeWords = [i64; 2];

/// A time-out argument, which the call updates with what is left of it.
pub(super) struct Deadline {
    pub(super) at: Option<u64>,
    pointer: UserPtr<TimeWords>,
    /// Nanoseconds in the second word's unit: 1 for timespec, 1000 for timeval.
    unit: u64,
}

impl Deadline {
    pub(super) fn read(pointer: UserPtr<TimeWords>, unit: u64) -> Result<Deadline> {
        if pointer.given().is_none() {
            return Ok(Deadline {
                at: None,
                pointer,
                unit,
            });
        }
        let [seconds, rest] = pointer.read()?;
        // timeval's microseconds may be more than a second; timespec's nanoseconds may not.
        if seconds < 0 || rest < 0 || (unit == 1 && rest >= 1_000_000_000) {
            return Err(Errno::EINVAL);
        }
        let nanos = (seconds as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add((rest as u64).saturating_mul(unit));
        Ok(Deadline {
            at: Some(timers::now().saturating_add(nanos)),
            pointer,
            unit,
        })
    }
    /// As in Linux, memory that cannot be written does not make the call fail.
    pub(super) fn write_left(&self) {
        if let Some(at) = self.at {
            let left = at.saturating_sub(timers::now());
            let (seconds, rest) = (left / 1_000_000_000, left % 1_000_000_000);
            let _ = self
                .pointer
                .write(&[seconds as i64, (rest / self.unit) as i64]);
        }
    }
}
