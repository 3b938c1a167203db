//! Host threads as CPUs: the CPU that runs is a property of the thread, and several threads are
//! several CPUs that run at once.
//!
//! What one instruction of user mode does to memory happens with the translation caches of its CPU
//! locked, so a flush, which locks them too, waits for it as a shootdown does. Entries are written
//! with the shadow locked, so that it knows each change in the order in which they are made.

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

std::thread_local! {
    /// The machine whose CPU this thread was last, and the CPU.
    static CURRENT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// What a machine knows of the threads that are its CPUs.
pub(crate) struct Threads {
    /// The number of the machine, from 1.
    machine: usize,
    /// Several threads are its CPUs.
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
        match CURRENT.get() {
            (machine, cpu) if machine == self.machine => cpu,
            _ => 0,
        }
    }
    pub(crate) fn set_current(&self, cpu: usize) {
        CURRENT.set((self.machine, cpu));
    }
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }
    pub(crate) fn fail(&self, why: Box<dyn Any + Send>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(why);
        self.failed.store(true, Ordering::Relaxed);
    }
}
