//! Segments, task state and interrupt gates of a CPU (SDM Vol 3 ch. 3.4.5, 7.14, 8.7).

use super::entry;
use super::percpu::{self, PerCpu};
use super::selectors::{KERNEL_CODE, KERNEL_DATA};
use core::arch::asm;
use core::mem::size_of;
use x86_64::VirtAddr;
use x86_64::instructions::tables::{lgdt, lidt, load_tss};
use x86_64::registers::segmentation::{CS, SS, Segment};
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::SegmentSelector;
use x86_64::structures::tss::TaskStateSegment;

const TSS: u16 = 0x38;

const IST_DOUBLE_FAULT: u8 = 1;
const IST_NMI: u8 = 2;
const IST_DEBUG: u8 = 3;
const IST_MACHINE_CHECK: u8 = 4;

/// Present, type 14 (64-bit interrupt gate: clears IF).
const GATE: u64 = 0x8e00;
const GATE_USER: u64 = 0x6000;

#[repr(C, align(16))]
struct Stack([u8; 8 << 10]);
static mut STACKS: [Stack; 4] = [const { Stack([0; 8 << 10]) }; 4];

#[repr(C, align(4096))]
struct Idt([[u64; 2]; 256]);
static mut IDT: Idt = Idt([[0; 2]; 256]);

/// Fills the interrupt gates and loads the descriptor tables of the boot CPU, with small static
/// emergency stacks until [`set_emergency_stacks`].
///
/// # Safety
/// Once, on the boot CPU, after `percpu::init`, with interrupts off.
pub unsafe fn init() {
    let first = (&raw const STACKS).addr() as u64;
    let size = size_of::<Stack>() as u64;
    // SAFETY: the caller's promise; the table is not in use yet, and the stacks are static.
    unsafe {
        fill_idt();
        load([1, 2, 3, 4].map(|end| first + end * size));
    }
}

/// Loads the descriptor tables of this CPU. `stacks`: upper ends of those for double fault, NMI,
/// debug trap and machine check.
///
/// # Safety
/// Once per CPU, after `percpu::load`, with interrupts off; the stacks are valid for good.
pub unsafe fn load(stacks: [u64; 4]) {
    let cpu = percpu::this();
    // SAFETY: the tables of this CPU's block are not in use yet, and live as long as the CPU uses
    // them, as the gates do.
    unsafe {
        fill_gdt(cpu);
        for (index, top) in [IST_DOUBLE_FAULT, IST_NMI, IST_DEBUG, IST_MACHINE_CHECK]
            .into_iter()
            .zip(stacks)
        {
            set_stack(cpu, index, top);
        }
        lgdt(&pointer(
            (&raw const (*cpu).gdt).addr(),
            size_of::<[u64; 9]>(),
        ));
        CS::set_reg(SegmentSelector(KERNEL_CODE));
        SS::set_reg(SegmentSelector(KERNEL_DATA));
        no_local_table();
        load_tss(SegmentSelector(TSS));
        lidt(&pointer((&raw const IDT).addr(), size_of::<Idt>()));
    }
}

/// Sets the stacks for double fault and NMI: `tops` are their upper ends, with guard pages below
/// the stacks.
pub fn set_emergency_stacks(tops: [u64; 2]) {
    let cpu = percpu::this();
    // SAFETY: this CPU's own task state; the CPU reads it when it takes such a trap, and both old
    // and new stacks are valid.
    unsafe {
        set_stack(cpu, IST_DOUBLE_FAULT, tops[0]);
        set_stack(cpu, IST_NMI, tops[1]);
    }
}

/// Sets the stack of one entry of the interrupt stack table. The address of the CPU's block lies on
/// top of it: the stubs that load GS find it behind the frame.
///
/// # Safety
/// `cpu` is this CPU's block; the stack that ends at `top` is valid, and no such trap is on it.
unsafe fn set_stack(cpu: *mut PerCpu, index: u8, top: u64) {
    let start = top - 16;
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<*mut PerCpu>(start as usize).write(cpu);
        (*cpu).tss.interrupt_stack_table[usize::from(index) - 1] = VirtAddr::new(start);
    }
}

/// Loads a null local descriptor table: a selector that refers to it raises #GP, in user mode and
/// in the kernel.
fn no_local_table() {
    // SAFETY: nothing uses a local table.
    unsafe { asm!("lldt {0:x}", in(reg) 0, options(nostack, preserves_flags)) };
}

fn pointer(base: usize, size: usize) -> DescriptorTablePointer {
    DescriptorTablePointer {
        limit: (size - 1) as u16,
        base: VirtAddr::new(base as u64),
    }
}

/// # Safety
/// `cpu` is this CPU's block and not in use by the CPU yet.
unsafe fn fill_gdt(cpu: *mut PerCpu) {
    // SAFETY: the caller's promise.
    unsafe {
        let tss = (&raw const (*cpu).tss).addr() as u64;
        let limit = size_of::<TaskStateSegment>() as u64 - 1;
        (*cpu).gdt = [
            0,
            0x00af_9b00_0000_ffff, // kernel code: L, DPL 0, accessed
            0x00cf_9300_0000_ffff, // kernel data
            0,
            0,                     // no 32-bit user code
            0x00cf_f300_0000_ffff, // user data, DPL 3
            0x00af_fb00_0000_ffff, // user code: L, DPL 3
            // Available 64-bit TSS, present: type 9; the base in three pieces, its upper half in
            // the next word.
            limit | (tss & 0xff_ffff) << 16 | 0x89 << 40 | (tss >> 24 & 0xff) << 56,
            tss >> 32,
        ];
    }
}

/// # Safety
/// The table is not in use yet.
unsafe fn fill_idt() {
    for vector in 0..256usize {
        let (handler, ist, user) = match vector {
            1 => (entry::debug_stub(), IST_DEBUG, false),
            2 => (entry::nmi_stub(), IST_NMI, false),
            3 => (entry::stub(vector), 0, true), // int3 is allowed in user mode
            8 => (entry::double_fault_stub(), IST_DOUBLE_FAULT, false),
            18 => (entry::machine_check_stub(), IST_MACHINE_CHECK, false),
            _ => (entry::stub(vector), 0, false),
        };
        let flags = GATE | if user { GATE_USER } else { 0 } | u64::from(ist);
        let low = handler & 0xffff
            | u64::from(KERNEL_CODE) << 16
            | flags << 32
            | (handler >> 16 & 0xffff) << 48;
        // SAFETY: the caller's promise.
        unsafe { IDT.0[vector] = [low, handler >> 32] };
    }
}
