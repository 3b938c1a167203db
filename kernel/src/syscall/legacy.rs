//! Calls that only x86_64 has: newer machines have a more general one in their place. Those on
//! files are in `files`.

use super::{Call, identity, itimer, process, signal};
use crate::base::clock;
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::process::task::CloneRequest;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use syscalls::Sysno;

/// `None`: not one of these.
pub fn call(sysno: Sysno, mut call: Call<'_>) -> Option<Result<u64>> {
    let [a, b, ..] = call.args;
    Some(match sysno {
        Sysno::fork => process::start(&mut call, &CloneRequest::fork()),
        Sysno::vfork => process::start(&mut call, &CloneRequest::vfork()),
        Sysno::getpgrp => identity::getpgid(call.task, 0),
        Sysno::pause => signal::pause(),
        Sysno::alarm => itimer::alarm(call.task, a),
        Sysno::time => now(a),
        Sysno::arch_prctl => arch_prctl(&mut call, a, b),
        _ => return None,
    })
}

/// time(2): seconds since 1970.
fn now(address: u64) -> Result<u64> {
    let seconds = clock::realtime() / 1_000_000_000;
    if address != 0 {
        uaccess::write(address, &seconds)?;
    }
    Ok(seconds)
}

/// arch_prctl(2): the FS base, where thread-local storage hangs. GS is not for programs here.
fn arch_prctl(call: &mut Call<'_>, code: u64, address: u64) -> Result<u64> {
    const ARCH_SET_FS: u64 = 0x1002;
    const ARCH_GET_FS: u64 = 0x1003;
    match code {
        ARCH_SET_FS if VirtAddr(address) >= crate::arch::pte::Format::USER_END => Err(Errno::EPERM),
        ARCH_SET_FS => {
            call.user.set_tls(address);
            Ok(0)
        }
        ARCH_GET_FS => uaccess::write(address, &call.user.tls()).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}
