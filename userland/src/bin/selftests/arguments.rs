//! System-call arguments: how wide they are, and which flags are refused.
use userland::harness::{Outcome, Stop};
use userland::sys::mem::{PAGE, anon};
use userland::sys::{Errno, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    arguments_upper_half_of_int,
    arguments_upper_half_of_long,
    arguments_unknown_flags,
    arguments_unknown_signal_flags,
    arguments_clone3_flags,
];

/// A bit that no `int` has.
const UPPER: usize = 1 << 32;
/// A bit that no call has a flag for.
const UNKNOWN: usize = 1 << 27;

fn arguments_upper_half_of_int() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    file::write_all(tell, b"12345678")?;
    let mut bytes = [0u8; 8];
    let at = bytes.as_mut_ptr() as usize;
    let hear = hear as usize;
    check_eq!(call(libc::SYS_read, [hear | UPPER, at, 1, 0, 0, 0]), Ok(1));
    let dup = [hear | UPPER, 100 | UPPER, UPPER, 0, 0, 0];
    check_eq!(call(libc::SYS_dup3, dup), Ok(100));
    let range = [100 | UPPER, 100 | UPPER, UPPER, 0, 0, 0];
    check_eq!(call(libc::SYS_close_range, range), Ok(0));
    check_err!(call(libc::SYS_close, [100, 0, 0, 0, 0, 0]), EBADF);
    check_eq!(call(libc::SYS_pipe2, [at, UPPER, 0, 0, 0, 0]), Ok(0));
    check_eq!(call(libc::SYS_getrandom, [at, 8, UPPER, 0, 0, 0]), Ok(8));
    let page = anon(1)?;
    check_eq!(call(libc::SYS_mlock2, [page, PAGE, UPPER, 0, 0, 0]), Ok(0));
    let sync = libc::MS_SYNC as usize | UPPER;
    check_eq!(call(libc::SYS_msync, [page, PAGE, sync, 0, 0, 0]), Ok(0));
    let name = c".".as_ptr() as usize;
    let here = libc::AT_FDCWD as usize;
    let access = [here, name, UPPER, UPPER, 0, 0];
    check_eq!(call(libc::SYS_faccessat2, access), Ok(0));
    check_err!(
        call(libc::SYS_wait4, [UPPER - 1, 0, UPPER, 0, 0, 0]),
        ECHILD
    );
    Ok(())
}

fn arguments_upper_half_of_long() -> Outcome {
    let page = anon(1)?;
    let flags = libc::MREMAP_MAYMOVE as usize | UPPER;
    check_err!(
        call(libc::SYS_mremap, [page, PAGE, 2 * PAGE, flags, 0, 0]),
        EINVAL
    );
    check_err!(
        call(libc::SYS_mprotect, [page, PAGE, UPPER | 1, 0, 0, 0]),
        EINVAL
    );
    check_err!(
        call(libc::SYS_munmap, [page, UPPER << 20, 0, 0, 0, 0]),
        EINVAL
    );
    Ok(())
}

