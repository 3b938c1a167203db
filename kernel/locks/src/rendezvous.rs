//! A rendezvous of CPUs: all but one stand still where they hold nothing, while that one looks at
//! what any of them may change.
//!
//! ```text
//! caller                                  another CPU
//! ------                                  -----------
//! arrived = 0
//! asks each ---------------------------->  at a place where it holds nothing:
//! waits until all have arrived <---------  arrived += 1 (release)
//! looks (acquire)                          waits while the turn is what it was
//! turn += 1 (release) ------------------>  goes on (acquire)
//! ```
//!
//! A rendezvous begins only after all have arrived at the one before, so a CPU that is slow to go
//! on cannot take the next one for this.

use crate::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::mutant::{self, Mutant};

/// A place to meet.
#[derive(Debug)]
pub struct Rendezvous {
    /// Changes when the CPUs may go on.
    turn: AtomicU32,
    arrived: AtomicUsize,
}

impl Default for Rendezvous {
    fn default() -> Self {
        Self::new()
    }
}

impl Rendezvous {
    /// Nobody meets.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            turn: AtomicU32::new(0),
            arrived: AtomicUsize::new(0),
        }
    }
    /// Nobody meets (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            turn: AtomicU32::new(0),
            arrived: AtomicUsize::new(0),
        }
    }

    /// Runs `look` while all others stand in [`Self::attend`]. `ask` makes each of them call that
    /// once, with release and acquire on the way, and returns how many they are; `wait` comes
    /// between two looks at whether they have arrived. One caller at a time.
    pub fn meet<R>(
        &self,
        ask: impl FnOnce() -> usize,
        mut wait: impl FnMut(),
        look: impl FnOnce() -> R,
    ) -> R {
        let late = mutant::on(Mutant::CountAfterRequest);
        if !late {
            // Relaxed: `ask` publishes it.
            self.arrived.store(0, Ordering::Relaxed);
        }
        let all = ask();
        if late {
            self.arrived.store(0, Ordering::Relaxed);
        }
        // Acquire pairs with the release in `attend`, of each of them: one adds to the sum of
        // another.
        while self.arrived.load(Ordering::Acquire) != all {
            wait();
        }
        let result = look();
        // Relaxed for the load: only a caller writes it.
        let next = self.turn.load(Ordering::Relaxed).wrapping_add(1);
        self.turn.store(next, Ordering::Release);
        result
    }

    /// Takes part, by a CPU that was asked and holds nothing, until `look` has returned; `wait`
    /// comes between two looks at whether it has.
    pub fn attend(&self, mut wait: impl FnMut()) {
        let arrive = match mutant::on(Mutant::ArriveUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        // Relaxed: it changes only after this CPU has arrived.
        let turn = self.turn.load(Ordering::Relaxed);
        self.arrived.fetch_add(1, arrive);
        if mutant::on(Mutant::AttendWithoutWait) {
            return;
        }
        while self.turn.load(Ordering::Acquire) == turn {
            wait();
        }
    }
}
