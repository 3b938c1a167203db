//! The registers of a CPU that page tables hang from, as the guest writes them.
//!
//! Sources: Intel SDM volume 3A, 5.1.1 "Three Paging Modes" and 5.10.4.1 "Operations that
//! Invalidate TLBs and Paging-Structure Caches"; Arm Architecture Reference Manual (DDI 0487),
//! D24.2, where no write of these registers drops anything.

use crate::flush::Flush;
use crate::walk::Roots;

const CR0_PG: u64 = 1 << 31;
const CR3_KEEP: u64 = 1 << 63;
const CR4_PAE: u64 = 1 << 5;
const CR4_PGE: u64 = 1 << 7;
const CR4_LA57: u64 = 1 << 12;
const CR4_PCIDE: u64 = 1 << 17;
const CR4_SMEP: u64 = 1 << 20;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;
const SCTLR_M: u64 = 1 << 0;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// CR0 (PG).
    Cr0,
    /// CR3, with bit 63 as in the operand of MOV.
    Cr3,
    /// CR4 (PAE, PGE, LA57, PCIDE, SMEP).
    Cr4,
    /// IA32_EFER (LME, NXE); LMA follows from LME and CR0.PG.
    Efer,
    /// SCTLR_EL1 (M).
    Sctlr,
    /// TTBR0_EL1.
    Ttbr0,
    /// TTBR1_EL1.
    Ttbr1,
    /// TCR_EL1.
    Tcr,
}

/// The registers of one CPU; all zero at first: no translation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    values: [u64; 8],
}

impl Control {
    fn value(&self, register: Register) -> u64 {
        self.values[register as usize]
    }

    /// Writes a register; returns what the write drops.
    pub fn write(&mut self, register: Register, value: u64) -> Option<Flush> {
        let before = *self;
        self.values[register as usize] = value;
        let changed = before.value(register) ^ value;
        match register {
            Register::Cr0 => (changed & !value & CR0_PG != 0).then_some(Flush::All),
            Register::Cr3 => self.new_cr3(value),
            Register::Cr4 => {
                let sets = changed & value & CR4_SMEP;
                let clears = changed & !value & CR4_PCIDE;
                let changes = changed & (CR4_PAE | CR4_PGE | CR4_LA57);
                (sets | clears | changes != 0).then_some(Flush::All)
            }
            _ => None,
        }
    }

    /// What MOV to CR3 drops.
    fn new_cr3(&self, value: u64) -> Option<Flush> {
        let has_tags = self.value(Register::Cr4) & CR4_PCIDE != 0;
        match (has_tags, value & CR3_KEEP != 0) {
            (false, _) => Some(Flush::Tag(0)),
            (true, false) => Some(Flush::Tag((value & 0xfff) as u16)),
            (true, true) => None,
        }
    }

    /// What translates addresses now.
    pub fn roots(&self) -> Roots {
        if self.value(Register::Cr0) & CR0_PG != 0 {
            let efer = self.value(Register::Efer);
            let is_long = efer & EFER_LME != 0;
            return Roots::X86_64 {
                cr3: self.value(Register::Cr3),
                cr4: self.value(Register::Cr4),
                efer: efer & !EFER_LMA | if is_long { EFER_LMA } else { 0 },
            };
        }
        if self.value(Register::Sctlr) & SCTLR_M != 0 {
            return Roots::Aarch64 {
                ttbr0: self.value(Register::Ttbr0),
                ttbr1: self.value(Register::Ttbr1),
                tcr: self.value(Register::Tcr),
            };
        }
        Roots::Off
    }
}
