//! Waiting for the words of a test, and for how long.
use crate::sys::time::Running;
use crate::sys::{Errno, file};

/// Seconds in which the machine may have nothing to do before a test is given up: it waits for what
/// does not come. On a slow machine a test takes longer, but does something.
pub const IDLE: u64 = 60;
/// Between two looks at the clocks: less than what counts of that time.
const STEP_MS: u64 = 500;
const SECOND: u64 = 1_000_000_000;

/// Ends the words of a test: children that it has left behind may have its end of the pipe, too.
pub const END: u8 = 0;

/// What a child writes up to [`END`], or until it closes its end; `None` after so many seconds, or
/// after [`IDLE`].
pub fn listen(fd: i32, seconds: u64) -> Option<String> {
    let (mut running, mut idle) = (Running::begin(), 0);
    let (mut passed, mut done) = (0, worked());
    let mut said = Vec::new();
    let mut buf = [0u8; 512];
    while running.passed() < seconds * SECOND && idle < IDLE * SECOND {
        let left = seconds * 1000 - passed / 1_000_000;
        match file::poll(fd, libc::POLLIN, left.clamp(1, STEP_MS) as i32) {
            Ok(0) => {
                let (now, work) = (running.passed(), worked());
                if work.saturating_sub(done) * 10 < now - passed {
                    idle += now - passed;
                }
                (passed, done) = (now, work);
            }
            Ok(_) => match file::read(fd, &mut buf) {
                Ok(0) => return Some(String::from_utf8_lossy(&said).into_owned()),
                Ok(n) => {
                    said.extend_from_slice(&buf[..n]);
                    if said.pop_if(|last| *last == END).is_some() {
                        return Some(String::from_utf8_lossy(&said).into_owned());
                    }
                }
                Err(Errno(libc::EINTR)) => {}
                Err(e) => return Some(format!("Fread: {e}")),
            },
            Err(Errno(libc::EINTR)) => {}
            Err(e) => return Some(format!("Fpoll: {e}")),
        }
    }
    None
}

/// Nanoseconds for which the CPUs have worked, all together; 0 without /proc/stat.
fn worked() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    // User, nice and system time, in hundredths of a second.
    let ticks = stat.split_whitespace().skip(1).take(3);
    ticks.flat_map(str::parse::<u64>).sum::<u64>() * 10_000_000
}
