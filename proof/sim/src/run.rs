//! Code that runs on a chosen CPU, or on several at once.

use crate::machine::Sim;
use crate::meanwhile::At;
use crate::threads::{scope, yield_now};
use mm::arch::PteFormat;
use std::panic::resume_unwind;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl<F: PteFormat> Sim<F> {
    /// Makes `cpu` the CPU that this thread is from here on.
    pub fn run_on(&self, cpu: usize) {
        assert!(cpu < self.options().cpus);
        self.0.threads.set_current(cpu);
    }

    /// Runs `f` on CPUs `0..cpus` at once, each a thread of the host. Returns when all have ended;
    /// the first panic is this call's. What waits for another CPU calls [`Self::relax`].
    pub fn together(&self, cpus: usize, f: impl Fn(usize) + Sync) {
        let threads = &self.0.threads;
        threads.several.store(true, Ordering::Relaxed);
        scope(|scope| {
            for cpu in 0..cpus {
                let f = &f;
                scope.spawn(move || {
                    self.run_on(cpu);
                    threads.run(|| f(cpu));
                });
            }
        });
        threads.several.store(false, Ordering::Relaxed);
        let failure = &threads.failure;
        if let Some(why) = failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            resume_unwind(why);
        }
    }

    /// Calls `other` before the `n`th time from now on, counted from 1, that a CPU which holds so
    /// many locks comes to this point.
    pub fn meanwhile(
        &self,
        at: At,
        locks_and_n: (usize, usize),
        other: impl FnOnce() + Send + 'static,
    ) {
        self.0.meanwhile.wait(at, locks_and_n, Box::new(other));
    }
    /// Forgets that; returns whether it was still to be done.
    pub fn forget(&self) -> bool {
        self.0.meanwhile.forget()
    }

    /// The body of a loop that waits for another CPU. Panics when one of them has failed.
    pub fn relax(&self) {
        assert!(
            !self.0.threads.failed.load(Ordering::Relaxed),
            "another CPU has failed"
        );
        yield_now();
    }

    /// Lets another CPU run at a moment that is as good as any.
    #[inline]
    pub(crate) fn maybe_yield(&self) {
        if self.0.threads.are_several() && self.0.rng.one_in(64) {
            yield_now();
        }
    }
}
