//! The machine behind `mm::arch::Machine`: TLB maintenance by broadcast, TTBR0; its memory is in
//! `physmem`.

use super::{features, interrupts, percpu, regs};
use crate::tlbi::{self, Invalidate, RANGE_PAGES};
use arch_boot::online;
use arch_boot::trap::kernel_wait;
use core::arch::asm;
use mm::addr::*;
use mm::arch::*;

/// This machine. A unit value: the state is in hardware.
pub struct Hardware;

impl Machine for Hardware {
    type Pte = crate::pte::Format;
    type Mem = Self;
    type Tlb = Self;
    type Cpu = Self;
    #[inline]
    fn mem(&self) -> &Self {
        self
    }
    #[inline]
    fn tlb(&self) -> &Self {
        self
    }
    #[inline]
    fn cpu(&self) -> &Self {
        self
    }
    /// Does nothing: the kernel half has its own root, TTBR1.
    #[inline]
    fn prepare_root(&self, _root: Pfn) {}
}

/// Above this many entries one flush of the whole address space costs less than one instruction for
/// each, on CPUs without range invalidation: all others take part in each of them.
const SINGLE_FLUSHES: u64 = 32;

/// Runs `tlbi <op>` for an operand; the barriers around a series are the caller's.
macro_rules! tlbi {
    ($op:literal, $operand:expr) => {{
        let operand: u64 = $operand;
        // SAFETY: dropping cached translations is always allowed.
        unsafe { asm!(concat!($op, ", {}"), in(reg) operand, options(nostack, preserves_flags)) };
    }};
}

/// A barrier.
macro_rules! barrier {
    ($op:literal) => {
        // SAFETY: a barrier.
        unsafe { asm!($op, options(nostack, preserves_flags)) }
    };
}

/// Makes entries written before visible to walks after it.
fn before_flush() {
    barrier!("dsb ishst");
}

/// Drops the leaves of a range from this CPU's TLB; the barriers are the caller's.
fn widened_range(asid: Asid, range: VirtRange, stride: Level) {
    let some = each(asid, range, stride, |one| match one {
        Invalidate::Leaf(operand) => tlbi!("tlbi vale1", operand),
        // RVALE1.
        Invalidate::Range(operand) => tlbi!("sys #0, c8, c6, #5", operand),
    });
    if !some {
        tlbi!("tlbi aside1", tlbi::whole(asid));
    }
}

/// Runs the instructions that invalidate the leaves of `stride` in a range. `false`: none, as there
/// are so many that the whole address space costs less.
#[inline(always)]
fn each(asid: Asid, range: VirtRange, stride: Level, mut run: impl FnMut(Invalidate)) -> bool {
    let (first, step) = (range.start.align_down(stride.bytes()).0, stride.bytes());
    let leaves = (range.end.0 - first).div_ceil(step);
    let ranges = leaves > 1 && features::has_tlbi_range();
    if ranges && range.pages() >= RANGE_PAGES || !ranges && leaves > SINGLE_FLUSHES {
        return false;
    }
    if ranges {
        tlbi::ranges(asid, range, run);
    } else {
        for va in (first..range.end.0).step_by(step as usize) {
            run(tlbi::leaf(asid, va >> PAGE_SHIFT));
        }
    }
    true
}

impl Tlb for Hardware {
    fn flush_range(&self, asid: Asid, range: VirtRange, stride: Level, tables: bool) {
        before_flush();
        let some = each(asid, range, stride, |one| match (one, tables) {
            (Invalidate::Leaf(operand), false) => tlbi!("tlbi vale1is", operand),
            (Invalidate::Leaf(operand), true) => tlbi!("tlbi vae1is", operand),
            // RVALE1IS, RVAE1IS.
            (Invalidate::Range(operand), false) => tlbi!("sys #0, c8, c2, #5", operand),
            (Invalidate::Range(operand), true) => tlbi!("sys #0, c8, c2, #1", operand),
        });
        if !some {
            tlbi!("tlbi aside1is", tlbi::whole(asid));
        }
        regs::dsb_ish();
    }
    #[inline]
    fn widened(&self, asid: Asid, range: VirtRange, stride: Level) -> bool {
        // More rights need no break-before-make (D8.16.1). But an entry that gave a permission
        // fault may be in the TLB, and stay there until it is invalidated: only those that give
        // translation, address size or access flag faults never are. In this CPU's TLB alone, so
        // the barriers reach no further; the return to user mode synchronises.
        barrier!("dsb nshst");
        match range.len() == stride.bytes() {
            true => tlbi!("tlbi vale1", tlbi::operand(asid, range.start.page().0)),
            false => widened_range(asid, range, stride),
        }
        barrier!("dsb nsh");
        true
    }
    #[inline(always)]
    fn flush_page(&self, asid: Asid, va: VirtAddr) {
        before_flush();
        tlbi!("tlbi vale1is", tlbi::operand(asid, va.page().0));
        regs::dsb_ish();
    }
    fn flush_asid(&self, asid: Asid) {
        before_flush();
        tlbi!("tlbi aside1is", tlbi::whole(asid));
        regs::dsb_ish();
    }
    fn flush_kernel(&self, range: VirtRange) {
        before_flush();
        if range.pages() > SINGLE_FLUSHES {
            // SAFETY: as in `tlbi!`.
            unsafe { asm!("tlbi vmalle1is", options(nostack, preserves_flags)) };
        } else {
            for va in (range.start.0..range.end.0).step_by(PAGE_SIZE as usize) {
                tlbi!("tlbi vaae1is", va >> PAGE_SHIFT & 0xfff_ffff_ffff);
            }
        }
        regs::dsb_ish();
        regs::isb();
    }
}

/// Does what other CPUs ask this one to drop: nothing, the hardware tells all CPUs.
#[inline]
pub fn answer() {}

impl Cpu for Hardware {
    #[inline]
    fn id(&self) -> usize {
        percpu::number()
    }
    #[inline]
    fn count(&self) -> usize {
        online::count()
    }
    fn asids(&self) -> usize {
        if features::has_asid16() {
            1 << 16
        } else {
            1 << 8
        }
    }
    fn interrupt(&self, number: usize) {
        interrupts::send(number);
    }
    fn wait(&self, done: &mut dyn FnMut() -> bool) {
        kernel_wait(&"another CPU", done);
    }
    fn activate(&self, root: Pfn, asid: Asid) {
        // TCR_EL1.A1 = 0: the ASID comes with TTBR0, in one write.
        regs::write!("ttbr0_el1", u64::from(asid.0) << 48 | root.start().0);
        regs::isb();
        if asid.0 == 0 {
            // The spaces that share the tag are told apart on each CPU for itself. What ended
            // before has been flushed everywhere: until here only tables that are in use are
            // walked.
            barrier!("dsb nshst");
            tlbi!("tlbi aside1", tlbi::whole(asid));
            barrier!("dsb nsh");
            regs::isb();
        }
    }
}
