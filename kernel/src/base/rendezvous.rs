//! A rendezvous of all CPUs: one looks at what all may change, while the others stand still where
//! they have no lock and are in no function of the memory manager: they come from user mode, are
//! idle, wait for the kernel lock, or let interrupts in between two steps of a call. A CPU that
//! waits for any other lock, or for a flush, answers but does not come before it has what it waits
//! for: something may be half done there.
//!
//! Those that have come answer what the others ask of them, so that these come, too.

use crate::arch;
use crate::base::cpus::{self, Requests};
use crate::base::watchdog::{self, PERIOD, SPINS};
use core::fmt::Display;
use locks::Rendezvous;

static PLACE: Rendezvous = Rendezvous::new();

/// What the watchdog names when it does not end.
const END: &str = "the end of a rendezvous";

/// Runs `look` while all other CPUs that are up stand still. The caller has the kernel lock, so
/// that there is one at a time, and no other lock.
pub fn alone<R>(look: impl FnOnce() -> R) -> R {
    assert!(
        mm::sync::held() == 0,
        "others are waited for with a lock held"
    );
    let wait = patience(&"the CPUs that have not come to a rendezvous", cpus::serve);
    let result = PLACE.meet(|| cpus::ask_others(Requests::MEET), wait, look);
    cpus::others().for_each(arch::cpus::interrupt);
    result
}

/// Takes part in one, on a CPU that was asked, with no lock held. It sleeps when it takes long:
/// where CPUs share those of a host, the one that looks has only what the others leave.
pub fn attend() {
    let mut looks = 0;
    let mut spin = patience(&END, cpus::answer);
    PLACE.attend(|| {
        looks += 1;
        match looks {
            ..SPINS => spin(),
            _ => {
                watchdog::sleep_owing(PERIOD, &END);
                cpus::answer();
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
