//! Host threads as CPUs: the CPU that runs is a property of the thread, and several threads are
//! several CPUs that run at once.
//!
//! What one instruction of user mode does to memory happens with the translation caches of its CPU
//! locked, so a flush, which locks them too, waits for it as a shootdown does. Entries are written
//! with the shadow locked, so that it knows each change in the order in which they are made.
//!
//! In the models (`--cfg shuttle`) they are shuttle's threads, of which one runs at a time: another
//! one may come in at each atomic of the memory manager and at each entry that it loads or stores.

use mm::sync::AtomicBool;
#[cfg(shuttle)]
use shuttle::thread_local;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
#[cfg(not(shuttle))]
use std::thread_local;

#[cfg(shuttle)]
pub(crate) use shuttle::thread::{scope, yield_now};
#[cfg(not(shuttle))]
pub(crate) use std::thread::scope;

/// Lets other threads run. One that yields beside busy programs goes on after their time slices;
/// one that sleeps goes on when it wakes.
#[cfg(not(shuttle))]
pub(crate) fn yield_now() {
    std::thread::sleep(std::time::Duration::from_micros(20));
}

thread_local! {
    /// The machine whose CPU this thread was last, and the CPU.
    static CURRENT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// What a machine knows of the threads that are its CPUs.
pub(crate) struct Threads {
    /// The number of the machine, from 1.
    machine: usize,
    /// Several threads are its CPUs. In the models others may run at each look at it.
    pub(crate) several: AtomicBool,
    /// The first failure of one of them.
    pub(crate) failure: Mutex<Option<Box<dyn Any + Send>>>,
    pub(crate) failed: AtomicBool,
}

impl Threads {
    pub(crate) fn new() -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        Threads {
            machine: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            several: AtomicBool::new(false),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
        }
    }
    /// The CPU that this thread is; CPU 0 where none was chosen.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        match CURRENT.with(Cell::get) {
            (machine, cpu) if machine == self.machine => cpu,
            _ => 0,
        }
    }
    pub(crate) fn set_current(&self, cpu: usize) {
        CURRENT.with(|current| current.set((self.machine, cpu)));
    }
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }
    /// Runs what one of them does. A failure is kept until all have ended; in the models it ends
    /// everything at once.
    pub(crate) fn run(&self, f: impl FnOnce()) {
        if cfg!(shuttle) {
            return f();
        }
        catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|why| self.fail(why));
    }
    fn fail(&self, why: Box<dyn Any + Send>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(why);
        self.failed.store(true, Ordering::Relaxed);
    }
}
