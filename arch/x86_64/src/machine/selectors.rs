//! Segment selectors: offsets in the global descriptor table, which `descriptors` fills.

/// Kernel code; `STAR` derives the kernel's stack segment as the next one.
pub const KERNEL_CODE: u16 = 0x08;
/// Kernel data.
pub const KERNEL_DATA: u16 = 0x10;
/// Base of `SYSRET`'s selectors: user data is the next selector, 64-bit user code the one after
/// (APM Vol 2, 6.1.1).
pub const SYSRET_BASE: u16 = 0x23;
/// User data and stack.
pub const USER_DATA: u16 = 0x2b;
/// User code, 64 bits. There is no 32-bit user code segment, so user mode cannot leave 64-bit mode.
pub const USER_CODE: u16 = 0x33;
