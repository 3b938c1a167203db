//! Locking pages in memory: mlock(2) and its relatives, and msync(2), which respects locks.

use super::{Span, aligned, in_space, pages_up};
use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::process::task::Task;
use crate::sched;
use linux_raw_sys::general as abi;
use mm::addr::VirtAddr;
use mm::vma::VmaFlags;

bitflags::bitflags! {
    /// MS_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SyncFlags: u32 {
        /// MS_ASYNC.
        const ASYNC = abi::MS_ASYNC;
        /// MS_INVALIDATE: EBUSY for locked areas.
        const INVALIDATE = abi::MS_INVALIDATE;
        /// MS_SYNC.
        const SYNC = abi::MS_SYNC;
    }

    /// MLOCK_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LockFlags: u32 {
        /// MLOCK_ONFAULT: pages are locked when they are faulted in.
        const ONFAULT = abi::MLOCK_ONFAULT;
    }

    /// MCL_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LockAllFlags: u32 {
        /// MCL_CURRENT: what is mapped now.
        const CURRENT = abi::MCL_CURRENT;
        /// MCL_FUTURE: what is mapped later.
        const FUTURE = abi::MCL_FUTURE;
        /// MCL_ONFAULT: pages are locked when they are faulted in.
        const ONFAULT = abi::MCL_ONFAULT;
    }
}

crate::syscall::door::flag_arguments!(
    SyncFlags: invalid, LockFlags: invalid, LockAllFlags: invalid,
);

/// Areas that are examined between two pauses.
const AREAS: usize = 256;

/// Whether an area in `start..end` is locked. ENOMEM unless all of it is mapped.
fn has_locked(space: &AddressSpace, start: VirtAddr, end: VirtAddr) -> Result<bool> {
    let (mut at, mut locked) = (start, false);
    for n in 1.. {
        if at >= end {
            break;
        }
        let vma = space.vma_at(at).ok_or(Errno::ENOMEM)?;
        locked |= vma.flags.contains(VmaFlags::LOCKED);
        at = vma.range.end;
        if n % AREAS == 0 && sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(locked)
}

/// msync(2): mappings and files are the same pages here, so there is nothing to write. EINVAL,
/// EBUSY, ENOMEM.
pub fn msync(task: &Task, Span { start, len }: Span, flags: SyncFlags) -> Result<u64> {
    if flags.contains(SyncFlags::ASYNC | SyncFlags::SYNC) {
        return Err(Errno::EINVAL);
    }
    let start = aligned(start)?;
    let end = start.checked_add(pages_up(len)?).ok_or(Errno::ENOMEM)?;
    let locked = in_space(task, |space| has_locked(space, start, end))?;
    if locked && flags.contains(SyncFlags::INVALIDATE) {
        Err(Errno::EBUSY)
    } else {
        Ok(0)
    }
}

/// mlock(2).
pub fn mlock(task: &Task, span: Span) -> Result<u64> {
    mlock2(task, span, LockFlags::empty())
}

/// mlock2(2).
pub fn mlock2(task: &Task, Span { start, len }: Span, flags: LockFlags) -> Result<u64> {
    let on_fault = flags.contains(LockFlags::ONFAULT);
    in_space(task, |space| space.mlock(start, len, true, on_fault))?;
    Ok(0)
}

/// munlock(2).
pub fn munlock(task: &Task, Span { start, len }: Span) -> Result<u64> {
    in_space(task, |space| space.mlock(start, len, false, false))?;
    Ok(0)
}

/// mlockall(2). EINVAL unless it is for present or future mappings.
pub fn mlockall(task: &Task, flags: LockAllFlags) -> Result<u64> {
    let (current, future) = (LockAllFlags::CURRENT, LockAllFlags::FUTURE);
    if !flags.intersects(current | future) {
        return Err(Errno::EINVAL);
    }
    let on_fault = flags.contains(LockAllFlags::ONFAULT);
    in_space(task, |space| {
        space.lock_all(flags.contains(current), flags.contains(future), on_fault)
    })?;
    Ok(0)
}

/// munlockall(2).
pub fn munlockall(task: &Task) -> Result<u64> {
    in_space(task, |space| space.lock_all(false, false, false))?;
    Ok(0)
}
