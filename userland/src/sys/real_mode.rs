//! Entry to virtual-8086 mode by IRETD, which QEMU allows from long mode, too.

/// Whether the machine has the instruction at all.
pub const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Where the stack for IRETD is: the instruction uses 32 bits of the stack pointer.
const STACK: usize = 0x2000_0000;

/// Goes to `segment:offset` in virtual-8086 mode, with all segments the same. Does not return on
/// success.
#[cfg(target_arch = "x86_64")]
pub fn enter(segment: u16, offset: u16) -> super::Result<()> {
    use super::mem::{ANON, PAGE, RW, mmap};
    /// EFLAGS: VM, IOPL 3, IF, and bit 1, which is always set.
    const FLAGS: u32 = 1 << 17 | 3 << 12 | 1 << 9 | 1 << 1;
    mmap(STACK, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    let all = u32::from(segment);
    // Offset, CS, flags, SP, SS, ES, DS, FS, GS: SDM Vol 2, "IRET".
    let frame = [
        u32::from(offset),
        all,
        FLAGS,
        0x1000,
        all,
        all,
        all,
        all,
        all,
    ];
    let at = STACK + PAGE / 2;
    super::mem::copy_to(at, frame.map(u32::to_le_bytes).as_flattened());
    // SAFETY: what comes after the instruction is a trap, which ends the process.
    unsafe { std::arch::asm!("mov rsp, {}", "iretd", in(reg) at, options(noreturn)) }
}

/// There is no such mode on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn enter(_segment: u16, _offset: u16) -> super::Result<()> {
    let _ = STACK;
    Err(super::Errno(libc::ENOSYS))
}
