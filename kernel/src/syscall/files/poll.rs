//! poll, select: waiting for several files at once.

use crate::errno::{Errno, Result};
use crate::fs::OpenFile;
use crate::fs::file::Ready;
use crate::fs::process::open_files_limit;
use crate::signal;
use crate::task::Task;
use crate::timers;
use crate::uaccess;
use crate::wait::{self, WaitQueue};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

/// One file that is waited for.
struct Watched {
    /// `None`: an fd that is not open.
    file: Option<Arc<OpenFile>>,
    wanted: Ready,
}

impl Watched {
    fn new(task: &Task, fd: i32, wanted: Ready) -> Watched {
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

/// Waits until one of the files is ready or the time is over; what each is ready for.
fn wait_for(watched: &[Option<Watched>], deadline: Option<u64>) -> Result<Vec<Ready>> {
    let mut queues: Vec<&WaitQueue> = Vec::new();
    for file in watched.iter().flatten().filter_map(|w| w.file.as_ref()) {
        file.ops().queues(&mut queues);
    }
    let look = || -> Vec<Ready> {
        watched
            .iter()
            .map(|w| w.as_ref().map_or(Ready::empty(), Watched::ready))
            .collect()
    };
    let ready = wait::wait_any(&queues, deadline, || {
        Some(look()).filter(|all| all.iter().any(|r| !r.is_empty()))
    })?;
    Ok(ready.unwrap_or_else(|| vec![Ready::empty(); watched.len()]))
}

/// struct pollfd.
#[derive(Clone, Copy)]
struct PollFd {
    fd: i32,
    events: u16,
}

fn read_poll_fds(at: u64, count: u64) -> Result<Vec<PollFd>> {
    if count > open_files_limit() as u64 {
        return Err(Errno::EINVAL);
    }
    (0..count)
        .map(|i| {
            let word: u64 = uaccess::read(at + 8 * i)?;
            Ok(PollFd {
                fd: word as i32,
                events: (word >> 32) as u16,
            })
        })
        .collect()
}

fn poll_until(task: &Task, at: u64, count: u64, deadline: Option<u64>) -> Result<u64> {
    let fds = read_poll_fds(at, count)?;
    let watch = |fd: &PollFd| {
        (fd.fd >= 0).then(|| Watched::new(task, fd.fd, Ready::from_bits_truncate(fd.events)))
    };
    let watched: Vec<_> = fds.iter().map(watch).collect();
    let ready = wait_for(&watched, deadline)?;
    for (i, ready) in (0..).zip(&ready) {
        uaccess::write(at + 8 * i + 6, &ready.bits())?;
    }
    Ok(ready.iter().filter(|r| !r.is_empty()).count() as u64)
}

/// poll(2): milliseconds, negative for ever.
#[cfg(target_arch = "x86_64")]
pub fn poll(task: &Task, at: u64, count: u64, timeout: i32) -> Result<u64> {
    let deadline = u64::try_from(timeout)
        .ok()
        .map(|ms| timers::now().saturating_add(ms * 1_000_000));
    poll_until(task, at, count, deadline)
}

/// ppoll(2).
pub fn ppoll(
    task: &Task,
    at: u64,
    count: u64,
    timeout: u64,
    mask: u64,
    mask_size: u64,
) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1)?;
    set_mask(mask, mask_size)?;
    let result = poll_until(task, at, count, deadline.at);
    deadline.write_left();
    result
}

fn set_mask(mask: u64, size: u64) -> Result {
    if mask != 0 {
        if size != 8 {
            return Err(Errno::EINVAL);
        }
        signal::set_temporary_mask(uaccess::read(mask)?);
    }
    Ok(())
}

/// A time-out argument, which the call updates with what is left of it.
struct Deadline {
    at: Option<u64>,
    pointer: u64,
    /// Nanoseconds in the second word's unit: 1 for timespec, 1000 for timeval.
    unit: u64,
}

impl Deadline {
    fn read(pointer: u64, unit: u64) -> Result<Deadline> {
        if pointer == 0 {
            return Ok(Deadline {
                at: None,
                pointer,
                unit,
            });
        }
        let [seconds, rest]: [i64; 2] = uaccess::read(pointer)?;
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
    fn write_left(&self) {
        if let Some(at) = self.at {
            let left = at.saturating_sub(timers::now());
            let _ = uaccess::write(
                self.pointer,
                &[left / 1_000_000_000, left % 1_000_000_000 / self.unit],
            );
        }
    }
}

/// The three sets of select, and what each asks poll for and takes as an answer.
const SETS: [(Ready, Ready); 3] = [
    (Ready::IN, Ready::IN.union(Ready::HUP).union(Ready::ERR)),
    (Ready::OUT, Ready::OUT.union(Ready::ERR)),
    (Ready::PRI, Ready::PRI),
];

fn select_until(task: &Task, count: u64, sets: [u64; 3], deadline: Option<u64>) -> Result<u64> {
    let count = usize::try_from(count as i32)
        .map_err(|_| Errno::EINVAL)?
        .min(open_files_limit());
    let words = count.div_ceil(64);
    let mut bits = [const { Vec::new() }; 3];
    for (bits, at) in bits.iter_mut().zip(sets) {
        for i in 0..words {
            bits.push(if at == 0 {
                0
            } else {
                uaccess::read::<u64>(at + (i * size_of::<u64>()) as u64)?
            });
        }
    }
    let wants = |set: usize, fd: usize| bits[set][fd / 64] >> (fd % 64) & 1 != 0;
    let mut watched = Vec::new();
    for fd in 0..count {
        let wanted = (0..3)
            .filter(|set| wants(*set, fd))
            .fold(Ready::empty(), |all, set| all | SETS[set].0);
        watched.push((!wanted.is_empty()).then(|| Watched::new(task, fd as i32, wanted)));
    }
    if watched.iter().flatten().any(|w| w.file.is_none()) {
        return Err(Errno::EBADF);
    }
    let ready = wait_for(&watched, deadline)?;
    let mut total = 0;
    for set in 0..3 {
        let mut out = vec![0u64; words];
        for (fd, ready) in ready.iter().enumerate() {
            if wants(set, fd) && ready.intersects(SETS[set].1) {
                out[fd / 64] |= 1 << (fd % 64);
                total += 1;
            }
        }
        if sets[set] != 0 {
            for (i, word) in out.iter().enumerate() {
                uaccess::write(sets[set] + (i * size_of::<u64>()) as u64, word)?;
            }
        }
    }
    Ok(total)
}

/// select(2).
#[cfg(target_arch = "x86_64")]
pub fn select(task: &Task, count: u64, sets: [u64; 3], timeout: u64) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1000)?;
    let result = select_until(task, count, sets, deadline.at);
    deadline.write_left();
    result
}

/// pselect(2): the last argument points to the mask and its size.
pub fn pselect(task: &Task, args: &[u64; 6]) -> Result<u64> {
    let [count, read, write, except, timeout, mask] = *args;
    let deadline = Deadline::read(timeout, 1)?;
    if mask != 0 {
        let [pointer, size]: [u64; 2] = uaccess::read(mask)?;
        set_mask(pointer, size)?;
    }
    let result = select_until(task, count, [read, write, except], deadline.at);
    deadline.write_left();
    result
}
