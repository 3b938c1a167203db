//! Traps from kernel mode.

use super::esr::{self, Class};
use super::frame::KernelFrame;
use super::uaccess;
use arch_boot::trap::kernel_fault;
use mm::addr::VirtAddr;

/// Names of the exceptions that kernel mode never takes, for [`el1_stray`].
const KINDS: [&str; 4] = [
    "exception on SP_EL0",
    "interrupt in kernel mode",
    "fast interrupt",
    "system error",
];

/// Handles a synchronous exception in kernel mode: a fault in a uaccess routine, which has a fixup,
/// or a bug.
pub(crate) extern "C" fn el1_sync(frame: &mut KernelFrame) {
    let class = frame.esr >> 26;
    if let Some(fixup) = uaccess::fixup(frame.pc) {
        if class == Class::DATA_ABORT_KERNEL {
            let addr = VirtAddr(esr::untag(frame.far));
            if !(esr::may_resolve(frame.esr) && kernel_fault(addr, esr::access(frame.esr))) {
                frame.pc = fixup;
            }
            return;
        }
        if class == Class::UNKNOWN {
            frame.pc = fixup;
            return;
        }
    }
    frame.report(esr::name(frame.esr), frame.far)
}

/// Reports a kernel stack that ran into its guard page.
pub(crate) extern "C" fn el1_overflow(frame: &mut KernelFrame) -> ! {
    frame.report("kernel stack overflow", frame.far)
}

/// Reports an exception that kernel mode never takes.
pub(crate) extern "C" fn el1_stray(frame: &mut KernelFrame, kind: usize) -> ! {
    frame.report(KINDS[kind & 3], frame.esr)
}
