//! Context switch: the CPU leaves one kernel stack for another.

#![allow(unsafe_code)]

use super::Entry;
use super::entity::Entity;
use crate::arch::cpu::{self, KernelContext};
use crate::base::above::Above;
use core::cell::UnsafeCell;

/// Saved context of a thread that does not run.
pub struct Context(UnsafeCell<KernelContext>);

// SAFETY: only `switch` looks inside, and only for a thread that the scheduler has taken out of its
// queue (`to`) or that runs on this CPU (`from`): never two CPUs at once.
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

/// Two ends of a switch, without references, so that nothing is held across it.
pub struct Switch {
    from: *mut KernelContext,
    to: *const KernelContext,
    to_stack_top: u64,
}

impl Switch {
    /// From the thread that runs to one that was taken from the queue. Both are kept alive by the
    /// scheduler: `to` as its current thread, `from` as its previous one until the other side of
    /// the switch has dropped it.
    pub fn new(from: &Entity, to: &Entity) -> Self {
        Self {
            from: from.context.0.get(),
            to: to.context.0.get(),
            to_stack_top: to.stack_top(),
        }
    }

    /// From the boot stack, to which no thread returns.
    pub fn first(to: &Entity) -> Self {
        static BOOT: Context = Context(UnsafeCell::new(KernelContext::running()));
        Self {
            from: BOOT.0.get(),
            to: to.context.0.get(),
            to_stack_top: to.stack_top(),
        }
    }

    /// Goes there; returns when another thread switches back.
    pub fn go(self) {
        // SAFETY: `new` took both from live tasks, and the scheduler keeps both alive across the
        // switch (see there); `to` is not running, so its context was made by `KernelContext::new`
        // or saved by an earlier switch.
        unsafe { cpu::switch(self.from, self.to, self.to_stack_top) }
    }
}
