//! What another CPU does while this one is at a given point.

use mm::sync::{AtomicBool, Ordering};
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
    /// Whether there is something, for loads, of which there are many. In the models others may run
    /// at each look at it.
    any: AtomicBool,
    waiting: Mutex<Option<Waiting>>,
}

impl Meanwhile {
    /// Calls `other` before the `n`th time from now on that a CPU comes to this point.
    pub(crate) fn wait(&self, at: At, (locks, n): (usize, usize), other: Box<dyn FnOnce() + Send>) {
        let now = Waiting {
            at,
            locks,
            n,
            other,
        };
        self.change(|waiting| *waiting = Some(now));
        self.any.store(true, Ordering::Relaxed);
    }
    /// Forgets it; returns whether it was still to be done.
    pub(crate) fn forget(&self) -> bool {
        self.any.store(false, Ordering::Relaxed);
        self.change(Option::take).is_some()
    }
    /// This CPU is at the point.
    pub(crate) fn comes_to(&self, at: At) {
        if !self.any.load(Ordering::Relaxed) {
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
        f(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