/// Calls with one unknown flag each and everything else right.
fn arguments_unknown_flags() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let (hear, tell) = (hear as usize, tell as usize);
    let mut bytes = [0u8; 256];
    let at = bytes.as_mut_ptr() as usize;
    let page = anon(1)?;
    let (here, name) = (libc::AT_FDCWD as usize, c".".as_ptr() as usize);
    let pid = std::process::id() as usize;
    let calls = [
        (libc::SYS_dup3, [hear, 100, UNKNOWN, 0, 0, 0]),
        (libc::SYS_pipe2, [at, UNKNOWN, 0, 0, 0, 0]),
        (libc::SYS_close_range, [200, 300, UNKNOWN, 0, 0, 0]),
        (libc::SYS_memfd_create, [name, UNKNOWN, 0, 0, 0, 0]),
        (libc::SYS_unlinkat, [here, name, UNKNOWN, 0, 0, 0]),
        (libc::SYS_linkat, [here, name, here, name, UNKNOWN, 0]),
        (libc::SYS_renameat2, [here, name, here, name, UNKNOWN, 0]),
        (libc::SYS_faccessat2, [here, name, 0, UNKNOWN, 0, 0]),
        (libc::SYS_faccessat, [here, name, UNKNOWN, 0, 0, 0]),
        (libc::SYS_fchownat, [here, name, 0, 0, UNKNOWN, 0]),
        (libc::SYS_utimensat, [here, name, 0, UNKNOWN, 0, 0]),
        (libc::SYS_statx, [here, name, UNKNOWN, 0, at, 0]),
        (libc::SYS_getrandom, [at, 8, UNKNOWN, 0, 0, 0]),
        (libc::SYS_splice, [hear, 0, tell, 0, 1, UNKNOWN]),
        (libc::SYS_vmsplice, [tell, at, 0, UNKNOWN, 0, 0]),
        (libc::SYS_mlock2, [page, PAGE, UNKNOWN, 0, 0, 0]),
        (libc::SYS_mlockall, [UNKNOWN | 1, 0, 0, 0, 0, 0]),
        (libc::SYS_msync, [page, PAGE, UNKNOWN, 0, 0, 0]),
        (libc::SYS_mremap, [page, PAGE, PAGE, UNKNOWN, 0, 0]),
        (libc::SYS_wait4, [UPPER - 1, 0, 1 << 20, 0, 0, 0]),
        (libc::SYS_waitid, [0, 0, 0, 4 | 1 << 20, 0, 0]),
        (libc::SYS_pidfd_open, [pid, UNKNOWN, 0, 0, 0, 0]),
        (libc::SYS_socketpair, [1, 1 | UNKNOWN, 0, at, 0, 0]),
        (libc::SYS_execveat, [here, name, 0, 0, UNKNOWN, 0]),
    ];
    for (number, arguments) in calls {
        match call(number, arguments) {
            Err(Errno(libc::EINVAL)) => {}
            other => {
                return Err(Stop::Fail(format!("call {number}: {other:?}, not EINVAL")));
            }
        }
    }
    // open(2) ignores what it does not know; openat2(2) does not.
    let flags = UNKNOWN | libc::O_RDONLY as usize;
    check!(call(libc::SYS_openat, [here, name, flags, 0, 0, 0]).is_ok());
    let how = [UNKNOWN as u64, 0, 0];
    let how = how.as_ptr() as usize;
    check_err!(call(libc::SYS_openat2, [here, name, how, 24, 0, 0]), EINVAL);
    Ok(())
}

/// sigaction(2), "Dynamically probing for flag bit support": unknown flags are dropped.
fn arguments_unknown_signal_flags() -> Outcome {
    const SA_UNSUPPORTED: u64 = 0x400;
    let ignore = libc::SIG_IGN as u64;
    let new = [
        ignore,
        SA_UNSUPPORTED | 1 << 20 | libc::SA_NODEFER as u64,
        0,
        0,
    ];
    let mut old = [0u64; 4];
    let signal = libc::SIGUSR1 as usize;
    let (new, into) = (new.as_ptr() as usize, old.as_mut_ptr() as usize);
    check_eq!(
        call(libc::SYS_rt_sigaction, [signal, new, 0, 8, 0, 0]),
        Ok(0)
    );
    check_eq!(
        call(libc::SYS_rt_sigaction, [signal, 0, into, 8, 0, 0]),
        Ok(0)
    );
    check_eq!(old[1], libc::SA_NODEFER as u64);
    Ok(())
}

/// clone3(2) refuses the flag that clone(2) ignores, and an exit signal among the flags.
fn arguments_clone3_flags() -> Outcome {
    const CLONE_DETACHED: u64 = 0x40_0000;
    for flags in [CLONE_DETACHED, libc::SIGCHLD as u64, 1 << 40] {
        let args = [flags, 0, 0, 0, 0, 0, 0, 0];
        let at = args.as_ptr() as usize;
        check_err!(call(libc::SYS_clone3, [at, 64, 0, 0, 0, 0]), EINVAL);
    }
    Ok(())
}
