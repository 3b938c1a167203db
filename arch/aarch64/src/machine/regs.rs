//! System registers: one macro to read, one to write.

/// Reads a system register by name (or by its `S3_...` encoding).
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading a system register that exists at EL1 changes no memory; names are
        // literals in this crate.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }};
}
pub(crate) use read;

/// Writes a system register. The caller's SAFETY line argues the new value.
macro_rules! write {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: the register and the value are this crate's own choice, made where the macro is
        // used.
        unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}
pub(crate) use write;

pub(crate) use crate::least::field;

/// Waits until the effects of earlier register writes are seen by later instructions.
pub(crate) fn isb() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) }
}

/// Waits until earlier memory accesses and maintenance are complete for the inner shareable domain.
pub(crate) fn dsb_ish() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb ish", options(nostack, preserves_flags)) }
}

/// The program counter and the frame pointer of the code that runs.
#[inline(always)]
pub(crate) fn here() -> (u64, u64) {
    let (pc, fp): (u64, u64);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!("adr {0}, .", "mov {1}, x29", out(reg) pc, out(reg) fp, options(nomem, nostack, preserves_flags))
    };
    (pc, fp)
}
