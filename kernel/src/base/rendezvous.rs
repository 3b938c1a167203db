//! A rendezvous of all CPUs: one looks at what all may change, while the others stand still where
//! they have no lock and are in no function of the memory manager: they come from user mode, are
//! idle, wait for the kernel lock, or let interrupts in between two steps of a call. A CPU that
//! waits for any other lock, or for a flush, answers but does not come before it has what it waits
//! for: something may be half done there.
//!
//! Those that have come answer what the others ask of them, so that these come, too.

use crate::base::cpus::{self, Requests};
use crate::base::watchdog;
use core::fmt::Display;
use locks::Rendezvous;

static PLACE: Rendezvous = Rendezvous::new();

/// Runs `look` while all other CPUs that are up stand still. The caller has the kernel lock, so
/// that there is one at a time, and no other lock.
pub fn alone<R>(look: impl FnOnce() -> R) -> R {
    assert!(
        mm::sync::held() == 0,
        "others are waited for with a lock held"
    );
    let wait = patience(&"the CPUs that have not come to a rendezvous", cpus::serve);
    PLACE.meet(|| cpus::ask_others(Requests::MEET), wait, look)
}

/// Takes part in one, on a CPU that was asked, with no lock held.
pub fn attend() {
    PLACE.attend(patience(&"the end of a rendezvous", cpus::answer));
}

/// What a CPU does between two looks.
fn patience(what: &dyn Display, meanwhile: fn()) -> impl FnMut() {
    let mut looks = 0;
    move || {
        meanwhile();
        watchdog::wait(looks, what);
        looks += 1;
    }
}
