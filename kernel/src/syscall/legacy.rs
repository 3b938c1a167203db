//! Calls that only x86_64 has; newer machines have a more general one in their place. Those on
//! files are in `files`.

use super::rows::rows;
use super::{identity, itimer, process, signal, unknown};
use crate::arch::trap::UserContext;
use crate::base::clock;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::Task;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;

rows! {
    /// Answers the call; ENOSYS for one that is not there.
    call, unknown::call;

    fork => process::fork, NEEDS_MEMORY;
    vfork => process::vfork, NEEDS_MEMORY;
    getpgrp => |task: &Task| identity::getpgid(task, 0);
    pause => |_: &Task| signal::pause(), NOT_RESTARTED;
    signalfd => signal::signalfd;
    alarm => itimer::alarm;
    time => now;
    arch_prctl => arch_prctl;
}

/// time(2): seconds since 1970.
fn now(into: UserPtr<u64>) -> Result<u64> {
    let seconds = clock::realtime() / 1_000_000_000;
    into.write_given(&seconds)?;
    Ok(seconds)
}

/// arch_prctl(2): the FS base, where thread-local storage hangs. GS is not for programs here.
fn arch_prctl(user: &mut UserContext, code: u32, at: UserPtr<u64>) -> Result<u64> {
    const ARCH_SET_FS: u32 = 0x1002;
    const ARCH_GET_FS: u32 = 0x1003;
    match code {
        ARCH_SET_FS if VirtAddr(at.address()) >= crate::arch::pte::Format::USER_END => {
            Err(Errno::EPERM)
        }
        ARCH_SET_FS => {
            user.set_tls(at.address());
            Ok(0)
        }
        ARCH_GET_FS => at.write(&user.tls()).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}
