//! The ioctls of a userfaultfd, ioctl_userfaultfd(2).

use super::{Features, Monitor};
use crate::arch::pte::Format;
use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{AddressSpace, mm};
use crate::base::uaccess;
use crate::base::user_ptr::UserPtr;
use crate::fs::caller::Frames;
use crate::process::task;
use crate::sched;
use core::sync::atomic::Ordering::Relaxed;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::vma::VmaFlags;
use mm::{Content, Filling, Registration};

/// The numbers of `_IOWR(0xaa, ..)` and its like.
const API: u32 = 0xc018_aa3f;
const REGISTER: u32 = 0xc020_aa00;
const UNREGISTER: u32 = 0x8010_aa01;
const WAKE: u32 = 0x8010_aa02;
const COPY: u32 = 0xc028_aa03;
const ZEROPAGE: u32 = 0xc020_aa04;
const MOVE: u32 = 0xc028_aa05;
const WRITEPROTECT: u32 = 0xc018_aa06;
const CONTINUE: u32 = 0xc020_aa07;
const POISON: u32 = 0xc020_aa08;

/// UFFD_API, the version.
const VERSION: u64 = 0xaa;
/// A bit for the number of each ioctl: of any file, and of a registered range.
const IOCTLS: u64 = 1 << 0x3f | 1 << 0 | 1 << 1;
const RANGE_IOCTLS: u64 = 1 << 2 | 1 << 3 | 1 << 8;
/// Of a range of single pages besides.
const PAGE_IOCTLS: u64 = 1 << 4 | 1 << 5;
const IOCTL_WRITEPROTECT: u64 = 1 << 6;
const IOCTL_CONTINUE: u64 = 1 << 7;

bitflags::bitflags! {
    /// UFFDIO_REGISTER_MODE_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Modes: u64 {
        const MISSING = 1;
        const WP = 2;
        const MINOR = 4;
    }
}

/// UFFDIO_*_MODE_DONTWAKE of what fills pages, and the other bit of those that may protect them.
const DONTWAKE: u64 = 1;
const AND_PROTECT: u64 = 2;
/// UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES.
const ALLOW_HOLES: u64 = 2;
/// UFFDIO_WRITEPROTECT_MODE_*.
const PROTECT: u64 = 1;
const PROTECT_DONTWAKE: u64 = 2;

/// One ioctl, again when nothing was done for want of memory and some has come. EINVAL: UFFDIO_API
/// was not called, or was already.
pub fn ioctl(monitor: &Monitor, command: u32, argument: u64) -> Result<u64> {
    let mut attempt = 0;
    loop {
        let stalls = mm().stalls();
        let result = once(monitor, command, argument);
        if result != Err(Errno::ENOMEM) || !Above::come(stalls, attempt) {
            return result;
        }
        attempt += 1;
    }
}

fn once(monitor: &Monitor, command: u32, argument: u64) -> Result<u64> {
    let at = UserPtr::<u64>::from(argument);
    if command != API && !monitor.features().contains(Features::READY) {
        return Err(Errno::EINVAL);
    }
    check_unchanged(monitor, command, at)?;
    match command {
        API => api(monitor, at),
        REGISTER => register(monitor, at),
        UNREGISTER => unregister(monitor, at),
        WAKE => {
            monitor.wake(pages(at.read()?, at.element(1).read()?)?);
            Ok(0)
        }
        COPY => copy(monitor, at),
        ZEROPAGE => fill(monitor, at, Content::Zeros, DONTWAKE),
        CONTINUE => fill(monitor, at, Content::Object, DONTWAKE | AND_PROTECT),
        POISON => fill(monitor, at, Content::Poison, DONTWAKE),
        WRITEPROTECT => write_protect(monitor, at),
        MOVE => move_pages(monitor, at),
        _ => Err(Errno::EINVAL),
    }
}

/// Whole pages of user memory; EINVAL.
fn pages(start: u64, len: u64) -> Result<VirtRange> {
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    let whole = (start | len).is_multiple_of(PAGE_SIZE);
    match len != 0 && whole && end <= Format::USER_END.0 {
        true => Ok(VirtRange::new(VirtAddr(start), VirtAddr(end))),
        false => Err(Errno::EINVAL),
    }
}

/// Calls `f` with the memory that the monitor is about; ESRCH once that is no more.
fn in_space<R>(monitor: &Monitor, f: impl FnOnce(&AddressSpace) -> Result<R>) -> Result<R> {
    let space = monitor.space.upgrade().ok_or(Errno::ESRCH)?;
    f(&space)
}

/// While the memory changes and the monitor has not been told yet, nothing is filled or protected:
/// EAGAIN, also where the bytes done go.
fn check_unchanged(monitor: &Monitor, command: u32, at: UserPtr<u64>) -> Result {
    let done = match command {
        COPY | MOVE => Some(4),
        ZEROPAGE | CONTINUE | POISON => Some(3),
        WRITEPROTECT => None,
        _ => return Ok(()),
    };
    if !monitor.is_changing() {
        return Ok(());
    }
    if let Some(done) = done {
        at.element(done).write(&Errno::EAGAIN.to_return())?;
    }
    Err(Errno::EAGAIN)
}

