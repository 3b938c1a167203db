//! poll(2) and select(2): waiting for several files at once.

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserPtr, UserSlice};
use crate::fs::Fd;
use crate::fs::OpenFile;
use crate::fs::caller::open_files_limit;
use crate::fs::open::file::{MOST_QUEUES, Ready};
use crate::process::signal::{self, SigSet};
use crate::process::task::Task;
use crate::sched;
use crate::sched::timers;
use crate::sched::wait::{self, WaitQueue};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Descriptors that are looked at before others run.
const STEP: usize = 256;

/// After descriptor, or word of a set, number `n` of a call's: lets others in, if it is their turn.
fn pause_after(n: usize) {
    if n % STEP == STEP - 1 {
        sched::breathe();
    }
}

/// One file that is waited for.
struct Watched {
    /// `None`: an fd that is not open.
    file: Option<Arc<OpenFile>>,
    wanted: Ready,
}

impl Watched {
    fn new(task: &Task, fd: Fd, wanted: Ready) -> Watched {
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
fn wait_for(watched: &[Option<Watched>], deadline: Option<u64>) -> Result<Vec<Ready>> {
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

fn watch_each(
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
fn let_go(mut watched: Vec<Option<Watched>>) {
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

fn set_mask(mask: UserPtr<SigSet>, size: u64) -> Result {
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
struct Deadline {
    at: Option<u64>,
    pointer: UserPtr<TimeWords>,
    /// Nanoseconds in the second word's unit: 1 for timespec, 1000 for timeval.
    unit: u64,
}

impl Deadline {
    fn read(pointer: UserPtr<TimeWords>, unit: u64) -> Result<Deadline> {
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
    fn write_left(&self) {
        if let Some(at) = self.at {
            let left = at.saturating_sub(timers::now());
            let (seconds, rest) = (left / 1_000_000_000, left % 1_000_000_000);
            let _ = self
                .pointer
                .write(&[seconds as i64, (rest / self.unit) as i64]);
        }
    }
}

/// The three sets of select, and what each asks poll for and takes as an answer.
const SETS: [(Ready, Ready); 3] = [
    (Ready::IN, Ready::IN.union(Ready::HUP).union(Ready::ERR)),
    (Ready::OUT, Ready::OUT.union(Ready::ERR)),
    (Ready::PRI, Ready::PRI),
];

/// Where a set of descriptors stands in the caller's memory, 64 in a word.
type SetPtr = UserPtr<u64>;

/// The set of the descriptors below `count`; empty for a null pointer.
fn read_set(at: SetPtr, count: usize) -> Result<Vec<u64>> {
    let mut set = fallible::filled(0, count.div_ceil(64))?;
    if at.given().is_some() {
        for (n, word) in (0..).zip(&mut set) {
            *word = at.element(n).read()?;
            pause_after(n as usize);
        }
    }
    if let Some(last) = set.last_mut() {
        *last &= u64::MAX >> (count.wrapping_neg() % 64);
    }
    Ok(set)
}

fn write_set(at: SetPtr, set: &[u64]) -> Result {
    if at.given().is_some() {
        for (n, word) in (0..).zip(set) {
            at.element(n).write(word)?;
            pause_after(n as usize);
        }
    }
    Ok(())
}

fn has(set: &[u64], fd: usize) -> bool {
    set[fd / 64] >> (fd % 64) & 1 != 0
}

fn select_until(task: &Task, count: i32, sets: [SetPtr; 3], deadline: Option<u64>) -> Result<u64> {
    let count = usize::try_from(count)
        .map_err(|_| Errno::EINVAL)?
        .min(open_files_limit());
    let mut bits = [const { Vec::new() }; 3];
    for (bits, at) in bits.iter_mut().zip(sets) {
        *bits = read_set(at, count)?;
    }
    let watch = |fd: usize| {
        let wanted = (0..3)
            .filter(|set| has(&bits[*set], fd))
            .fold(Ready::empty(), |all, set| all | SETS[set].0);
        (!wanted.is_empty()).then(|| Watched::new(task, Fd(fd as i32), wanted))
    };
    let watched = watch_each(count, watch)?;
    let ready = match watched.iter().flatten().any(|w| w.file.is_none()) {
        true => Err(Errno::EBADF),
        false => wait_for(&watched, deadline),
    };
    let_go(watched);
    let ready = ready?;
    let mut total = 0;
    for ((set, at), (_, answer)) in bits.iter_mut().zip(sets).zip(SETS) {
        for (fd, ready) in ready.iter().enumerate() {
            if !ready.intersects(answer) {
                set[fd / 64] &= !(1 << (fd % 64));
            }
            pause_after(fd);
        }
        total += set
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum::<u64>();
        write_set(at, set)?;
    }
    Ok(total)
}

/// select(2).
#[cfg(target_arch = "x86_64")]
pub fn select(
    task: &Task,
    count: i32,
    read: SetPtr,
    write: SetPtr,
    except: SetPtr,
    timeout: UserPtr<TimeWords>,
) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1000)?;
    let result = select_until(task, count, [read, write, except], deadline.at);
    deadline.write_left();
    result
}

/// pselect(2): the last argument points to the mask and its size.
pub fn pselect(
    task: &Task,
    count: i32,
    read: SetPtr,
    write: SetPtr,
    except: SetPtr,
    timeout: UserPtr<TimeWords>,
    mask: UserPtr<[u64; 2]>,
) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1)?;
    if let Some(mask) = mask.given() {
        let [pointer, size] = mask.read()?;
        set_mask(pointer.into(), size)?;
    }
    let result = select_until(task, count, [read, write, except], deadline.at);
    deadline.write_left();
    result
}
