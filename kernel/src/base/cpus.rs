//! The CPUs: what belongs to each of them.
//!
//! Each has its own interrupts, tables and stacks. Until there are threads CPU 0 runs everything,
//! and the others wait for requests (`requests`).

use crate::arch;
use crate::arch::timer;
use arch_boot::cpus::{NR_CPUS, Unfit, ask_to_stop, stopped};
use arch_boot::online;
use arch_boot::waited::Waited;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use locks::Apart;

/// How long CPUs that are asked to stop are waited for, in ns of the one that waits.
const STOP_TIME: u64 = 500_000_000;

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It was not started, or has not come.
    Off = 0,
    /// It runs, or waits for requests.
    Up = 1,
    /// It has come, but lacks a feature that is in use for good.
    Lacking = 2,
    /// It has come, but no interrupt reaches it.
    Unreachable = 3,
}

/// What belongs to one CPU, in cache lines of its own.
#[repr(align(64))]
pub struct PerCpu {
    state: AtomicU8,
    /// Interrupts of its timer before there were threads.
    alarms: AtomicU64,
    /// Its ID and its control registers, as it has read them itself.
    id: AtomicU64,
    controls: [AtomicU64; 4],
    /// The serial line has interrupted it where that could not be served.
    owes_serial: AtomicBool,
}

static CPUS: [PerCpu; NR_CPUS] = [const { PerCpu::new() }; NR_CPUS];
/// CPUs with a number: each entry to the kernel reads it.
static PRESENT: Apart<AtomicUsize> = Apart(AtomicUsize::new(1));

/// Number of CPUs of the machine that have a number, whether they have come up or not.
pub fn present() -> usize {
    PRESENT.load(Ordering::Relaxed)
}

/// Sets how many CPUs have a number; called once, on CPU 0.
pub fn set_present(count: usize) {
    of(0).arrive(Ok(()));
    PRESENT.store(count, Ordering::Relaxed);
}

/// The number of the running CPU.
pub fn current() -> usize {
    // With one CPU a panic may come before it can be asked.
    match present() {
        1 => 0,
        _ => arch::cpus::current(),
    }
}

/// The data of a CPU.
pub fn of(number: usize) -> &'static PerCpu {
    &CPUS[number]
}

/// The data of the running CPU.
pub fn this() -> &'static PerCpu {
    of(current())
}

/// The other CPUs that are up, by number.
pub fn others() -> impl Iterator<Item = usize> {
    let own = current();
    (0..present()).filter(move |number| is_another(*number, own))
}

// Not once for each loop over the others: none is hot.
#[inline(never)]
fn is_another(number: usize, own: usize) -> bool {
    number != own && of(number).state() == State::Up
}

impl PerCpu {
    const fn new() -> PerCpu {
        PerCpu {
            state: AtomicU8::new(State::Off as u8),
            alarms: AtomicU64::new(0),
            id: AtomicU64::new(0),
            controls: [const { AtomicU64::new(0) }; 4],
            owes_serial: AtomicBool::new(false),
        }
    }

    /// Records that this CPU, the running one, has come. Release: with all that it has prepared.
    pub fn arrive(&self, fit: Result<(), Unfit>) {
        self.id.store(arch::cpus::own_id(), Ordering::Relaxed);
        self.record_controls();
        let state = match fit {
            Ok(()) => State::Up,
            Err(Unfit::Lacking) => State::Lacking,
            Err(Unfit::Unreachable) => State::Unreachable,
        };
        self.state.store(state as u8, Ordering::Release);
        if state == State::Up {
            online::come(current());
        }
    }

    fn record_controls(&self) {
        for (word, value) in self.controls.iter().zip(arch::cpus::controls()) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Sets up this CPU, the running one, by the features in use.
    pub fn set_up(&self) {
        arch::cpus::set_up();
        self.record_controls();
    }

    /// What it does.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Off,
            1 => State::Up,
            2 => State::Lacking,
            _ => State::Unreachable,
        }
    }

    /// Interrupts of its timer before there were threads.
    pub fn alarms(&self) -> u64 {
        self.alarms.load(Ordering::Acquire)
    }

    /// Its timer has interrupted, and nothing was set.
    pub fn rang(&self) {
        self.alarms.fetch_add(1, Ordering::Release);
    }

    /// The serial line has interrupted it where that cannot be served: its next interrupt by a CPU
    /// does.
    pub fn owe_serial(&self) {
        self.owes_serial.store(true, Ordering::Relaxed);
    }

    /// Whether it owes that, from now on no more.
    pub fn pay_serial(&self) -> bool {
        let owes = self.owes_serial.load(Ordering::Relaxed);
        if owes {
            self.owes_serial.store(false, Ordering::Relaxed);
        }
        owes
    }

    /// Its ID, as it has read it.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Its control registers, as it has read them.
    pub fn controls(&self) -> [u64; 4] {
        self.controls
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed))
    }
}

/// Stops all other CPUs for good: the machine ends. Returns those that have stopped, a bit each. A
/// CPU that comes second stops itself.
pub fn stop_others() -> u64 {
    if others().next().is_none() {
        return 0;
    }
    if !ask_to_stop(current()) {
        arch::cpus::halt();
    }
    let all = others()
        .inspect(|number| arch::cpus::interrupt_to_stop(*number))
        .count();
    let (waited, mut looks) = (Waited::new(), 0);
    while (stopped().count_ones() as usize) < all
        && waited.spin(looks, timer::now).unwrap_or(0) < STOP_TIME
    {
        arch::cpus::relax();
        looks += 1;
    }
    stopped()
}
