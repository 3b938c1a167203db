//! The kernel lock: most of the kernel runs on one CPU at a time, while the others run user mode,
//! are idle, wait for it, or run what has locks of its own: the scheduler and its timers, page
//! faults, and the system calls that `syscall::is_parallel` names.
//!
//! A thread that gives up the CPU suspends it, and resumes it when it runs again. CPUs get it in
//! the order in which they ask (a ticket lock). While they wait they answer requests of other CPUs;
//! after some time they sleep until it is their turn. It is taken before every other lock.
//!
//! With one CPU there is no lock.

use super::Entry;
use crate::arch::trap::Irq;
use crate::arch::{self, timer};
use crate::base::above::Above;
use crate::base::cpus;
use crate::base::requests;
use crate::base::watchdog::{self, PERIOD, SPINS};
use arch_boot::cpus::NR_CPUS;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, Release},
};
use locks::{Apart, TicketLock, Wait};
use mm::sync::add_own;

/// How long a CPU keeps the lock at least while it is in one call, in ns: to give it to one that
/// sleeps takes as long as some thousand instructions, and a call may offer it more often.
const SHARE: u64 = 500_000;

static LOCK: Apart<TicketLock<NR_CPUS>> = Apart(TicketLock::taken());
/// Whether several CPUs run threads: each entry to the kernel reads it.
static SHARED: Apart<AtomicBool> = Apart(AtomicBool::new(false));
/// Whether several CPUs run threads, so that there is a lock.
#[inline]
pub fn is_shared() -> bool {
    // Relaxed: it changes once, before the second CPU asks for the lock.
    SHARED.load(Relaxed)
}

/// From now on other CPUs may run threads: the CPU that runs has the lock. Called once, by the boot
/// CPU.
pub fn share() {
    held().store(true, Relaxed);
    SHARED.store(true, Release);
}

/// By CPU, whether it has the lock. Only that CPU uses it.
static HELD: [Apart<Holder>; NR_CPUS] = [const {
    Apart(Holder {
        has_it: AtomicBool::new(false),
        since: AtomicU64::new(0),
    })
}; NR_CPUS];

struct Holder {
    has_it: AtomicBool,
    /// When it took the lock, in ns since boot.
    since: AtomicU64,
}

fn own() -> &'static Holder {
    &HELD[cpus::current()]
}

fn held() -> &'static AtomicBool {
    &own().has_it
}

/// Takes the lock. The running CPU does not have it.
#[inline]
pub fn enter() {
    if is_shared() {
        take();
    }
}

/// Takes the lock unless the running CPU has it.
pub fn ensure() {
    if !is_mine() {
        take();
    }
}

/// Whether what the lock covers may be used here: the running CPU has it, or there is none.
#[inline]
pub fn is_mine() -> bool {
    !is_shared() || held().load(Relaxed)
}

/// Gives the lock up, if the running CPU has it; returns whether it had.
#[inline]
pub fn suspend() -> bool {
    is_shared() && held().load(Relaxed) && {
        give();
        true
    }
}

/// Takes the lock again if `suspended` says that it was given up.
#[inline]
pub fn resume(suspended: bool) {
    if suspended {
        take();
    }
}

/// Gives the lock up, on the way to user mode.
#[inline]
pub fn leave() {
    suspend();
}

/// Runs `f` with the lock.
#[inline]
pub fn with<R>(f: impl FnOnce() -> R) -> R {
    if is_mine() {
        return f();
    }
    take();
    let result = f();
    give();
    result
}

/// Lets CPUs that wait have the lock before this one goes on, if it has had it for a while.
pub fn let_others_in() {
    let is_due = || timer::now() - own().since.load(Relaxed) >= SHARE;
    if is_shared() && held().load(Relaxed) && LOCK.is_wanted() && is_due() {
        give();
        take();
    }
}

/// What the lock has cost since boot or since [`forget`]: its holder writes alone.
static COUNTS: Apart<Counts> = Apart(Counts {
    waits: AtomicU64::new(0),
    looks: AtomicU64::new(0),
    taken: AtomicU64::new(0),
});

/// [`Cost`] as it is counted.
struct Counts {
    waits: AtomicU64,
    looks: AtomicU64,
    taken: AtomicU64,
}

/// What the lock has cost.
pub struct Cost {
    /// Times that it was not free.
    pub waits: u64,
    /// Looks at it until it was.
    pub looks: u64,
    /// Times that it was taken.
    pub taken: u64,
}

/// What the lock has cost since boot, or since [`forget`]; with one CPU nothing.
pub fn cost() -> Cost {
    Cost {
        waits: COUNTS.waits.load(Relaxed),
        looks: COUNTS.looks.load(Relaxed),
        taken: COUNTS.taken.load(Relaxed),
    }
}

/// Counts anew. The caller has the lock.
pub fn forget() {
    for counter in [&COUNTS.waits, &COUNTS.looks, &COUNTS.taken] {
        counter.store(0, Relaxed);
    }
}

#[cold]
fn take() {
    assert!(
        mm::sync::held() == 0,
        "the kernel lock is taken inside another"
    );
    let mut waiting = Waiting::default();
    LOCK.take(cpus::current(), SPINS as u32, &mut waiting);
    held().store(true, Relaxed);
    own().since.store(timer::now(), Relaxed);
    add_own(&COUNTS.taken, 1);
    add_own(&COUNTS.waits, u64::from(waiting.looks > 0));
    add_own(&COUNTS.looks, waiting.looks);
    requests::serve();
    waiting.serve();
}

#[cold]
fn give() {
    held().store(false, Relaxed);
    LOCK.give(&mut Waiting::default());
}

/// The running CPU, and what has interrupted it while it waited: served when it has the lock.
#[derive(Default)]
struct Waiting {
    timer: bool,
    serial: bool,
    ipi: bool,
    /// Looks at the lock so far.
    looks: u64,
}

impl Wait for Waiting {
    fn relax(&mut self) {
        requests::serve();
        watchdog::spin(self.looks, &"the kernel lock");
        self.looks += 1;
    }
    fn sleep(&mut self) {
        // What else the timer was set for is looked after once the lock is there.
        self.timer = true;
        self.looks += 1;
        match watchdog::sleep(PERIOD, &"the kernel lock") {
            Irq::Timer => {}
            Irq::Serial => self.serial = true,
            // What the others ask for is answered at once. A thread that came into this CPU's queue
            // is looked after with the lock: the interrupt that told of it is gone.
            Irq::Ipi => {
                self.ipi = true;
                requests::serve();
            }
            _ => {}
        }
    }
    fn wake(&mut self, cpu: usize) {
        arch::cpus::interrupt(cpu);
    }
}

impl Waiting {
    fn serve(&self) {
        if self.timer {
            Above::interrupt(Irq::Timer);
        }
        if self.serial {
            Above::interrupt(Irq::Serial);
        }
        if self.ipi {
            Above::interrupt(Irq::Ipi);
        }
    }
}
