//! The check of all invariants of Quire's memory manager, which stops all CPUs for it. A violation
//! is a panic of the kernel.
use crate::sys::{Errno, Result, file, time};

const FILE: &std::ffi::CStr = c"/sys/kernel/mm/quire/check";
/// Between two attempts, in nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Checks once, if there is a moment now in which no call of any thread is half done; whether there
/// was. Other kernels have no such check.
fn attempt() -> Result<bool> {
    let fd = file::open_cstr(FILE, libc::O_WRONLY)?;
    let done = file::write(fd, b"1");
    file::close(fd)?;
    match done {
        Ok(_) => Ok(true),
        Err(Errno(libc::EAGAIN)) => Ok(false),
        Err(why) => Err(why),
    }
}

/// Checks once, if there is a moment and memory for it now; whether it was done.
pub fn check_now() -> Result<bool> {
    match attempt() {
        Err(Errno(libc::ENOENT | libc::ENOMEM)) => Ok(false),
        done => done,
    }
}

/// Checks once, and waits for a moment for it. Nothing on other kernels.
pub fn check() -> Result<()> {
    while crate::counters::on_quire() && !attempt()? {
        // A signal may end it early.
        let _ = time::sleep(PAUSE);
    }
    Ok(())
}

/// Whether it is refused since the heap's allocations for this process are counted, or fail.
pub fn is_refused() -> bool {
    let text = std::fs::read_to_string("/sys/kernel/mm/quire/heap_fail");
    text.is_ok_and(|text| text.trim() != "0")
}
