//! MADV_HWPOISON, MADV_SOFT_OFFLINE.

use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::process::task::Task;
use crate::sched;
use core::sync::atomic::{AtomicI64, Ordering};
use mm::Offline;
use mm::addr::{PAGE_SIZE, VirtAddr};

/// /proc/sys/vm/enable_soft_offline.
pub static ENABLE_SOFT_OFFLINE: AtomicI64 = AtomicI64::new(1);

/// Takes one page of each folio in a range out of use. EPERM, as in Linux, unless the caller is
/// root; EOPNOTSUPP: soft offline is not enabled; else the error of the first page that has one.
pub fn offline(
    task: &Task,
    space: &AddressSpace,
    start: VirtAddr,
    len: u64,
    how: Offline,
) -> Result {
    let end = len.checked_next_multiple_of(PAGE_SIZE);
    let end = end.and_then(|len| start.checked_add(len));
    let end = end.ok_or(Errno::EINVAL)?;
    if start == end {
        return Ok(());
    }
    if task.process().credentials(|c| c.euid()) != 0 {
        return Err(Errno::EPERM);
    }
    let mut at = start;
    while at < end {
        // Relaxed: the number stands for itself.
        if how == Offline::Soft && ENABLE_SOFT_OFFLINE.load(Ordering::Relaxed) == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let size = space.offline(at, how)?;
        at = at.checked_add(size).unwrap_or(end);
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}