/// UFFDIO_MOVE: `struct uffdio_move` is target, source, length, mode, bytes done.
fn move_pages(monitor: &Monitor, at: UserPtr<u64>) -> Result<u64> {
    let (source, len) = (at.element(1).read()?, at.element(2).read()?);
    let (to, from) = (pages(at.read()?, len)?, pages(source, len)?);
    let mode = at.element(3).read()?;
    if mode & !(DONTWAKE | ALLOW_HOLES) != 0 {
        return Err(Errno::EINVAL);
    }
    let done = in_space(monitor, |space| {
        let mut done = 0;
        while done < len {
            let rest = VirtRange::new(from.start + done, from.end);
            let holes = mode & ALLOW_HOLES != 0;
            match space.userfault_move(to.start + done, rest, monitor.number, holes) {
                Ok(moved) => done += moved,
                Err(why) if done == 0 => return Ok(Err(why.into())),
                Err(_) => break,
            }
            if sched::breathe() {
                break;
            }
        }
        Ok(Ok(done))
    })
    .unwrap_or_else(Err);
    finish(monitor, to, done, mode, at.element(4))
}

/// UFFDIO_API: `struct uffdio_api` is the version, features, ioctls. All three are 0 afterwards if
/// it is refused.
fn api(monitor: &Monitor, at: UserPtr<u64>) -> Result<u64> {
    let (version, wanted) = (at.read()?, at.element(1).read()?);
    let there = Features::all() - Features::READY;
    let known = Features::from_bits(wanted).filter(|wanted| there.contains(*wanted));
    // Only root's monitors get the memory of children.
    let root = task::current().process().credentials(|c| c.euid()) == 0;
    if !root && wanted & Features::EVENT_FORK.bits() != 0 {
        return Err(Errno::EPERM);
    }
    let Some(mut features) = known.filter(|_| version == VERSION) else {
        return refuse_api(at);
    };
    if features.contains(Features::WP_ASYNC) {
        features |= Features::WP_UNPOPULATED;
    }
    at.element(1).write(&there.bits())?;
    at.element(2).write(&IOCTLS)?;
    let ready = (features | Features::READY).bits();
    let set = monitor
        .features
        .compare_exchange(0, ready, Relaxed, Relaxed);
    match set {
        Ok(_) => {
            monitor.begin_events();
            Ok(0)
        }
        Err(_) => refuse_api(at),
    }
}

fn refuse_api(at: UserPtr<u64>) -> Result<u64> {
    (0..3).try_for_each(|n| at.element(n).write(&0))?;
    Err(Errno::EINVAL)
}

/// UFFDIO_REGISTER: `struct uffdio_register` is start, length, modes, ioctls.
fn register(monitor: &Monitor, at: UserPtr<u64>) -> Result<u64> {
    let modes = Modes::from_bits(at.element(2).read()?).ok_or(Errno::EINVAL)?;
    if modes.is_empty() {
        return Err(Errno::EINVAL);
    }
    let range = pages(at.read()?, at.element(1).read()?)?;
    let features = monitor.features();
    let mut flags = VmaFlags::empty();
    flags.set(VmaFlags::UFFD_MISSING, modes.contains(Modes::MISSING));
    flags.set(VmaFlags::UFFD_MINOR, modes.contains(Modes::MINOR));
    if modes.contains(Modes::WP) {
        flags |= VmaFlags::UFFD_WP;
        let (asynchronous, unpopulated) = (Features::WP_ASYNC, Features::WP_UNPOPULATED);
        flags.set(VmaFlags::UFFD_WP_ASYNC, features.contains(asynchronous));
        flags.set(
            VmaFlags::UFFD_WP_UNPOPULATED,
            features.contains(unpopulated),
        );
    }
    flags.set(
        VmaFlags::UFFD_FORKS,
        features.contains(Features::EVENT_FORK),
    );
    flags.set(
        VmaFlags::UFFD_MOVES,
        features.contains(Features::EVENT_REMAP),
    );
    let with = Registration {
        monitor: monitor.number,
        flags,
    };
    let size = in_space(monitor, |space| {
        space.userfault_register(range, with)?;
        Ok(space.userfault_page_size(range.start))
    })?;
    let mut ioctls = RANGE_IOCTLS;
    if size == PAGE_SIZE {
        ioctls |= PAGE_IOCTLS;
    }
    if modes.contains(Modes::WP) {
        ioctls |= IOCTL_WRITEPROTECT;
    }
    if modes.contains(Modes::MINOR) {
        ioctls |= IOCTL_CONTINUE;
    }
    at.element(3).write(&ioctls)?;
    Ok(0)
}

