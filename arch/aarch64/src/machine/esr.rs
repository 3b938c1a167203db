//! Decoding of ESR_EL1 (Arm ARM, D24.2.40).

use crate::pte::Format;
use arch_boot::trap::Trap;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use mm::fault::Access;

/// Exception classes, ESR_EL1.EC.
pub(crate) struct Class;
impl Class {
    pub(crate) const UNKNOWN: u64 = 0x00;
    pub(crate) const SVC64: u64 = 0x15;
    pub(crate) const SYSTEM_REGISTER: u64 = 0x18;
    pub(crate) const FETCH_ABORT_USER: u64 = 0x20;
    pub(crate) const FETCH_ABORT_KERNEL: u64 = 0x21;
    pub(crate) const PC_ALIGNMENT: u64 = 0x22;
    pub(crate) const DATA_ABORT_USER: u64 = 0x24;
    pub(crate) const DATA_ABORT_KERNEL: u64 = 0x25;
    pub(crate) const SP_ALIGNMENT: u64 = 0x26;
    pub(crate) const FLOATING_POINT: u64 = 0x2c;
    pub(crate) const HW_BREAKPOINT_USER: u64 = 0x30;
    pub(crate) const STEP_USER: u64 = 0x32;
    pub(crate) const WATCHPOINT_USER: u64 = 0x34;
    pub(crate) const BRK: u64 = 0x3c;
}

/// Write not read, and cache maintenance, which counts as a read.
const WNR: u64 = 1 << 6;
const CM: u64 = 1 << 8;

/// Kinds of abort, the fault status code without its level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AbortKind {
    /// No valid entry, or an address that no table covers.
    Translation,
    /// The access flag is clear, or the permissions forbid it.
    Present,
    Alignment,
    Other(u32),
}

#[inline]
fn kind(esr: u64) -> AbortKind {
    let code = esr & 0x3f;
    // Nearly all are among these, distinguished by one bit.
    if code < 0x10 {
        return match code & 8 {
            0 => AbortKind::Translation,
            _ => AbortKind::Present,
        };
    }
    match code {
        0x29..=0x2b => AbortKind::Translation,
        0x21 => AbortKind::Alignment,
        code => AbortKind::Other(code as u32),
    }
}

/// The kind of access.
#[inline]
pub(crate) fn access(esr: u64) -> Access {
    if matches!(
        esr >> 26,
        Class::FETCH_ABORT_USER | Class::FETCH_ABORT_KERNEL
    ) {
        Access::Exec
    } else if esr & WNR != 0 && esr & CM == 0 {
        Access::Write
    } else {
        Access::Read
    }
}

/// An abort from user mode. For kernel addresses it does not show which are mapped.
#[inline]
pub(crate) fn abort(esr: u64, addr: VirtAddr) -> Trap {
    match kind(esr) {
        kind @ (AbortKind::Translation | AbortKind::Present) => Trap::PageFault {
            addr,
            access: access(esr),
            present: kind == AbortKind::Present && addr < Format::USER_END,
        },
        AbortKind::Alignment => Trap::Alignment { addr },
        AbortKind::Other(code) => Trap::Other(code),
    }
}

/// Whether the memory manager may be able to make the access possible.
pub(crate) fn may_resolve(esr: u64) -> bool {
    matches!(kind(esr), AbortKind::Translation | AbortKind::Present)
}

/// A user address without its tag byte (TBI0); others as they are.
#[inline]
pub(crate) fn untag(addr: u64) -> u64 {
    if addr >> 55 & 1 == 0 {
        addr & 0x00ff_ffff_ffff_ffff
    } else {
        addr
    }
}

/// `si_code` of a trapped floating-point exception: FPE_FLTINV, DIV, OVF, UND, RES by the ISS bits
/// IOF, DZF, OFF, UFF, IXF.
pub(crate) fn fpe_code(esr: u64) -> i32 {
    const CODES: [(u64, i32); 5] = [(1, 7), (2, 3), (4, 4), (8, 5), (16, 6)];
    // FPE_FLTUNK when TFV says that the bits are not valid.
    if esr & 1 << 23 == 0 {
        14
    } else {
        CODES
            .iter()
            .find(|(bit, _)| esr & bit != 0)
            .map_or(14, |(_, code)| *code)
    }
}

/// The name of an exception in kernel mode.
pub(crate) fn name(esr: u64) -> &'static str {
    match (esr >> 26, kind(esr)) {
        (Class::UNKNOWN, _) => "undefined instruction",
        (Class::DATA_ABORT_KERNEL, AbortKind::Translation) if esr & WNR != 0 => {
            "kernel write to an address that is not mapped"
        }
        (Class::DATA_ABORT_KERNEL, AbortKind::Translation) => {
            "kernel read of an address that is not mapped"
        }
        (Class::DATA_ABORT_KERNEL, AbortKind::Present) if esr & WNR != 0 => {
            "kernel write that the mapping forbids"
        }
        (Class::DATA_ABORT_KERNEL, AbortKind::Present) => "kernel read that the mapping forbids",
        (Class::DATA_ABORT_KERNEL, AbortKind::Alignment) => "unaligned kernel access",
        (Class::DATA_ABORT_KERNEL, AbortKind::Other(_)) => "external abort in kernel mode",
        (Class::FETCH_ABORT_KERNEL, _) => "kernel jump to an address that it may not execute",
        (Class::PC_ALIGNMENT, _) => "unaligned kernel pc",
        (Class::SP_ALIGNMENT, _) => "unaligned kernel stack",
        (Class::BRK, _) => "breakpoint in kernel mode",
        _ => "exception in kernel mode",
    }
}
