//! Requests from one CPU to another, what waits for their answers, and what a CPU answers while it
//! waits itself.
//!
//! At a rendezvous of all CPUs one looks at what all may change, while the others stand still where
//! they have no lock and are in no function of the memory manager: they come from user mode, are
//! idle, wait for the kernel lock, or let interrupts in between two steps of a call. A CPU that
//! waits for any other lock, or for a flush, answers but does not come before it has what it waits
//! for: something may be half done there. Those that have come answer what the others ask of them,
//! so that these come, too.

use crate::arch;
use crate::arch::timer;
use crate::base::cpus;
use crate::base::machine::try_mm;
use crate::base::watchdog::{self, PERIOD, SPINS};
use arch_boot::cpus::NR_CPUS;
use bitflags::bitflags;
use core::fmt::Display;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use locks::{Apart, Rendezvous};
use mm::sync::rank;

/// For how long [`Requests::ALARM`] sets a timer, in ns.
const ALARM_TIME: u64 = 100_000;

bitflags! {
    /// Requests to a CPU; one that is not served yet stands for all like it.
    #[derive(Clone, Copy, Debug)]
    pub struct Requests: u32 {
        /// Count it.
        const PING = 1 << 0;
        /// Set the timer, and count its interrupt.
        const ALARM = 1 << 1;
        /// Come to the rendezvous.
        const MEET = 1 << 2;
        /// Set this CPU up by the features in use, before there are threads.
        const SET_UP = 1 << 3;
    }
}

/// What one CPU was asked.
struct Asked {
    /// Not served yet.
    requests: AtomicU32,
    /// Pings that it has answered.
    pings: AtomicU64,
}

static ASKED: [Apart<Asked>; NR_CPUS] = [const {
    Apart(Asked {
        requests: AtomicU32::new(0),
        pings: AtomicU64::new(0),
    })
}; NR_CPUS];

/// Pings that a CPU has answered.
pub fn pings(number: usize) -> u64 {
    ASKED[number].pings.load(Ordering::Acquire)
}

/// Asks another CPU.
pub fn ask(number: usize, what: Requests) {
    // Release pairs with `serve`.
    let requests = &ASKED[number].requests;
    requests.fetch_or(what.bits(), Ordering::Release);
    arch::cpus::interrupt(number);
}

/// Asks all others that are up. Returns how many these are.
pub fn ask_others(what: Requests) -> usize {
    cpus::others().inspect(|number| ask(*number, what)).count()
}

/// A memory barrier on every CPU that is up: what the caller has written before is visible to what
/// they read afterwards, and the other way round. The caller has the kernel lock, so that there is
/// one at a time; CPUs answer in user mode, idle, and while they wait for a lock.
pub fn barrier() {
    fence(Ordering::SeqCst);
    for number in cpus::others() {
        let before = pings(number);
        ask(number, Requests::PING);
        let what = format_args!("CPU {number}, which passes no barrier");
        watchdog::wait(&what, || pings(number) != before, serve);
    }
    fence(Ordering::SeqCst);
}

/// Does what another CPU waits for, while this one waits itself: at any point of the kernel.
pub fn answer() {
    arch::tlb::answer();
    if let Some(mm) = try_mm() {
        mm.answer();
    }
}

/// Serves what the running CPU was asked, with no lock held: in the interrupt, or while it waits
/// for the kernel lock.
pub fn serve() {
    answer();
    // Before the page lists: an answer says that what was asked for before it is done.
    let this = &ASKED[cpus::current()];
    let asked = match this.requests.load(Ordering::Relaxed) {
        0 => Requests::empty(),
        _ => Requests::from_bits_truncate(this.requests.swap(0, Ordering::Acquire)),
    };
    if let Some(mm) = try_mm() {
        mm.drain_if_asked();
    }
    if asked.contains(Requests::SET_UP) {
        cpus::this().set_up();
    }
    if asked.contains(Requests::PING) {
        // A barrier: what follows in user mode, too, comes after the request.
        fence(Ordering::SeqCst);
        this.pings.fetch_add(1, Ordering::Release);
    }
    if asked.contains(Requests::MEET) {
        attend();
    }
    if asked.contains(Requests::ALARM) {
        timer::set_deadline(Some(timer::now() + ALARM_TIME));
    }
}

/// Waits for a lock of `rank`, until `done`. Returns the looks that were in vain.
pub fn wait_for_lock(rank: u8, done: &mut dyn FnMut() -> bool) -> u64 {
    let what = format_args!("a lock of rank {rank}");
    // The one that has it may wait for an answer. Above the console's there are those of the
    // requests themselves, and of the log: who has these waits for nobody, and an answer would
    // take them again.
    match rank <= rank::CONSOLE {
        true => watchdog::wait(&what, done, answer),
        false => watchdog::wait(&what, done, || ()),
    }
}

static PLACE: Rendezvous = Rendezvous::new();

/// What the watchdog names when a rendezvous does not end.
const END: &str = "the end of a rendezvous";

/// Runs `look` while all other CPUs that are up stand still. The caller has the kernel lock, so
/// that there is one at a time, and no other lock.
pub fn rendezvous<R>(look: impl FnOnce() -> R) -> R {
    assert!(
        mm::sync::held() == 0,
        "others are waited for with a lock held"
    );
    let wait = patience(&"the CPUs that have not come to a rendezvous", serve);
    let result = PLACE.meet(|| ask_others(Requests::MEET), wait, look);
    cpus::others().for_each(arch::cpus::interrupt);
    result
}

/// Takes part in one, on a CPU that was asked, with no lock held. It sleeps when it takes long:
/// where CPUs share those of a host, the one that looks has only what the others leave.
fn attend() {
    let mut looks = 0;
    let mut spin = patience(&END, answer);
    PLACE.attend(|| {
        looks += 1;
        match looks {
            ..SPINS => spin(),
            _ => {
                watchdog::sleep_owing(PERIOD, &END);
                answer();
            }
        }
    });
    if looks >= SPINS {
        watchdog::awake();
    }
}

/// What a CPU does between two looks.
fn patience(what: &dyn Display, meanwhile: fn()) -> impl FnMut() {
    let mut looks = 0;
    move || {
        meanwhile();
        watchdog::spin(looks, what);
        looks += 1;
    }
}
