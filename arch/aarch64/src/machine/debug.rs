//! Breakpoints and watchpoints of the CPU (Arm ARM, D2): a tracer's, for one thread. They are in
//! the CPU only while that thread is in user mode.

use super::regs;
use crate::pte::Format;
use arch_boot::trap::Refused;
use core::arch::asm;
use mm::arch::PteFormat;

/// Of each kind, at most.
const MOST: usize = 16;

/// The two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of the program counter.
    Break,
    /// Of data.
    Watch,
}

impl Kind {
    /// Where ID_AA64DFR0_EL1 has their number, less one.
    fn field(self) -> u32 {
        match self {
            Kind::Break => 12,
            Kind::Watch => 20,
        }
    }

    /// How many this CPU has.
    pub(crate) fn count(self) -> usize {
        regs::field(regs::read!("id_aa64dfr0_el1"), self.field()) as usize + 1
    }

    /// `dbg_info` of `struct user_hwdebug_state`: their number, and the version of the debug
    /// architecture.
    pub(crate) fn info(self) -> u32 {
        // Armv8.4, the last one that debuggers know: later ones have all of it.
        const KNOWN: u64 = 9;
        let version = regs::field(regs::read!("id_aa64dfr0_el1"), 0).min(KNOWN);
        self.count() as u32 | (version as u32) << 8
    }
}

/// One of them: DBGBVR and DBGBCR, or DBGWVR and DBGWCR, as `struct user_hwdebug_state` has them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    pub(crate) address: u64,
    pub(crate) control: u32,
}

impl Slot {
    fn is_enabled(self) -> bool {
        self.control & 1 != 0
    }

    /// EINVAL unless it triggers at user addresses only, at an instruction or at loads and stores.
    fn check(self, kind: Kind) -> Result<(), Refused> {
        let (access, bytes) = (self.control >> 3 & 3, self.control >> 5 & 0xff);
        let fits = match kind {
            Kind::Break => access == 0 && bytes == 0xf && self.address.is_multiple_of(4),
            Kind::Watch => {
                access != 0 && bytes != 0 && self.address.is_multiple_of(4) && is_run(bytes)
            }
        };
        match !self.is_enabled() || fits && self.address < Format::USER_END.0 {
            true => Ok(()),
            false => Err(Refused::Invalid),
        }
    }

    /// The value of its control register: at EL0 only.
    fn hardware(self) -> u64 {
        const EL0: u64 = 2 << 1;
        match self.is_enabled() {
            true => u64::from(self.control & 0x1ff9) | EL0,
            false => 0,
        }
    }
}

/// Whether the bits that are set are neighbours.
fn is_run(bits: u32) -> bool {
    let low = bits >> bits.trailing_zeros();
    low & (low + 1) == 0
}

/// Breakpoints and watchpoints of a thread.
#[derive(Default)]
pub struct Breakpoints {
    at_code: [Slot; MOST],
    at_data: [Slot; MOST],
}

impl Breakpoints {
    /// Number `n`.
    pub(crate) fn get(&self, kind: Kind, n: usize) -> Slot {
        match kind {
            Kind::Break => self.at_code[n],
            Kind::Watch => self.at_data[n],
        }
    }

    /// Sets number `n`. EINVAL: it is none that user mode can have.
    pub(crate) fn set(&mut self, kind: Kind, n: usize, slot: Slot) -> Result<(), Refused> {
        slot.check(kind)?;
        match kind {
            Kind::Break => self.at_code[n] = slot,
            Kind::Watch => self.at_data[n] = slot,
        }
        Ok(())
    }

    /// Puts them into the CPU.
    pub(crate) fn load(&self) {
        for (n, slot) in self.at_code.iter().enumerate().take(Kind::Break.count()) {
            write("b", n, *slot);
        }
        for (n, slot) in self.at_data.iter().enumerate().take(Kind::Watch.count()) {
            write("w", n, *slot);
        }
    }
}

/// Writes a pair of registers, of breakpoints ("b") or watchpoints ("w").
fn write(kind: &str, n: usize, slot: Slot) {
    let (address, control) = (slot.address, slot.hardware());
    macro_rules! pair {
        ($kind:literal, $($n:literal)*) => {
            match n {
                // SAFETY: the CPU has so many; the values are checked, and for EL0 only.
                $($n => unsafe {
                    asm!(
                        concat!("msr dbg", $kind, "vr", $n, "_el1, {0}"),
                        concat!("msr dbg", $kind, "cr", $n, "_el1, {1}"),
                        in(reg) address, in(reg) control, options(nostack, preserves_flags)
                    )
                },)*
                _ => {}
            }
        };
    }
    match kind {
        "b" => pair!("b", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        _ => pair!("w", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
    }
}
