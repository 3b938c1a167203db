//! Clocks and waiting.
use super::{Errno, Result, check};

/// clock_gettime in nanoseconds.
pub fn clock(id: i32) -> Result<u64> {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is ours and lives through the call.
    check(unsafe { libc::clock_gettime(id as _, &mut t) })?;
    Ok(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Nanoseconds of the monotonic clock; under QEMU's -icount shift=0 they are guest instructions.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// How long a program has run that looks at it again and again. Of the time between two looks a
/// second counts at the most: the machine, or the computer under it, may have been stopped.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    last: u64,
    passed: u64,
}

impl Running {
    /// From now on.
    pub fn begin() -> Running {
        let last = now();
        Running { last, passed: 0 }
    }

    /// Nanoseconds since it began, up to this look.
    pub fn passed(&mut self) -> u64 {
        let now = now();
        self.passed += now.saturating_sub(self.last).min(1_000_000_000);
        self.last = now;
        self.passed
    }
}

/// nanosleep: `Err((EINTR, nanoseconds left))` when a signal came first.
pub fn sleep(ns: u64) -> std::result::Result<(), (Errno, u64)> {
    let spec = |ns: u64| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    let (want, mut left) = (spec(ns), spec(0));
    // SAFETY: both structures are ours and live through the call.
    match check(unsafe { libc::nanosleep(&want, &mut left) }) {
        Ok(_) => Ok(()),
        Err(e) => Err((e, left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64)),
    }
}

/// SIGALRM in `seconds` (0: none); the seconds left of an earlier one.
pub fn alarm(seconds: u32) -> u32 {
    // SAFETY: only a number goes over; cannot fail.
    unsafe { libc::alarm(seconds) }
}

/// setitimer(ITIMER_REAL): SIGALRM after `first` microseconds, then every `every` (0: once).
pub fn itimer(first: u64, every: u64) -> Result<()> {
    let tv = |us: u64| [us / 1_000_000, us % 1_000_000];
    let value = [tv(every), tv(first)];
    // The kernel's own layout: struct itimerval is two timevals of two 64-bit words.
    super::call(
        libc::SYS_setitimer,
        [0, value.as_ptr() as usize, 0, 0, 0, 0],
    )
    .map(|_| ())
}

/// Runs exactly `2 * rounds` instructions (and a few around them).
#[inline(never)]
pub fn spin(rounds: u64) {
    // SAFETY: counts a register down.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) rounds => _, options(nomem, nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("2:", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) rounds => _, options(nomem, nostack));
    }
}

/// Runs exactly `3 * rounds` instructions (and a few around them), of which one is slow: it reads
/// the processor's clock.
#[inline(never)]
fn spin_slowly(rounds: u64) {
    // SAFETY: counts a register down; the clock's value goes nowhere.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2:", "rdtsc", "dec {n}", "jnz 2b", n = inout(reg) rounds => _,
            out("eax") _, out("edx") _, options(nomem, nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("2:", "mrs {t}, cntvct_el0", "subs {n}, {n}, #1", "b.ne 2b",
            n = inout(reg) rounds => _, t = out(reg) _, options(nomem, nostack));
    }
}

/// Whether the clock counts instructions, as it does under QEMU's -icount shift=0: loops of a known
/// number of them, quick ones and slow ones, take exactly that many nanoseconds, time after time.
/// A machine that happens to run one instruction in a nanosecond does so for one kind.
pub fn counts_instructions() -> bool {
    let takes = |work: fn(u64), instructions: u64| {
        // The best of a few: the timer's interrupt may fall into one.
        let timed = |rounds| {
            let once = || {
                let start = now();
                work(rounds);
                now() - start
            };
            (0..4).map(|_| once()).min().unwrap_or(0)
        };
        // The clock's own steps may be 16 ns or more.
        let slope = timed(30_000).saturating_sub(timed(10_000));
        slope.abs_diff(20_000 * instructions) <= 200
    };
    (0..3).all(|_| takes(spin, 2) && takes(spin_slowly, 3))
}
