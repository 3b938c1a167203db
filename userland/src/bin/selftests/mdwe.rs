//! prctl(PR_SET_MDWE): a process that makes nothing executable that is or was writable.
use userland::harness::{Outcome, in_child};
use userland::sys::mem::{ANON, PAGE, RW, mmap, mprotect};
use userland::sys::{Errno, call, proc};
use userland::{check_eq, check_err};

userland::tests![
    mdwe_refuses_bad_arguments,
    mdwe_refuses_writable_code,
    mdwe_refuses_to_become_code,
    mdwe_stays,
    mdwe_is_inherited,
    mdwe_is_not_inherited,
];

const REFUSE: usize = 1;
const NO_INHERIT: usize = 2;
const READ: i32 = libc::PROT_READ;
const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;

fn prctl(option: i32, args: [usize; 4]) -> userland::sys::Result<usize> {
    let [a, b, c, d] = args;
    call(libc::SYS_prctl, [option as usize, a, b, c, d, 0])
}

fn set(bits: usize) -> userland::sys::Result<usize> {
    prctl(libc::PR_SET_MDWE, [bits, 0, 0, 0])
}

fn get() -> userland::sys::Result<usize> {
    prctl(libc::PR_GET_MDWE, [0; 4])
}

/// Skips the test on a Linux before 6.3, or on one without NO_INHERIT, which is of 6.7.
fn begin(bits: usize) -> Outcome {
    match set(bits) {
        Err(Errno(libc::EINVAL)) => userland::harness::skip("no PR_SET_MDWE here"),
        other => Ok(other.map(drop)?),
    }
}

fn map(prot: i32) -> Result<usize, Errno> {
    mmap(0, 2 * PAGE, prot, ANON, -1, 0)
}

fn mdwe_refuses_bad_arguments() -> Outcome {
    check_err!(set(NO_INHERIT), EINVAL);
    check_err!(set(4 | REFUSE), EINVAL);
    check_err!(prctl(libc::PR_SET_MDWE, [REFUSE, 1, 0, 0]), EINVAL);
    check_err!(prctl(libc::PR_SET_MDWE, [REFUSE, 0, 0, 1]), EINVAL);
    check_err!(prctl(libc::PR_GET_MDWE, [1, 0, 0, 0]), EINVAL);
    Ok(())
}

fn mdwe_refuses_writable_code() -> Outcome {
    begin(REFUSE)?;
    check_err!(map(RW | libc::PROT_EXEC), EACCES);
    check_err!(map(libc::PROT_WRITE | libc::PROT_EXEC), EACCES);
    map(CODE)?;
    map(libc::PROT_EXEC)?;
    map(RW)?;
    Ok(())
}

fn mdwe_refuses_to_become_code() -> Outcome {
    let old = map(RW | libc::PROT_EXEC)?;
    begin(REFUSE)?;
    let (data, constant, code) = (map(RW)?, map(READ)?, map(CODE)?);
    for at in [data, constant] {
        check_err!(mprotect(at, PAGE, CODE), EACCES);
        check_err!(mprotect(at, PAGE, RW | libc::PROT_EXEC), EACCES);
        mprotect(at, PAGE, READ)?;
    }
    mprotect(code, PAGE, libc::PROT_EXEC)?;
    mprotect(code, PAGE, CODE)?;
    check_err!(mprotect(code, PAGE, RW | libc::PROT_EXEC), EACCES);
    // Code that becomes data does not become code again.
    mprotect(code, PAGE, RW)?;
    check_err!(mprotect(code, PAGE, CODE), EACCES);
    // What is both stays so until it is changed, and then it may only lose.
    check_err!(mprotect(old, PAGE, RW | libc::PROT_EXEC), EACCES);
    mprotect(old, PAGE, CODE)?;
    Ok(())
}

fn mdwe_stays() -> Outcome {
    begin(REFUSE)?;
    check_eq!(get()?, REFUSE);
    check_eq!(set(REFUSE)?, 0);
    check_err!(set(0), EPERM);
    check_err!(set(REFUSE | NO_INHERIT), EPERM);
    check_eq!(get()?, REFUSE);
    Ok(())
}

/// What a child has, and whether it is refused code.
fn in_a_child(bits: usize) -> Outcome {
    let child = in_child(|| {
        check_eq!(get()?, bits);
        let refused = map(RW | libc::PROT_EXEC).is_err();
        check_eq!(refused, bits != 0);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    Ok(())
}

fn mdwe_is_inherited() -> Outcome {
    begin(REFUSE)?;
    in_a_child(REFUSE)
}

fn mdwe_is_not_inherited() -> Outcome {
    begin(REFUSE | NO_INHERIT)?;
    check_eq!(get()?, REFUSE | NO_INHERIT);
    check_err!(map(RW | libc::PROT_EXEC), EACCES);
    in_a_child(0)
}
