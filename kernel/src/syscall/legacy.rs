//! Calls that only x86_64 has; newer machines have a more general one in their place. Those on
//! files are in `files`.

use super::{Call, identity, itimer, process, signal, unknown};
use crate::arch::trap::UserContext;
use crate::base::clock;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use syscalls::Sysno;

/// Answers the call; ENOSYS.
pub fn call(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    match sysno {
        Sysno::fork => call.run(process::fork),
        Sysno::vfork => call.run(process::vfork),
        Sysno::getpgrp => identity::getpgid(call.task, 0),
        Sysno::pause => signal::pause(),
        Sysno::signalfd => call.run(signal::signalfd),
        Sysno::alarm => call.run(itimer::alarm),
        Sysno::time => call.run(now),
        Sysno::arch_prctl => call.run(arch_prctl),
        _ => unknown::report(call.task, sysno as u64, Some(sysno)),
    }
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
