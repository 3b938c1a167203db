//! What belongs to one CPU, reached through TPIDR_EL1: a static block for the boot CPU, one of its
//! own for each other CPU.

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
    /// The CPU's number.
    pub(crate) number: u64,
}

impl PerCpu {
    /// The block of a CPU whose emergency stack ends at `emergency`.
    pub(crate) const fn new(number: u64, emergency: u64) -> PerCpu {
        PerCpu {
            emergency,
            scratch: 0,
            fp_owner: core::ptr::null_mut(),
            number,
        }
    }
}

#[repr(C, align(16))]
struct BootEmergency([u8; 8192]);
static mut BOOT_EMERGENCY: BootEmergency = BootEmergency([0; 8192]);
static mut BOOT_CPU: PerCpu = PerCpu::new(0, 0);

/// This CPU's block.
#[inline]
pub(crate) fn this() -> *mut PerCpu {
    regs::read!("tpidr_el1") as *mut PerCpu
}

/// The number of this CPU.
#[inline]
pub fn number() -> usize {
    // SAFETY: this CPU's own field, written before it ran Rust code.
    unsafe { (*this()).number as usize }
}

/// Points TPIDR_EL1 at this CPU's block.
pub(crate) fn load(block: *mut PerCpu) {
    regs::write!("tpidr_el1", block as u64);
}

/// Points TPIDR_EL1 at the boot CPU's block, with a small static emergency stack until
/// [`set_emergency_stack`].
pub(crate) fn init() {
    load(&raw mut BOOT_CPU);
    set_emergency_stack(&raw mut BOOT_EMERGENCY as u64 + size_of::<BootEmergency>() as u64);
}

/// Sets the top of the stack on which stack overflows are reported.
pub(crate) fn set_emergency_stack(top: u64) {
    // SAFETY: this CPU's own data; the vectors that read it run on this CPU.
    unsafe { (*this()).emergency = top };
}
