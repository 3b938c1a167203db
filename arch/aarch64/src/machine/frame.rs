//! The registers that a trap saves.

use arch_boot::trap::kernel_trap;

/// The general registers of a thread while it is not in user mode. The stubs in `entry` use these
/// offsets.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UserFrame {
    /// x0 to x30.
    pub(crate) x: [u64; 31],
    pub(crate) sp: u64,
    pub(crate) pc: u64,
    pub(crate) pstate: u64,
    /// The kernel stack while user mode runs.
    pub(crate) kernel_sp: u64,
}

impl UserFrame {
    /// Everything zero but pc and sp.
    pub(crate) fn new(pc: u64, sp: u64) -> Self {
        Self {
            x: [0; 31],
            sp,
            pc,
            pstate: 0,
            kernel_sp: 0,
        }
    }

    /// Name and value of each register that is user mode's.
    pub(crate) fn for_each_register(&self, f: &mut dyn FnMut(&'static str, u64)) {
        f("pc", self.pc);
        f("sp", self.sp);
        for (name, value) in NAMES.iter().zip(self.x) {
            f(name, value);
        }
        f("pstate", self.pstate);
    }
}

const NAMES: [&str; 31] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "x30",
];

/// The kernel's own registers, as the vectors save them on its stack.
#[repr(C, align(16))]
pub(crate) struct KernelFrame {
    pub(crate) x: [u64; 31],
    sp: u64,
    pub(crate) pc: u64,
    pstate: u64,
    pub(crate) esr: u64,
    pub(crate) far: u64,
}

impl KernelFrame {
    /// Ends the machine with a report of `what` happened at `addr`.
    pub(crate) fn report(&self, what: &str, addr: u64) -> ! {
        kernel_trap(what, addr, self.pc, self.x[29], &|f| {
            for (name, value) in NAMES.iter().zip(self.x) {
                f(name, value);
            }
            f("sp", self.sp);
            f("pstate", self.pstate);
            f("esr", self.esr);
            f("far", self.far);
        })
    }
}
