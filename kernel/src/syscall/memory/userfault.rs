//! userfaultfd(2), and calls on memory that a monitor is told of.

use super::{Span, in_space};
use crate::base::errno::{Errno, Result};
use crate::process::task::Task;
use crate::process::userfault::{self, Change, Concerned, Flags};
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::{Advice, RemapFlags};

pub use userfault::are_told;

/// userfaultfd(2). EPERM: only root may have faults in system calls wait for a program
/// (vm.unprivileged_userfaultfd is 0).
pub fn userfaultfd(task: &Task, flags: u64) -> Result<u64> {
    let user_only = flags & Flags::USER_MODE_ONLY.bits() != 0;
    if !user_only && task.process().credentials(|c| c.euid()) != 0 {
        return Err(Errno::EPERM);
    }
    userfault::open(task, flags)
}

/// The pages of an argument; empty if they are none, which the call refuses itself.
fn pages(start: VirtAddr, len: u64) -> VirtRange {
    let end = start
        .checked_add(len)
        .and_then(|end| end.align_up(PAGE_SIZE));
    VirtRange::new(start, end.unwrap_or(start))
}

/// Calls `f`, which unmaps memory, and tells those who watch it afterwards.
#[cold]
pub fn unmapping<R>(
    task: &Task,
    start: VirtAddr,
    len: u64,
    f: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let mut concerned = Concerned::new();
    in_space(task, |space| {
        concerned.add(space, pages(start, len), Change::Unmap)
    })?;
    let result = f()?;
    concerned.tell();
    Ok(result)
}

/// brk(2), and tells those who watch what it gives back.
#[cold]
pub fn breaking(task: &Task, wanted: VirtAddr) -> Result<VirtAddr> {
    let mut concerned = Concerned::new();
    let after = in_space(task, |space| {
        let heap = space.heap();
        if (heap.start..heap.end).contains(&wanted)
            && let (Some(from), Some(end)) =
                (wanted.align_up(PAGE_SIZE), heap.end.align_up(PAGE_SIZE))
        {
            concerned.add(space, VirtRange::new(from, end), Change::Unmap)?;
        }
        Ok::<_, Errno>(space.brk(wanted))
    })?;
    if after == wanted {
        concerned.tell();
    }
    Ok(after)
}

/// Tells those who watch memory that it is about to be dropped, if it is.
#[cold]
pub fn removing(task: &Task, start: VirtAddr, len: u64, advice: Advice) -> Result {
    let drops = matches!(
        advice,
        Advice::DontNeed | Advice::DontNeedLocked | Advice::Free | Advice::Remove
    );
    if drops && start.is_aligned(PAGE_SIZE) {
        let mut concerned = Concerned::new();
        in_space(task, |space| {
            concerned.add(space, pages(start, len), Change::Remove)
        })?;
        concerned.tell();
    }
    Ok(())
}

/// Calls `f`, which is mremap(2), and tells those who watch what it moves or unmaps.
#[cold]
pub fn moving(
    task: &Task,
    old: Span,
    new_len: u64,
    flags: RemapFlags,
    new: VirtAddr,
    f: impl FnOnce() -> Result<VirtAddr>,
) -> Result<VirtAddr> {
    let from = pages(old.start, old.len);
    let new_len = pages(VirtAddr(0), new_len).len();
    let target = flags.contains(RemapFlags::FIXED).then_some(new);
    in_space(task, |space| {
        userfault::while_moving(space, from, new_len, target, f)
    })
}
