//! The trap interface of the kernel: `UserContext::run` enters user mode and returns the reason why
//! it was left.

use super::{entry, percpu, regs};

pub use super::context::UserContext;
pub use super::debug::Breakpoints;
pub use super::sigframe::{SIGRETURN_CODE, SIGRETURN_PAGE, min_signal_stack};
pub use arch_boot::trap::{Irq, Refused, SignalFrame, StopAt, Trap};

/// Loads the per-CPU pointer and the vectors, before anything can go wrong.
pub(crate) fn init_early() {
    percpu::init();
    load_vectors();
}

/// Loads this CPU's vectors.
pub(crate) fn load_vectors() {
    regs::write!("vbar_el1", &raw const entry::__vectors as u64);
    regs::isb();
}
