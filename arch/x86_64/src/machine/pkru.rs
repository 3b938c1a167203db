//! PKRU, the register of protection keys (SDM Vol 3A, 4.6.2): for each key a bit that refuses
//! accesses to data, and one that refuses writes.
//!
//! It is always the running thread's: `cpu::switch` exchanges it, and the kernel's own accesses to
//! user memory are refused by it as the thread's are.

use super::features;
use core::arch::asm;
use mm::arch::{Key, Refused};
use x86_64::registers::control::{Cr4, Cr4Flags};

/// As a program, and a signal's handler, finds it: only memory with key 0 may be used (Linux:
/// init_pkru).
pub const INITIAL: u32 = 0x5555_5554;

/// Turns keys on, on CPUs that all have them, or off.
pub fn init() {
    // SAFETY: the bit exists when CPUID says so.
    unsafe { Cr4::update(|f| f.set(Cr4Flags::PROTECTION_KEY_USER, features::get().pku)) };
    write(INITIAL);
}

/// The register; 0, as if nothing were refused, on CPUs without.
#[inline(always)]
pub fn read() -> u32 {
    read_if_there().unwrap_or(0)
}

/// The register of a CPU that has it.
#[inline(always)]
pub fn read_if_there() -> Option<u32> {
    if !features::get().pku {
        return None;
    }
    let value;
    // SAFETY: the instruction exists with PKU, and CR4.PKE is set (`init`).
    unsafe {
        asm!("rdpkru", in("ecx") 0, out("eax") value, out("edx") _, options(nomem, nostack, preserves_flags))
    };
    Some(value)
}

/// Sets the register, on CPUs that have it. Accesses to memory before and after are not reordered
/// with it (SDM Vol 2, "WRPKRU").
#[inline(always)]
pub fn write(value: u32) {
    if features::get().pku {
        // SAFETY: as in `read`; the kernel's own memory has no keys.
        unsafe {
            asm!("wrpkru", in("ecx") 0, in("edx") 0, in("eax") value, options(nostack, preserves_flags))
        };
    }
}

/// Whether the register refuses an access to data by the key.
pub fn refuses(key: Key, write: bool) -> bool {
    let refused = Refused::from_bits_truncate(read() >> shift(key));
    refused.contains(Refused::ACCESS) || write && refused.contains(Refused::WRITE)
}

/// Sets what the register refuses by the key.
pub fn set(key: Key, refused: Refused) {
    let others = read() & !(Refused::all().bits() << shift(key));
    write(others | refused.bits() << shift(key));
}

fn shift(key: Key) -> u32 {
    2 * u32::from(key.0)
}
