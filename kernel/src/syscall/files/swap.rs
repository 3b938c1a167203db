//! swapon(2) and swapoff(2), of the one device that there can be.

use super::locate_here;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserStr;
use crate::fs::devices::zram;
use crate::fs::tree::inode::FileKind;
use crate::process::signal;
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use linux_raw_sys::general::CAP_SYS_ADMIN;

bitflags::bitflags! {
    /// SWAP_FLAG_*, which the header crate leaves out.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SwapFlags: u32 {
        /// SWAP_FLAG_PRIO_MASK: the priority, with PREFER.
        const PRIORITY = 0x7fff;
        /// SWAP_FLAG_PREFER.
        const PREFER = 0x8000;
        /// SWAP_FLAG_DISCARD: the device is told of what is free. The store knows at once, whatever
        /// is asked for.
        const DISCARD = 0x10000;
        /// SWAP_FLAG_DISCARD_ONCE.
        const DISCARD_ONCE = 0x20000;
        /// SWAP_FLAG_DISCARD_PAGES.
        const DISCARD_PAGES = 0x40000;
    }
}

flag_arguments!(SwapFlags: invalid);

/// The priority of an area that was not given one: below all that were.
const NOT_GIVEN: i32 = -2;

/// The path leads to the device. EPERM without CAP_SYS_ADMIN; EINVAL: anything else. What files
/// have is in memory, where Linux has no swap either.
fn check(task: &Task, path: UserStr) -> Result {
    if !task.process().credentials(|it| it.may(CAP_SYS_ADMIN)) {
        return Err(Errno::EPERM);
    }
    let inode = locate_here(task, path)?.inode;
    let is_device = inode.node().kind == FileKind::Block && inode.device() == zram::NUMBER;
    is_device.then_some(()).ok_or(Errno::EINVAL)
}

/// swapon(2).
pub fn swapon(task: &Task, path: UserStr, flags: SwapFlags) -> Result<u64> {
    check(task, path)?;
    let priority = match flags.contains(SwapFlags::PREFER) {
        true => (flags & SwapFlags::PRIORITY).bits() as i32,
        false => NOT_GIVEN,
    };
    zram::swap_on(priority).map(|()| 0)
}

/// swapoff(2). EINTR by any signal.
pub fn swapoff(task: &Task, path: UserStr) -> Result<u64> {
    check(task, path)?;
    zram::swap_off(signal::pending).map(|()| 0)
}
