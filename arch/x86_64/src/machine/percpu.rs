//! What belongs to one CPU, reached through GS while the kernel runs: [`CPU0`] is the boot CPU's
//! block, each other CPU has one of its own.

use core::arch::asm;
use x86_64::registers::model_specific::{GsBase, KernelGsBase};
use x86_64::structures::tss::TaskStateSegment;

/// One CPU's data; `entry` uses the offsets of the first fields and of `tss`.
#[repr(C, align(64))]
pub struct PerCpu {
    /// Its own address, for `this`.
    pub this: *mut PerCpu,
    /// Stack pointer of the kernel thread that called `UserContext::run`.
    pub kernel_sp: u64,
    /// The user's stack pointer while `syscall_entry` has no register free.
    pub user_sp: u64,
    /// Address of the FP area whose state is in the registers; 0 for none.
    pub live: u64,
    /// Vector of the interrupt that ended the last wait; 0: none.
    pub irq: u64,
    /// TSC value of the timer's deadline; `u64::MAX`: never.
    pub deadline: u64,
    /// Non-maskable interrupts so far.
    pub nmis: u64,
    /// The CPU's number.
    pub number: u64,
    /// Tops of the stacks for double fault, NMI, debug trap and machine check.
    pub emergency: [u64; 4],
    /// RSP0 is the end of the running context's register frame: traps from user mode push right
    /// into it.
    pub tss: TaskStateSegment,
    /// The global descriptor table: see `descriptors`.
    pub gdt: [u64; 9],
}

/// Offset of TSS.RSP0 (SDM Vol 3, 8.7: at byte 4 of the TSS).
pub const RSP0: usize = core::mem::offset_of!(PerCpu, tss) + 4;

impl PerCpu {
    /// The block of a CPU that has not run yet; its own address is still missing.
    pub const fn new(number: u64) -> PerCpu {
        PerCpu {
            this: core::ptr::null_mut(),
            kernel_sp: 0,
            user_sp: 0,
            live: 0,
            irq: 0,
            deadline: u64::MAX,
            nmis: 0,
            number,
            emergency: [0; 4],
            tss: TaskStateSegment::new(),
            gdt: [0; 9],
        }
    }
}

/// The boot CPU's block.
static mut CPU0: PerCpu = PerCpu::new(0);

/// Points GS at the boot CPU's block.
///
/// # Safety
/// Called once on the boot CPU, in kernel mode, before anything uses `this`.
pub unsafe fn init() {
    let block = &raw mut CPU0;
    // SAFETY: the only code that runs; the block is static.
    unsafe {
        (*block).this = block;
        load(block);
    }
}

/// Points GS at this CPU's block; the user's GS base starts as 0.
///
/// # Safety
/// Called once on each CPU, in kernel mode, before anything uses `this`. The block is this CPU's
/// alone and lives for ever.
pub unsafe fn load(block: *mut PerCpu) {
    GsBase::write(x86_64::VirtAddr::from_ptr(block));
    KernelGsBase::write(x86_64::VirtAddr::zero());
}

/// The number of this CPU.
#[inline(always)]
pub fn number() -> usize {
    let number: u64;
    // SAFETY: as in `this`; the field was written before the CPU ran Rust code.
    unsafe {
        asm!("mov {}, gs:[{offset}]", out(reg) number, offset = const core::mem::offset_of!(PerCpu, number),
            options(nostack, preserves_flags, readonly))
    };
    number as usize
}

/// This CPU's block. Callers do not keep references into it across `UserContext::run` or a switch.
#[inline(always)]
pub fn this() -> *mut PerCpu {
    let block: *mut PerCpu;
    // SAFETY: GS points at the block whenever Rust code runs in kernel mode.
    unsafe {
        asm!("mov {}, gs:[{offset}]", out(reg) block, offset = const core::mem::offset_of!(PerCpu, this),
            options(nostack, preserves_flags, readonly))
    };
    block
}
