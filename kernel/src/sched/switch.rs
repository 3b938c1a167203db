//! Context switch: the CPU leaves one kernel stack for another.

#![allow(unsafe_code)]

use super::{Entry, Task};
use crate::arch::cpu::{self, KernelContext};
use crate::base::above::Above;
use crate::base::cpus;
use alloc::sync::Arc;
use arch_boot::cpus::NR_CPUS;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use locks::Apart;

/// Saved context of a thread that does not run.
pub struct Context(UnsafeCell<KernelContext>);

// SAFETY: only `switch` looks inside, and only for a thread that the scheduler has taken out of a
// queue (`to`), that runs on this CPU (`from`), or for this CPU's idle loop: never two CPUs at
// once.
unsafe impl Sync for Context {}
// SAFETY: a saved stack pointer is good on any CPU.
unsafe impl Send for Context {}

impl Context {
    /// A context that starts in [`Entry::THREAD_MAIN`] on the stack whose top is `stack_top`.
    pub(super) fn new(stack_top: u64) -> Self {
        Self(UnsafeCell::new(KernelContext::new(
            stack_top,
            <Above as Entry>::THREAD_MAIN,
            0,
        )))
    }
}

impl Context {
    /// Where a thread that does not run waits: its pc and its frame pointer.
    pub(super) fn waits_at(&self) -> Option<(u64, u64)> {
        // SAFETY: the caller knows that it does not run, so that its registers are saved; should
        // another CPU let it run now, what is read is of the past, and is only looked up.
        unsafe { (*self.0.get()).waits_at() }
    }
}

/// By CPU, the thread that runs; null in the idle loop. Only that CPU uses it.
static CURRENT: [Apart<AtomicPtr<Task>>; NR_CPUS] =
    [const { Apart(AtomicPtr::new(null_mut())) }; NR_CPUS];

/// The thread that runs on this CPU; `None` in the idle loop and before the first.
#[inline]
pub fn current() -> Option<Arc<Task>> {
    let running = CURRENT[cpus::current()].load(Relaxed);
    // SAFETY: the run queue of this CPU has a reference until the CPU runs another thread, and the
    // kernel is not preempted: it is alive here, and this makes a reference of its own.
    (!running.is_null()).then(|| unsafe {
        Arc::increment_strong_count(running);
        Arc::from_raw(running)
    })
}

/// Sets what [`current`] says on this CPU, which keeps a reference until it is set again.
pub(super) fn set_current(task: Option<&Arc<Task>>) {
    let running = task.map_or(null_mut(), |task| Arc::as_ptr(task).cast_mut());
    CURRENT[cpus::current()].store(running, Relaxed);
}

/// Two ends of a switch, without references, so that nothing is held across it.
pub struct Switch {
    from: *mut KernelContext,
    to: *const KernelContext,
    to_stack_top: u64,
}

/// By CPU, what it does on the stack on which it booted.
static IDLE: [Context; NR_CPUS] =
    [const { Context(UnsafeCell::new(KernelContext::running())) }; NR_CPUS];

impl Switch {
    /// From the thread that runs to one that was taken from a queue, with the top of its kernel
    /// stack; `None`: from or to the idle loop of this CPU. Both threads are kept alive by the
    /// scheduler: `to` as its current thread, `from` as its previous one until the other side of
    /// the switch has dropped it.
    pub fn new(from: Option<&Context>, to: Option<(&Context, u64)>, cpu: usize) -> Self {
        // The idle loop never enters user mode.
        let (to, to_stack_top) = to.unwrap_or((&IDLE[cpu], 0));
        Self {
            from: from.unwrap_or(&IDLE[cpu]).0.get(),
            to: to.0.get(),
            to_stack_top,
        }
    }

    /// Goes there; returns when another thread switches back.
    pub fn go(self) {
        // SAFETY: `new` took both from live tasks, and the scheduler keeps both alive across the
        // switch (see there), or from this CPU's idle loop; `to` is not running, so its context was
        // made by `KernelContext::new` or saved by an earlier switch.
        unsafe { cpu::switch(self.from, self.to, self.to_stack_top) }
    }
}
