//! What another CPU does while this one is at a given point.

use crate::machine::Sim;
use mm::arch::PteFormat;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A point at which a CPU may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Frames are filled with zeros.
    Zero,
    /// An entry is loaded.
    Load,
    /// A range is flushed.
    Flush,
}

struct Waiting {
    at: At,
    locks: usize,
    n: usize,
    other: Box<dyn FnOnce() + Send>,
}

/// What waits for its point.
#[derive(Default)]
pub(crate) struct Meanwhile {
    /// Whether there is something, for loads, of which there are many.
    any: AtomicBool,
    waiting: Mutex<Option<Waiting>>,
}

impl<F: PteFormat> Sim<F> {
    /// Calls `other` before the `n`th time from now on, counted from 1, that a CPU which holds so
    /// many locks comes to this point.
    pub fn meanwhile(
        &self,
        at: At,
        (locks, n): (usize, usize),
        other: impl FnOnce() + Send + 'static,
    ) {
        let other = Box::new(other);
        self.change(|waiting| {
            *waiting = Some(Waiting {
                at,
                locks,
                n,
                other,
            });
        });
        self.0.meanwhile.any.store(true, Ordering::Relaxed);
    }
    /// Forgets it; returns whether it was still to be done.
    pub fn forget(&self) -> bool {
        self.0.meanwhile.any.store(false, Ordering::Relaxed);
        self.change(Option::take).is_some()
    }
    /// A CPU is at this point.
    pub(crate) fn comes_to(&self, at: At) {
        if !self.0.meanwhile.any.load(Ordering::Relaxed) {
            return;
        }
        let locks = mm::sync::held();
        // Taken out of the lock: it comes to such points, too.
        let now = self.change(|waiting| {
            waiting.take_if(|waiting| {
                waiting.n -= usize::from((waiting.at, waiting.locks) == (at, locks));
                waiting.n == 0
            })
        });
        if let Some(now) = now {
            (now.other)();
        }
    }
    fn change<R>(&self, f: impl FnOnce(&mut Option<Waiting>) -> R) -> R {
        let waiting = &self.0.meanwhile.waiting;
        f(&mut waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
