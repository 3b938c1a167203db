//! Breakpoints and watchpoints of the CPU (SDM Vol 3, 18.2): a tracer's, for one thread. They are
//! in the CPU only while that thread is in user mode.

use super::frame::TrapFrame;
use crate::pte::Format;
use arch_boot::trap::{Refused, Trap};
use core::arch::asm;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use x86_64::registers::debug::{
    DebugAddressRegister, Dr0, Dr1, Dr2, Dr3, Dr6, Dr6Flags, Dr7, Dr7Value,
};
use x86_64::registers::rflags::RFlags;

/// DR0 to DR3, DR6 and DR7 of a thread, as `u_debugreg` of ptrace(2) has them.
#[derive(Default)]
pub struct Breakpoints {
    addresses: [u64; 4],
    status: u64,
    control: u64,
}

/// When a breakpoint triggers, two bits of DR7.
const EXECUTE: u64 = 0;
const IO: u64 = 2;
/// Bit 10 of DR7, which is always set.
const DR7_IDLE: u64 = 1 << 10;
/// What DR6 reads as when nothing has happened.
const DR6_IDLE: u64 = 0xffff_0ff0;

impl Breakpoints {
    /// Debug register `n`.
    pub fn get(&self, n: usize) -> u64 {
        match n {
            0..4 => self.addresses[n],
            6 => self.status,
            7 => self.control,
            _ => 0,
        }
    }

    /// Sets debug register `n`. Nothing changes when an enabled breakpoint would not be valid.
    pub fn set(&mut self, n: usize, value: u64) -> Result<(), Refused> {
        let (addresses, control) = (self.addresses, self.control);
        match n {
            0..4 => self.addresses[n] = value,
            6 => self.status = value,
            7 => self.control = value,
            _ => return Err(Refused::Io),
        }
        if n < 4 && value >= Format::USER_END.0 || !(0..4).all(|n| self.is_valid(n)) {
            (self.addresses, self.control) = (addresses, control);
            return Err(Refused::Invalid);
        }
        Ok(())
    }

    fn is_enabled(&self, n: usize) -> bool {
        self.control >> (2 * n) & 3 != 0
    }

    fn condition(&self, n: usize) -> u64 {
        self.control >> (16 + 4 * n) & 3
    }

    fn is_valid(&self, n: usize) -> bool {
        let len = [1, 2, 8, 4][(self.control >> (18 + 4 * n) & 3) as usize];
        !self.is_enabled(n)
            || match self.condition(n) {
                EXECUTE => len == 1,
                IO => false,
                _ => self.addresses[n].is_multiple_of(len),
            }
    }

    /// Puts them into the CPU.
    pub(super) fn load(&self) {
        let [a, b, c, d] = self.addresses;
        Dr0::write(a);
        Dr1::write(b);
        Dr2::write(c);
        Dr3::write(d);
        let enabled = (0..4).filter(|n| self.is_enabled(*n));
        let bits = enabled.fold(DR7_IDLE, |bits, n| {
            bits | self.control & (3 << (2 * n) | 0xf << (16 + 4 * n))
        });
        // Only bits of its four breakpoints, and one that is always set.
        Dr7::write(Dr7Value::from_bits_truncate(bits));
    }

    /// Notes what the CPU has told; returns whether one of them has triggered.
    fn note(&mut self, status: u64) -> bool {
        let hits = (0..4).filter(|n| self.is_enabled(*n));
        let hits = hits.fold(0, |hits, n| hits | status & 1 << n);
        self.status |= hits | status & Dr6Flags::STEP.bits();
        hits != 0
    }

    /// Whether an instruction at which one of `status` triggers has not run yet.
    fn is_before(&self, status: u64) -> bool {
        (0..4).any(|n| status & 1 << n != 0 && self.is_enabled(n) && self.condition(n) == EXECUTE)
    }
}

/// Takes all of them out of the CPU.
pub fn unload() {
    Dr7::write(Dr7Value::from_bits_truncate(DR7_IDLE));
}

/// #DB of user mode: a step, or a breakpoint of its tracer.
pub fn trap(breakpoints: Option<&mut Breakpoints>, frame: &mut TrapFrame) -> Trap {
    let status = Dr6::read_raw();
    // SAFETY: clears the sticky status bits (SDM Vol 3, 18.2.3).
    unsafe { asm!("mov dr6, {}", in(reg) DR6_IDLE, options(nostack, preserves_flags)) };
    let Some(breakpoints) = breakpoints else {
        return Trap::SingleStep;
    };
    let hit = breakpoints.note(status);
    if breakpoints.is_before(status) {
        // It runs when the thread goes on.
        frame.rflags |= RFlags::RESUME_FLAG.bits();
    }
    match hit && status & Dr6Flags::STEP.bits() == 0 {
        true => Trap::HardwareBreak {
            addr: VirtAddr(frame.rip),
        },
        false => Trap::SingleStep,
    }
}
