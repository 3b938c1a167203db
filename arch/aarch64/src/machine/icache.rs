//! Instruction and data caches: before user mode may execute a page, what the kernel wrote into it
//! is cleaned to the point of unification and old instructions are dropped, unless CTR_EL0 says
//! that the hardware does it (IDC, DIC).

use super::regs;
use crate::pte::bits;
use arch_boot::DIRECT_MAP;
use core::arch::asm;
use mm::addr::PhysAddr;
use mm::arch::Level;

/// CTR_EL0: data need not be cleaned; instructions need not be invalidated.
const IDC: u64 = 1 << 28;
const DIC: u64 = 1 << 29;

/// A leaf that user mode may execute: valid, EL0, not UXN. Tables have no shareability.
#[inline]
fn executable(raw: u64) -> bool {
    raw & (bits::VALID | bits::AP_USER | bits::SH_INNER | bits::UXN)
        == bits::VALID | bits::AP_USER | bits::SH_INNER
}

/// Called with an entry that is about to be written.
#[inline]
pub(crate) fn before_mapping(raw: u64) {
    if executable(raw) {
        synchronise(raw);
    }
}

/// What was written to a page may be code that user mode executes already.
pub(crate) fn after_writing(at: PhysAddr) {
    synchronise(at.0 & bits::ADDRESS | bits::TABLE_OR_PAGE);
}

#[cold]
fn synchronise(raw: u64) {
    let ctr = regs::read!("ctr_el0");
    if ctr & (IDC | DIC) == IDC | DIC {
        return;
    }
    let level = if raw & bits::TABLE_OR_PAGE != 0 {
        Level::Pte
    } else {
        Level::Pmd
    };
    let start = DIRECT_MAP + (raw & bits::ADDRESS);
    let end = start + level.bytes();
    if ctr & IDC == 0 {
        // DminLine: log2 of the words in the smallest line.
        let line = 4u64 << (ctr >> 16 & 0xf);
        for at in (start..end).step_by(line as usize) {
            // SAFETY: cleaning changes no memory; the direct map covers every folio.
            unsafe { asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags)) };
        }
    }
    regs::dsb_ish();
    if ctr & DIC == 0 {
        // Whole: user mode knows the page by an address that is not ours.
        // SAFETY: instructions are fetched again.
        unsafe { asm!("ic ialluis", options(nostack, preserves_flags)) };
        regs::dsb_ish();
    }
    regs::isb();
}
