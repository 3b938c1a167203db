//! Device registers, reached through the direct map.

use arch_boot::DIRECT_MAP;

/// A device's registers, by the physical address of the first.
#[derive(Clone, Copy)]
pub(crate) struct Mmio(u64);

impl Mmio {
    /// The device at physical address `base`, which the early and the final tables map as device
    /// memory.
    pub(crate) const fn new(base: u64) -> Self {
        Self(DIRECT_MAP + base)
    }
    /// Reads the 32-bit register at byte `offset`.
    pub(crate) fn read(self, offset: u64) -> u32 {
        let value: u32;
        // SAFETY: the window is mapped as device memory. A plain load, which every hypervisor can
        // emulate.
        unsafe {
            core::arch::asm!("ldr {0:w}, [{1}]", out(reg) value, in(reg) self.0 + offset, options(nostack, preserves_flags));
        }
        value
    }
    /// Writes the 32-bit register at byte `offset`.
    pub(crate) fn write(self, offset: u64, value: u32) {
        // SAFETY: as in `read`; what the write does is the driver's business.
        unsafe {
            core::arch::asm!("str {0:w}, [{1}]", in(reg) value, in(reg) self.0 + offset, options(nostack, preserves_flags));
        }
    }
    /// Writes the 64-bit register at byte `offset`.
    pub(crate) fn write64(self, offset: u64, value: u64) {
        // SAFETY: as in `write`.
        unsafe {
            core::arch::asm!("str {0}, [{1}]", in(reg) value, in(reg) self.0 + offset, options(nostack, preserves_flags));
        }
    }
}