/// UFFDIO_UNREGISTER: `struct uffdio_range` is start, length.
fn unregister(monitor: &Monitor, at: UserPtr<u64>) -> Result<u64> {
    let range = pages(at.read()?, at.element(1).read()?)?;
    let number = monitor.number;
    in_space(monitor, |space| {
        Ok(space.userfault_unregister(range, number)?)
    })?;
    monitor.wake(range);
    Ok(0)
}

/// UFFDIO_WRITEPROTECT: `struct uffdio_writeprotect` is start, length, mode.
fn write_protect(monitor: &Monitor, at: UserPtr<u64>) -> Result<u64> {
    let range = pages(at.read()?, at.element(1).read()?)?;
    let mode = at.element(2).read()?;
    let on = mode & PROTECT != 0;
    let quiet = mode & PROTECT_DONTWAKE != 0;
    if mode & !(PROTECT | PROTECT_DONTWAKE) != 0 || on && quiet {
        return Err(Errno::EINVAL);
    }
    in_space(monitor, |space| Ok(space.userfault_protect(range, on)?))?;
    if !on && !quiet {
        monitor.wake(range);
    }
    Ok(0)
}

/// UFFDIO_COPY: `struct uffdio_copy` is target, source, length, mode, bytes done.
fn copy(monitor: &Monitor, at: UserPtr<u64>) -> Result<u64> {
    let (source, len) = (at.element(1).read()?, at.element(2).read()?);
    let (range, mode) = (pages(at.read()?, len)?, at.element(3).read()?);
    let inside = source.checked_add(len);
    if inside.is_none_or(|end| end > Format::USER_END.0) || mode & !(DONTWAKE | AND_PROTECT) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut bytes = fallible::filled(0, PAGE_SIZE as usize)?;
    let changing = monitor.watch_changes();
    let filling = Filling::unless(range, &changing);
    let done = in_space(monitor, |space| {
        let protect = mode & AND_PROTECT != 0;
        page_by_page(space, range, |page, size| {
            let from = source + (page - range.start);
            if size != PAGE_SIZE {
                return copy_huge(space, filling, (page, size), from, protect);
            }
            uaccess::read_bytes(from, &mut bytes)?;
            let content = Content::Bytes(&bytes);
            Ok(space.userfault_fill(filling, page, content, protect)?)
        })
    });
    finish(monitor, range, done, mode, at.element(4))
}

/// Copies a huge page, by its address and size, from user memory.
fn copy_huge(
    space: &AddressSpace,
    filling: Filling<'_>,
    (page, size): (VirtAddr, u64),
    from: u64,
    protect: bool,
) -> Result {
    let mut bytes = fallible::filled(0, PAGE_SIZE as usize)?;
    let taken = space.userfault_take(filling, page, protect)?;
    for offset in (0..size).step_by(PAGE_SIZE as usize) {
        uaccess::read_bytes(from + offset, &mut bytes)?;
        taken.write(offset, &bytes);
        sched::breathe();
    }
    Ok(space.userfault_map(taken, filling, page, protect)?)
}

/// UFFDIO_ZEROPAGE, UFFDIO_CONTINUE, UFFDIO_POISON: start, length, mode, bytes done.
fn fill(monitor: &Monitor, at: UserPtr<u64>, content: Content<'_>, modes: u64) -> Result<u64> {
    let range = pages(at.read()?, at.element(1).read()?)?;
    let mode = at.element(2).read()?;
    if mode & !modes != 0 {
        return Err(Errno::EINVAL);
    }
    let changing = monitor.watch_changes();
    let filling = Filling::unless(range, &changing);
    let done = in_space(monitor, |space| {
        page_by_page(space, range, |page, _| {
            Ok(space.userfault_fill(filling, page, content, mode & AND_PROTECT != 0)?)
        })
    });
    finish(monitor, range, done, mode, at.element(3))
}

/// Calls `f` with each page and its size up to the first failure: how many bytes were done, or why
/// none. EINVAL: a part of a huge page.
fn page_by_page(
    space: &AddressSpace,
    range: VirtRange,
    mut f: impl FnMut(VirtAddr, u64) -> Result,
) -> Result<u64> {
    let size = space.userfault_page_size(range.start);
    if !range.start.is_aligned(size) || !range.len().is_multiple_of(size) {
        return Err(Errno::EINVAL);
    }
    let mut at = range.start;
    while at < range.end {
        match f(at, size) {
            Err(why) if at == range.start => return Err(why),
            Err(_) => break,
            Ok(()) => at += size,
        }
        if sched::breathe() {
            break;
        }
    }
    Ok(at - range.start)
}

/// Writes how many bytes were done, or the error, and wakes those that wait for them. EAGAIN: not
/// all.
fn finish(
    monitor: &Monitor,
    range: VirtRange,
    done: Result<u64>,
    mode: u64,
    at: UserPtr<u64>,
) -> Result<u64> {
    at.write(&done.unwrap_or_else(Errno::to_return))?;
    let done = VirtRange::new(range.start, range.start + done?);
    if mode & DONTWAKE == 0 {
        monitor.wake(done);
    }
    match done == range {
        true => Ok(0),
        false => Err(Errno::EAGAIN),
    }
}
