//! Quire's kernel.
#![no_std]
#![no_main]
extern crate alloc;

#[cfg(target_arch = "aarch64")]
use arch_aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use arch_x86_64 as arch;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    arch::cpu::exit(101)
}
