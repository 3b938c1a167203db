//! How late a process learns of something while it touches memory: a fault is not interrupted.
use crate::memory::Memory;
use crate::times::{Summary, Times};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use userland::sys::mem::{PAGE, store};
use userland::sys::{Result, sig, time};

/// MiB that may be touched until the signal comes.
const SIZE: usize = 64;
/// The signal is to come after 1 to so many microseconds, [`STEP`] later each time, so that it
/// comes anywhere in a fault.
const RANGE: u64 = 307;
const STEP: u64 = 101;

/// When the signal came; 0 before that.
static CAME: AtomicU64 = AtomicU64::new(0);

extern "C" fn came(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CAME.store(time::now(), SeqCst);
}

/// From the end of a timer to the handler of its SIGALRM, in a process that writes to one new page
/// after the other.
pub fn late(samples: usize, _kb: usize) -> Result<Summary> {
    sig::handle(libc::SIGALRM, came, 0)?;
    let mut times = Times::new(samples);
    for n in 0..samples as u64 {
        let memory = Memory::map(SIZE)?;
        let mut pages = memory.each(PAGE >> 10);
        times.warm()?;
        CAME.store(0, SeqCst);
        let wanted = 1 + n * STEP % RANGE;
        let end = time::now() + wanted * 1_000;
        time::itimer(wanted, 0)?;
        while CAME.load(SeqCst) == 0 {
            if let Some(page) = pages.next() {
                store(page, 1);
            }
        }
        times.keep(CAME.load(SeqCst).saturating_sub(end))?;
    }
    sig::default(libc::SIGALRM)?;
    times.summary()
}
