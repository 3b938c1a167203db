//! Waits of one CPU for another in the kernel: what the CPU does meanwhile, and a panic with all
//! backtraces when a wait does not end. In debug builds, the same when a CPU serves no interrupt.
//!
//! A CPU that waits spins at first, and sleeps for a short time between two looks if it takes long:
//! where CPUs share those of a host, the one that it waits for may not run, and one that spins
//! leaves it less to run on. Nobody wakes it: who gives a lock back, or has flushed, does not have
//! to find out who waits.
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
use locks::Apart;
use mm::sync::add_own;

/// Between two looks of a CPU at another one, and of one that is woken at the end of its wait, in
/// ns.
pub const PERIOD: u64 = 1_000_000_000;
/// Between two looks of a CPU that sleeps and is not woken, in ns: some times what it takes to fall
/// asleep and wake up.
const NAP: u64 = 100_000;
/// Looks of a CPU before it sleeps.
pub const SPINS: u64 = 1000;

/// By CPU, its wait.
static WAITS: [Apart<Waited>; NR_CPUS] = [const { Apart(Waited::new()) }; NR_CPUS];

/// Waits for `what` another CPU has or does, until `done`; does `meanwhile` after each look in
/// vain. Returns how many there were. With any lock held.
pub fn wait(
    what: &dyn fmt::Display,
    mut done: impl FnMut() -> bool,
    mut meanwhile: impl FnMut(),
) -> u64 {
    let (mut looks, mut slept) = (0, false);
    while !done() {
        meanwhile();
        if looks >= SPINS && may_sleep() {
            sleep_owing(NAP, what);
            slept = true;
        } else {
            spin(looks, what);
        }
        looks += 1;
    }
    if slept {
        awake();
    }
    looks
}

/// Between two looks at `what` another CPU has or does; `looks` came before.
pub fn spin(looks: u64, what: &dyn fmt::Display) {
    arch::cpus::relax();
    let own = cpus::current();
    if let Some(ns) = WAITS[own].spin(looks, timer::now) {
        check(own, ns, what);
    }
}

/// Whether this CPU has a timer and takes interrupts.
fn may_sleep() -> bool {
    cpus::this().state() == cpus::State::Up
}

/// [`sleep`] for a caller that answers requests, and serves nothing else before it calls
/// [`awake`].
pub fn sleep_owing(time: u64, what: &dyn fmt::Display) {
    if sleep(time, what) == Irq::Serial {
        cpus::this().owe_serial();
    }
}

/// Sleeps between two looks at `what` another CPU has or does. Returns what has interrupted the
/// sleep: after `time` ns the timer, which is set for that and for nothing else from now on.
pub fn sleep(time: u64, what: &dyn fmt::Display) -> Irq {
    let (own, now) = (cpus::current(), timer::now());
    timer::set_deadline(Some(now + time));
    check(own, WAITS[own].add(now, PERIOD), what);
    cpu::wait_for_interrupt()
}

/// A wait in which this CPU has slept is over: what has interrupted the sleep is looked after once
/// interrupts are let in again.
pub fn awake() {
    timer::set_deadline(Some(timer::now()));
    arch::cpus::interrupt(cpus::current());
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
static SIGNS: [Apart<AtomicU64>; NR_CPUS] = [const { Apart(AtomicU64::new(0)) }; NR_CPUS];

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
