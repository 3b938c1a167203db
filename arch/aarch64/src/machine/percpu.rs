//! What belongs to one CPU, reached through TPIDR_EL1. One CPU today; a second one gets its own
//! block.

use super::regs;

/// One CPU's data; `entry` uses the offsets of the first fields.
#[repr(C, align(64))]
pub(crate) struct PerCpu {
    /// Top of the emergency stack.
    pub(crate) emergency: u64,
    /// A register's value while a vector needs the register.
    pub(crate) scratch: u64,
    /// The address of the `fp::State` that is in the FP/SIMD registers; null when none is.
    pub(crate) fp_owner: *mut (),
}

#[repr(C, align(16))]
struct BootEmergency([u8; 8192]);
static mut BOOT_EMERGENCY: BootEmergency = BootEmergency([0; 8192]);
static mut BOOT_CPU: PerCpu = PerCpu {
    emergency: 0,
    scratch: 0,
    fp_owner: core::ptr::null_mut(),
};

/// This CPU's block.
#[inline]
pub(crate) fn this() -> *mut PerCpu {
    regs::read!("tpidr_el1") as *mut PerCpu
}

/// Points TPIDR_EL1 at this CPU's block, with a small static emergency stack until
/// [`set_emergency_stack`].
pub(crate) fn init() {
    regs::write!("tpidr_el1", &raw mut BOOT_CPU as u64);
    set_emergency_stack(&raw mut BOOT_EMERGENCY as u64 + size_of::<BootEmergency>() as u64);
}

/// Sets the top of the stack on which stack overflows are reported.
pub(crate) fn set_emergency_stack(top: u64) {
    // SAFETY: this CPU's own data; the vectors that read it run on this CPU.
    unsafe { (*this()).emergency = top };
}
