//! epoll_create1(2), epoll_ctl(2), epoll_wait(2) and their relatives.

use super::poll::set_mask;
use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::kinds::anonymous;
use crate::fs::kinds::epoll::{Epoll, Event, Events, epoll_of};
use crate::fs::open::ops::MOST_QUEUES;
use crate::fs::{Fd, OpenFile, OpenFlags};
use crate::process::signal::SigSet;
use crate::process::task::Task;
use crate::sched;
use crate::sched::timers;
use crate::syscall::door::flag_arguments;
use crate::syscall::time::{Timespec, relative_deadline};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// EPOLL_CLOEXEC.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct EpollFlags: u32 {
        /// O_CLOEXEC.
        const CLOEXEC = c::O_CLOEXEC;
    }
}

flag_arguments!(EpollFlags: invalid);

/// `struct epoll_event` on its way: x86_64's is packed.
const SIZE: u64 = if cfg!(target_arch = "x86_64") { 12 } else { 16 };
/// Where the program's own word stands in it.
const DATA: u64 = SIZE - 8;
/// Events that one call returns at most.
const MOST: i32 = i32::MAX / SIZE as i32;
/// Events that are written between two pauses.
const STEP: usize = 256;

/// Where `struct epoll_event`s are.
pub type EventPtr = UserPtr<u32>;

/// epoll_create1(2).
pub fn epoll_create1(task: &Task, flags: EpollFlags) -> Result<u64> {
    let file = anonymous::open("anon_inode:[eventpoll]", Epoll::new(), OpenFlags::RDWR);
    let close_on_exec = flags.contains(EpollFlags::CLOEXEC);
    Ok(task.files().install(file, close_on_exec)?.to_return())
}

/// epoll_create(2): the size has no meaning, but must be one.
#[cfg(target_arch = "x86_64")]
pub fn epoll_create(task: &Task, size: i32) -> Result<u64> {
    match size {
        1.. => epoll_create1(task, EpollFlags::empty()),
        _ => Err(Errno::EINVAL),
    }
}

fn read_event(at: EventPtr) -> Result<Event> {
    let events = Events::from_bits_retain(at.read()?) | Events::ALWAYS;
    let [low, high]: [u32; 2] = at.field(DATA).read()?;
    Ok(Event {
        events,
        data: u64::from(high) << 32 | u64::from(low),
    })
}

fn write_event(at: EventPtr, event: &Event) -> Result {
    at.write(&event.events.bits())?;
    let data = event.data;
    at.field(DATA).write(&[data as u32, (data >> 32) as u32])
}

/// Whether poll(2) of a file can wait: EPERM.
fn check_pollable(file: &OpenFile) -> Result {
    let mut queues = Vec::new();
    fallible::reserve(&mut queues, MOST_QUEUES)?;
    file.ops().queues(&mut queues);
    match queues.is_empty() {
        true => Err(Errno::EPERM),
        false => Ok(()),
    }
}

/// epoll_ctl(2). EFAULT, EBADF; EPERM: the file is always ready; EINVAL: no set of files, the set
/// itself, no such operation; and those of the operation.
pub fn epoll_ctl(task: &Task, epfd: Fd, operation: u32, fd: Fd, event: EventPtr) -> Result<u64> {
    let event = match operation {
        c::EPOLL_CTL_DEL => None,
        _ => Some(read_event(event)?),
    };
    let (set, file) = (usable(task, epfd)?, usable(task, fd)?);
    check_pollable(&file)?;
    let epoll = epoll_of(&set).filter(|_| !Arc::ptr_eq(&set, &file));
    let epoll = epoll.ok_or(Errno::EINVAL)?;
    match (operation, event) {
        (c::EPOLL_CTL_ADD, Some(event)) => epoll.add(fd, &file, event),
        (c::EPOLL_CTL_MOD, Some(event)) => epoll.change(fd, &file, event),
        (c::EPOLL_CTL_DEL, _) => epoll.remove(fd, &file),
        _ => Err(Errno::EINVAL),
    }?;
    Ok(0)
}

fn wait(task: &Task, epfd: Fd, events: EventPtr, most: i32, deadline: Option<u64>) -> Result<u64> {
    if !(1..=MOST).contains(&most) {
        return Err(Errno::EINVAL);
    }
    let set = usable(task, epfd)?;
    let epoll = epoll_of(&set).ok_or(Errno::EINVAL)?;
    let found = epoll.wait(most as usize, deadline)?;
    for (n, one) in found.iter().enumerate() {
        if let Err(error) = write_event(events.field(n as u64 * SIZE), &one.event) {
            epoll.unread(&found[n..]);
            return if n == 0 { Err(error) } else { Ok(n as u64) };
        }
        if n % STEP == STEP - 1 {
            sched::breathe();
        }
    }
    Ok(found.len() as u64)
}

fn milliseconds(timeout: i32) -> Option<u64> {
    let ms = u64::try_from(timeout).ok()?;
    Some(timers::now().saturating_add(ms * 1_000_000))
}

/// epoll_wait(2): milliseconds, negative for ever.
#[cfg(target_arch = "x86_64")]
pub fn epoll_wait(task: &Task, epfd: Fd, events: EventPtr, most: i32, timeout: i32) -> Result<u64> {
    wait(task, epfd, events, most, milliseconds(timeout))
}

/// epoll_pwait(2).
pub fn epoll_pwait(
    task: &Task,
    epfd: Fd,
    events: EventPtr,
    most: i32,
    timeout: i32,
    mask: UserPtr<SigSet>,
    mask_size: u64,
) -> Result<u64> {
    set_mask(mask, mask_size)?;
    wait(task, epfd, events, most, milliseconds(timeout))
}

/// epoll_pwait2(2): a `struct timespec`.
pub fn epoll_pwait2(
    task: &Task,
    epfd: Fd,
    events: EventPtr,
    most: i32,
    timeout: UserPtr<Timespec>,
    mask: UserPtr<SigSet>,
    mask_size: u64,
) -> Result<u64> {
    let deadline = relative_deadline(task, timeout)?;
    set_mask(mask, mask_size)?;
    wait(task, epfd, events, most, deadline)
}
