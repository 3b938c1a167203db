//! The check of all invariants of Quire's memory manager, which stops all CPUs for it. A violation
//! is a panic of the kernel.
use crate::sys::{Errno, Result, file, time};

const FILE: &std::ffi::CStr = c"/sys/kernel/mm/quire/check";
/// Between two attempts, in nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Checks once, if there is a moment now in which no call of any thread is half done. Whether it
/// was done: not on other kernels, and not where memory is too short for it.
pub fn check_now() -> Result<bool> {
    let fd = match file::open_cstr(FILE, libc::O_WRONLY) {
        Err(Errno(libc::ENOENT)) => return Ok(false),
        fd => fd?,
    };
    let done = file::write(fd, b"1");
    file::close(fd)?;
    match done {
        Ok(_) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::ENOMEM)) => Ok(false),
        Err(why) => Err(why),
    }
}

/// Checks once, and waits for a moment for it. Other kernels have no such check.
pub fn check() -> Result<()> {
    while crate::counters::on_quire() && !check_now()? {
        // A signal may end it early.
        let _ = time::sleep(PAUSE);
    }
    Ok(())
}
