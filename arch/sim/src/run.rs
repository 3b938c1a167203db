//! Code that runs on a chosen CPU, or on several at once.

use crate::machine::Sim;
use mm::arch::PteFormat;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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
        std::thread::scope(|scope| {
            for cpu in 0..cpus {
                let f = &f;
                scope.spawn(move || {
                    self.run_on(cpu);
                    let result = catch_unwind(AssertUnwindSafe(|| f(cpu)));
                    result.unwrap_or_else(|why| threads.fail(why));
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

    /// The body of a loop that waits for another CPU. Panics when one of them has failed.
    pub fn relax(&self) {
        assert!(
            !self.0.threads.failed.load(Ordering::Relaxed),
            "another CPU has failed"
        );
        std::thread::yield_now();
    }

    /// Lets another CPU run at a moment that is as good as any.
    #[inline]
    pub(crate) fn maybe_yield(&self) {
        if self.0.threads.are_several() && self.0.rng.one_in(64) {
            std::thread::yield_now();
        }
    }
}
