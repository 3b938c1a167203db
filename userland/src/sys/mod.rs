//! The only module of the user programs with `unsafe` code: system calls as values and `Result`s.
//!
//! The wrappers are safe to call in the sense the programs need: they check lengths and formats,
//! own what they map, and never hand out references into memory that another call could take away.
//! [`call`] is the exception on purpose: tests and the fuzzer must be able to pass anything to the
//! kernel.
#![allow(unsafe_code)]

pub mod counted;
pub mod cpus;
pub mod fault;
pub mod file;
pub mod keys;
pub mod mem;
pub mod proc;
pub mod real_mode;
pub mod segments;
pub mod sig;
pub mod time;
pub mod trace;
pub mod tty;

use std::fmt;

/// An error number of Linux's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// The error of the last failed C library call.
    pub fn last() -> Self {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// The symbolic name, for the errors that programs here test for.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: &[(i32, &str)] = &[
            (libc::EPERM, "EPERM"),
            (libc::ENOENT, "ENOENT"),
            (libc::ESRCH, "ESRCH"),
            (libc::EINTR, "EINTR"),
            (libc::EIO, "EIO"),
            (libc::E2BIG, "E2BIG"),
            (libc::ENOEXEC, "ENOEXEC"),
            (libc::EBADF, "EBADF"),
            (libc::ECHILD, "ECHILD"),
            (libc::EAGAIN, "EAGAIN"),
            (libc::ENOMEM, "ENOMEM"),
            (libc::EACCES, "EACCES"),
            (libc::EFAULT, "EFAULT"),
            (libc::EBUSY, "EBUSY"),
            (libc::EEXIST, "EEXIST"),
            (libc::EXDEV, "EXDEV"),
            (libc::ENODEV, "ENODEV"),
            (libc::ENOTDIR, "ENOTDIR"),
            (libc::EISDIR, "EISDIR"),
            (libc::EINVAL, "EINVAL"),
            (libc::EMFILE, "EMFILE"),
            (libc::ENOTTY, "ENOTTY"),
            (libc::ELIBBAD, "ELIBBAD"),
            (libc::ETXTBSY, "ETXTBSY"),
            (libc::EFBIG, "EFBIG"),
            (libc::ENOSPC, "ENOSPC"),
            (libc::ESPIPE, "ESPIPE"),
            (libc::EROFS, "EROFS"),
            (libc::EPIPE, "EPIPE"),
            (libc::ERANGE, "ERANGE"),
            (libc::ENAMETOOLONG, "ENAMETOOLONG"),
            (libc::ENOSYS, "ENOSYS"),
            (libc::ENOTEMPTY, "ENOTEMPTY"),
            (libc::ELOOP, "ELOOP"),
            (libc::EOVERFLOW, "EOVERFLOW"),
            (libc::ETIMEDOUT, "ETIMEDOUT"),
            (libc::EMSGSIZE, "EMSGSIZE"),
            (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
            (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
            (libc::ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
            (libc::ECONNRESET, "ECONNRESET"),
            (libc::ECONNREFUSED, "ECONNREFUSED"),
            (libc::ENOTSOCK, "ENOTSOCK"),
            (libc::EISCONN, "EISCONN"),
            (libc::EOPNOTSUPP, "EOPNOTSUPP"),
            (libc::ENOPROTOOPT, "ENOPROTOOPT"),
            (libc::EDOM, "EDOM"),
        ];
        NAMES.iter().find(|n| n.0 == self.0).map(|n| n.1)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        f.write_str(text.split(" (os error").next().unwrap_or(&text))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl From<std::io::Error> for Errno {
    fn from(e: std::io::Error) -> Self {
        Errno(e.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Turns the C library's -1 into the error number.
fn check(ret: impl Into<i64>) -> Result<usize> {
    match ret.into() {
        -1 => Err(Errno::last()),
        n => Ok(n as usize),
    }
}

/// A C string from a path or word; a NUL inside is EINVAL.
fn cstr(text: &str) -> Result<std::ffi::CString> {
    std::ffi::CString::new(text).map_err(|_| Errno(libc::EINVAL))
}

/// The bare system call `nr`, without the C library: the kernel's answer as it stands (-4095..0 are
/// errors).
///
/// The caller is responsible for the effects on this process; tests that pass wild arguments do so
/// in a child.
#[inline(always)]
pub fn call_bare(nr: usize, a: [usize; 6]) -> isize {
    let ret: isize;
    // SAFETY: the instruction follows the kernel's convention and names every register the kernel
    // may change; what the call itself does to the process is the caller's choice, as said above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") nr as isize => ret,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") nr,
            inlateout("x0") a[0] as isize => ret,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    ret
}

/// [`call_bare`] with the answer as a `Result`.
pub fn call(nr: i64, a: [usize; 6]) -> Result<usize> {
    match call_bare(nr as usize, a) {
        e @ -4095..0 => Err(Errno(-e as i32)),
        n => Ok(n as usize),
    }
}

/// An entry of the auxiliary vector the kernel started this program with; 0 when absent.
pub fn aux(key: u64) -> u64 {
    // SAFETY: only a number goes over.
    unsafe { libc::getauxval(key as _) as u64 }
}

/// Fills vector registers with `value`, as a handler that computes would.
pub fn fill_vectors(value: u64) {
    // SAFETY: only registers named as clobbered change.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("movq xmm0, {v}", "movq xmm5, {v}", "movq xmm15, {v}", v = in(reg) value,
            out("xmm0") _, out("xmm5") _, out("xmm15") _);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("fmov d0, {v}", "fmov d5, {v}", "fmov d31, {v}", v = in(reg) value,
            out("v0") _, out("v5") _, out("v31") _);
    }
}

/// Puts `value` into two vector registers, makes the system call `nr`, and returns what they hold
/// then.
pub fn vectors_across(value: u64, nr: usize, a: [usize; 3]) -> [u64; 2] {
    let (first, second): (u64, u64);
    // SAFETY: the call takes numbers only, by the callers here; all registers the block changes are
    // named.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "movq xmm5, {v}", "movq xmm15, {v}", "syscall", "movq {v}, xmm5", "movq {w}, xmm15",
            v = inout(reg) value => first, w = out(reg) second,
            inout("rax") nr => _, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], out("rcx") _, out("r11") _,
            out("xmm5") _, out("xmm15") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "fmov d5, {v}", "fmov d31, {v}", "svc 0", "fmov {v}, d5", "fmov {w}, d31",
            v = inout(reg) value => first, w = out(reg) second,
            in("x8") nr, inout("x0") a[0] => _, in("x1") a[1], in("x2") a[2], out("v5") _, out("v31") _,
        );
    }
    [first, second]
}
