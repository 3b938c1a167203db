//! Waits of one CPU for another in the kernel: what the CPU does meanwhile, and a panic with all
//! backtraces when a wait does not end. In debug builds, the same when a CPU serves no interrupt.
//!
//! Only time in which the CPU that counts was running itself counts: a machine that was stopped, or
//! had no CPU of its host, has not hung.

use crate::arch::trap::Irq;
use crate::arch::{self, cpu, timer};
use crate::base::cpus;
use arch_boot::cpus::NR_CPUS;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::{add_own, rank};

/// How long a wait may take, and a CPU serve no interrupt, in ns.
const LONGEST: u64 = 20_000_000_000;
/// Looks between two looks at the clock.
pub const LOOKS: u64 = 1024;
/// The most that counts between two looks at the clock of a CPU that spins, in ns: it may have lost
/// its CPU of the host meanwhile.
const SPUN: u64 = 20_000_000;
/// Between two looks of a CPU at another one, and of one that waits asleep, in ns.
const PERIOD: u64 = 1_000_000_000;

/// What a CPU counts; only that CPU writes it.
struct Count {
    /// When it looked last, in ns since boot.
    last: AtomicU64,
    /// Nanoseconds that count.
    counted: AtomicU64,
}

impl Count {
    const fn new() -> Count {
        Count {
            last: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        }
    }

    /// Begins anew.
    fn begin(&self) {
        self.last.store(timer::now(), Relaxed);
        self.counted.store(0, Relaxed);
    }

    /// Counts what has passed since the last time, `most` at the most; whether it is too long.
    fn is_too_long(&self, most: u64) -> bool {
        let now = timer::now();
        let passed = now.saturating_sub(self.last.load(Relaxed));
        self.last.store(now, Relaxed);
        add_own(&self.counted, passed.min(most));
        self.counted.load(Relaxed) > LONGEST
    }
}

/// By CPU, its wait.
static WAITS: [Count; NR_CPUS] = [const { Count::new() }; NR_CPUS];

/// Between two looks at a lock of `rank`; `looks` came before.
pub fn spin(rank: u8, looks: u64) {
    // The one that has it may wait for an answer. Above the console's there are those of the
    // requests themselves, and of the log: who has these waits for nobody, and an answer would
    // take them again.
    if rank <= rank::CONSOLE {
        cpus::answer();
    }
    wait(looks, &format_args!("a lock of rank {rank}"));
}

/// Between two looks at `what` another CPU has or does; `looks` came before.
pub fn wait(looks: u64, what: &dyn fmt::Display) {
    arch::cpus::relax();
    if looks == 0 {
        WAITS[cpus::current()].begin();
    } else if looks.is_multiple_of(LOOKS) {
        check(SPUN, what);
    }
}

/// The same for a CPU that sleeps in between; it has spun before. Returns what has interrupted the
/// sleep: at the latest the timer, which is set for that and for nothing else from now on.
pub fn sleep(what: &dyn fmt::Display) -> Irq {
    timer::set_deadline(Some(timer::now() + PERIOD));
    check(PERIOD, what);
    cpu::wait_for_interrupt()
}

/// Panics if the wait has taken too long.
fn check(most: u64, what: &dyn fmt::Display) {
    let own = cpus::current();
    add_own(&SIGNS[own], 1);
    if WAITS[own].is_too_long(most) {
        panic!(
            "waits for {what} for more than {} s",
            LONGEST / 1_000_000_000
        );
    }
}

/// By CPU, how often it has served its timer or looked at the clock in a wait, in debug builds.
static SIGNS: [AtomicU64; NR_CPUS] = [const { AtomicU64::new(0) }; NR_CPUS];

/// What a CPU has seen of the next one; only that CPU writes it.
struct Watched {
    sign: AtomicU64,
    silence: Count,
}

static WATCHED: [Watched; NR_CPUS] = [const {
    Watched {
        sign: AtomicU64::new(0),
        silence: Count::new(),
    }
}; NR_CPUS];

/// In the timer's interrupt, once there are threads: looks whether the next CPU has served one.
/// Returns when the timer is to interrupt again for this; never, in release builds and with one
/// CPU.
pub fn look() -> u64 {
    let own = cpus::current();
    let after = cpus::others().find(|number| *number > own);
    match after.or_else(|| cpus::others().next()) {
        Some(next) if cfg!(debug_assertions) => {
            add_own(&SIGNS[own], 1);
            look_at(next, &WATCHED[own]);
            timer::now() + PERIOD
        }
        _ => u64::MAX,
    }
}

fn look_at(number: usize, watched: &Watched) {
    let sign = SIGNS[number].load(Relaxed);
    if watched.sign.swap(sign, Relaxed) != sign {
        watched.silence.begin();
    } else if watched.silence.is_too_long(2 * PERIOD) {
        panic!(
            "CPU {number} has served no interrupt for more than {} s",
            LONGEST / 1_000_000_000
        );
    }
}
