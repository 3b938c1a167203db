//! Protection keys (pkeys(7)): the calls, and the register of the calling thread, which only x86_64
//! has here.
use super::{Result, call};

/// Refuses all use.
pub const NO_ACCESS: u32 = 1;
/// Refuses writes.
pub const NO_WRITE: u32 = 2;

/// pkey_alloc(2): a key, and what the thread's register refuses by it.
pub fn alloc(flags: usize, refused: usize) -> Result<i32> {
    call(libc::SYS_pkey_alloc, [flags, refused, 0, 0, 0, 0]).map(|key| key as i32)
}

/// pkey_free(2).
pub fn free(key: i32) -> Result<()> {
    call(libc::SYS_pkey_free, [key as usize, 0, 0, 0, 0, 0]).map(|_| ())
}

/// pkey_mprotect(2).
pub fn protect(at: usize, len: usize, prot: i32, key: i32) -> Result<()> {
    let args = [at, len, prot as usize, key as usize, 0, 0];
    call(libc::SYS_pkey_mprotect, args).map(|_| ())
}

/// The register: two bits for each key. Only where [`alloc`] has given a key.
pub fn register() -> u32 {
    // SAFETY: reads a register that user mode may read where there are keys.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        let value;
        std::arch::asm!("rdpkru", in("ecx") 0, out("eax") value, out("edx") _, options(nomem, nostack));
        value
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Sets the register; key 0 must stay usable, as it is that of the program itself.
pub fn set_register(value: u32) {
    assert_eq!(value & 3, 0, "the program would refuse itself its memory");
    // SAFETY: as in `register`; what the program has with key 0 can be used as before.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("wrpkru", in("ecx") 0, in("edx") 0, in("eax") value, options(nostack));
    }
}

/// Sets what the register refuses by one key.
pub fn refuse(key: i32, refused: u32) {
    let others = register() & !(3 << (2 * key));
    set_register(others | refused << (2 * key));
}
