//! Waits of one CPU for another in the kernel: what the CPU does meanwhile, and a panic with all
//! backtraces when a wait does not end. In debug builds, the same when a CPU serves no interrupt.
//!
//! Only time in which the CPU that counts was running itself counts: a machine that was stopped, or
//! had no CPU of its host, has not hung.

use crate::arch::trap::Irq;
use crate::arch::{self, cpu, timer};
use crate::base::cpus;
use arch_boot::cpus::NR_CPUS;
use arch_boot::waited::{LONGEST, Waited};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::{add_own, rank};

/// Between two looks of a CPU at another one, and of one that waits asleep, in ns.
const PERIOD: u64 = 1_000_000_000;

/// By CPU, its wait.
static WAITS: [Waited; NR_CPUS] = [const { Waited::new() }; NR_CPUS];

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
    let own = cpus::current();
    if let Some(ns) = WAITS[own].spin(looks, timer::now) {
        check(own, ns, what);
    }
}

/// The same for a CPU that sleeps in between; it has spun before. Returns what has interrupted the
/// sleep: at the latest the timer, which is set for that and for nothing else from now on.
pub fn sleep(what: &dyn fmt::Display) -> Irq {
    let (own, now) = (cpus::current(), timer::now());
    timer::set_deadline(Some(now + PERIOD));
    check(own, WAITS[own].add(now, PERIOD), what);
    cpu::wait_for_interrupt()
}

/// Panics if the wait of this CPU, `own`, has taken too long.
fn check(own: usize, ns: u64, what: &dyn fmt::Display) {
    add_own(&SIGNS[own], 1);
    if ns > LONGEST {
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
    silence: Waited,
}

static WATCHED: [Watched; NR_CPUS] = [const {
    Watched {
        sign: AtomicU64::new(0),
        silence: Waited::new(),
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
        watched.silence.begin(timer::now());
    } else if watched.silence.add(timer::now(), 2 * PERIOD) > LONGEST {
        panic!(
            "CPU {number} has served no interrupt for more than {} s",
            LONGEST / 1_000_000_000
        );
    }
}
