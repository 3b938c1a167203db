//! What a CPU that starts is given: `head` reads it on that CPU.

use super::regs;
use arch_boot::cpus::Claim;
use core::arch::asm;
use core::mem::offset_of;
use mm::addr::PhysAddr;

/// What the CPU that starts is given.
#[repr(C, align(64))]
pub(super) struct Launch {
    /// The only CPU that may go on, by the affinity fields of its MPIDR_EL1.
    pub(super) id: u64,
    /// Top of its stack.
    pub(super) stack: u64,
    /// Address of its per-CPU block.
    pub(super) block: u64,
    /// Physical address of the kernel half's root. Read with the caches off.
    pub(super) root: u64,
    pub(super) claim: Claim,
}

/// For the one CPU that is being started. Not in .bss, which is zeroed early.
#[unsafe(link_section = ".data.launch")]
pub(super) static mut LAUNCH: Launch = Launch {
    id: 0,
    stack: 0,
    block: 0,
    root: 0,
    claim: Claim::closed(),
};

fn launch() -> *mut Launch {
    &raw mut LAUNCH
}

fn claim() -> &'static Claim {
    // SAFETY: static, and only used as an atomic.
    unsafe { &(*launch()).claim }
}

/// Lets one CPU come.
///
/// # Safety
/// No CPU is being started. The stack is mapped and not in use; the block is for this CPU alone.
pub(super) unsafe fn open(id: u64, stack: u64, block: u64) {
    let launch = launch();
    let root = regs::read!("ttbr1_el1") & 0xffff_ffff_f000;
    // SAFETY: the claim is closed, so no other CPU reads these.
    unsafe {
        (*launch).id = id;
        (*launch).stack = stack;
        (*launch).block = block;
        (*launch).root = root;
    }
    claim().open();
    clean(launch as u64 + offset_of!(Launch, root) as u64);
}

/// Gives up the CPU that [`open`] was for. False: it has come.
pub(super) fn close() -> bool {
    claim().close()
}

/// Writes the cache line at an address back to memory, for a reader without caches.
fn clean(at: u64) {
    // SAFETY: cleaning changes no memory; the line is mapped.
    unsafe { asm!("dc civac, {}", "dsb sy", in(reg) at, options(nostack, preserves_flags)) };
}

/// Writes the entry point to a spin table's address, and wakes the CPUs that look there.
///
/// # Safety
/// The address is RAM that is kept for this.
pub(super) unsafe fn release(at: PhysAddr, entry: PhysAddr) {
    let slot = arch_boot::DIRECT_MAP + at.0;
    // SAFETY: the caller's promise.
    unsafe { (slot as *mut u64).write_volatile(entry.0) };
    clean(slot);
    // SAFETY: an event to all CPUs.
    unsafe { asm!("sev", options(nomem, nostack, preserves_flags)) };
}
