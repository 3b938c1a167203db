//! The registers of a stopped thread, as ptrace(2) and core files lay them out (`struct
//! user_pt_regs`, `struct user_fpsimd_state`, `struct user_hwdebug_state`, NT_*).

use super::context::{PSTATE_PRIVILEGED, PSTATE_USER, UserContext};
use super::debug::{Breakpoints, Kind, Slot};
use super::regs;
use super::sigframe::{bytes, bytes_mut};
use alloc::boxed::Box;
use arch_boot::trap::{Refused, StopAt, Trap};

const NT_PRSTATUS: u32 = 1;
const NT_PRFPREG: u32 = 2;
const NT_ARM_TLS: u32 = 0x401;
const NT_ARM_HW_BREAK: u32 = 0x402;
const NT_ARM_HW_WATCH: u32 = 0x403;
const NT_ARM_SYSTEM_CALL: u32 = 0x404;

/// MDSCR_EL1: software step, and breakpoints and watchpoints.
const MDSCR_SS: u64 = 1 << 0;
const MDSCR_MDE: u64 = 1 << 15;
/// SPSR_EL1: the next instruction is stepped.
const PSTATE_SS: u64 = 1 << 21;

/// Words of `struct user_pt_regs`: x0 to x30, sp, pc, pstate.
const GENERAL: usize = 34;
/// Bytes of `struct user_fpsimd_state`: v0 to v31, fpsr, fpcr, eight unused.
const FLOAT: usize = 528;
const VECTORS: usize = 512;
/// Bytes of one breakpoint, behind as many of the head.
const SLOT: usize = 16;
const HEAD: usize = 8;

fn word32(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(bytes.try_into().expect("four bytes"))
}

fn word64(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

fn kind(note: u32) -> Option<Kind> {
    match note {
        NT_ARM_HW_BREAK => Some(Kind::Break),
        NT_ARM_HW_WATCH => Some(Kind::Watch),
        _ => None,
    }
}

impl UserContext {
    /// [`UserContext::run`] of a traced thread: with its breakpoints, and with `step` for one
    /// instruction.
    pub fn run_traced(&mut self, step: bool) -> Trap {
        let breakpoints = self.breakpoints.as_ref();
        let mut mdscr = 0;
        if let Some(breakpoints) = breakpoints {
            breakpoints.load();
            mdscr |= MDSCR_MDE;
        }
        if step {
            mdscr |= MDSCR_SS;
            self.frame.pstate |= PSTATE_SS;
        }
        // The lock is on after a reset.
        regs::write!("oslar_el1", 0);
        regs::write!("mdscr_el1", mdscr);
        regs::isb();
        let trap = self.run();
        regs::write!("mdscr_el1", 0);
        regs::isb();
        self.frame.pstate &= !PSTATE_SS;
        trap
    }

    /// Before a stop for a tracer: the registers are in memory. A call that is to be repeated is
    /// shown as not yet begun.
    pub fn begin_stop(&mut self, at: StopAt) {
        self.fp.detach();
        self.in_call = at != StopAt::Elsewhere;
        if let StopAt::Interrupted(_) = at {
            self.restart_syscall();
            self.repeated_at = self.frame.pc;
        }
    }

    /// After it. Whether an interrupted call is still to be repeated.
    pub fn end_stop(&mut self, at: StopAt) -> bool {
        let repeats = matches!(at, StopAt::Interrupted(_)) && self.frame.pc == self.repeated_at;
        if repeats {
            self.frame.pc += 4;
        }
        repeats
    }

    /// Bytes of a set of registers (NT_*); `None`: this machine has no such set.
    pub fn set_size(note: u32) -> Option<usize> {
        match note {
            NT_PRSTATUS => Some(GENERAL * 8),
            NT_PRFPREG => Some(FLOAT),
            NT_ARM_TLS => Some(8),
            NT_ARM_SYSTEM_CALL => Some(4),
            _ => Some(HEAD + kind(note)?.count() * SLOT),
        }
    }

    /// Copies a set, of [`UserContext::set_size`] bytes.
    pub fn copy_set(&mut self, note: u32, into: &mut [u8]) {
        match note {
            NT_PRSTATUS => into.copy_from_slice(bytes(&self.general())),
            NT_PRFPREG => {
                let (fpsr, fpcr, v) = self.fp.registers();
                into[..VECTORS].copy_from_slice(bytes(v));
                let control = u64::from(fpsr) | u64::from(fpcr) << 32;
                into[VECTORS..].copy_from_slice(bytes(&[control, 0]));
            }
            NT_ARM_TLS => into.copy_from_slice(&self.tls().to_ne_bytes()),
            NT_ARM_SYSTEM_CALL => {
                let call = match self.in_call {
                    true => self.frame.x[8] as i32,
                    false => -1,
                };
                into.copy_from_slice(&call.to_ne_bytes());
            }
            _ => self.copy_breakpoints(note, into),
        }
    }

    fn copy_breakpoints(&self, note: u32, into: &mut [u8]) {
        let Some(kind) = kind(note) else { return };
        into.fill(0);
        into[..4].copy_from_slice(&kind.info().to_ne_bytes());
        let Some(breakpoints) = &self.breakpoints else {
            return;
        };
        for (n, bytes) in into[HEAD..].chunks_exact_mut(SLOT).enumerate() {
            let slot = breakpoints.get(kind, n);
            bytes[..8].copy_from_slice(&slot.address.to_ne_bytes());
            bytes[8..12].copy_from_slice(&slot.control.to_ne_bytes());
        }
    }

    /// Replaces a set, or its first part, which `from` holds. `spare`: memory for the first
    /// breakpoint.
    pub fn replace_set(
        &mut self,
        note: u32,
        from: &[u8],
        spare: &mut Option<Box<Breakpoints>>,
    ) -> Result<(), Refused> {
        match note {
            NT_PRSTATUS => self.set_general(from),
            NT_PRFPREG => {
                let (fpsr, fpcr, v) = self.fp.registers();
                let (mut v, mut control) = (*v, [u64::from(fpsr) | u64::from(fpcr) << 32, 0]);
                let (vectors, rest) = from.split_at(from.len().min(VECTORS));
                bytes_mut(&mut v)[..vectors.len()].copy_from_slice(vectors);
                bytes_mut(&mut control)[..rest.len()].copy_from_slice(rest);
                let [control, _] = control;
                self.fp
                    .set_registers(control as u32, (control >> 32) as u32, v);
                Ok(())
            }
            NT_ARM_TLS if from.len() == 8 => {
                self.set_tls(word64(from));
                Ok(())
            }
            NT_ARM_SYSTEM_CALL if from.len() == 4 => {
                if self.in_call {
                    self.frame.x[8] = word32(from) as i32 as u64;
                }
                Ok(())
            }
            _ => self.set_breakpoints(kind(note).ok_or(Refused::Invalid)?, from, spare),
        }
    }

    #[inline(never)]
    fn general(&self) -> [u64; GENERAL] {
        let f = &self.frame;
        let mut words = [0; GENERAL];
        words[..31].copy_from_slice(&f.x);
        words[31..].copy_from_slice(&[f.sp, f.pc, f.pstate]);
        words
    }

    fn set_general(&mut self, from: &[u8]) -> Result<(), Refused> {
        let mut all = self.general();
        bytes_mut(&mut all)[..from.len()].copy_from_slice(from);
        let [x @ .., sp, pc, pstate] = all;
        if pstate & PSTATE_PRIVILEGED != 0 {
            return Err(Refused::Invalid);
        }
        let f = &mut self.frame;
        (f.x, f.sp, f.pc, f.pstate) = (x, sp, pc, pstate & PSTATE_USER);
        Ok(())
    }

    fn set_breakpoints(
        &mut self,
        kind: Kind,
        from: &[u8],
        spare: &mut Option<Box<Breakpoints>>,
    ) -> Result<(), Refused> {
        let breakpoints = slot(&mut self.breakpoints, spare)?;
        let slots = from.get(HEAD..).unwrap_or_default().chunks_exact(SLOT);
        for (n, bytes) in slots.enumerate() {
            let slot = Slot {
                address: word64(&bytes[..8]),
                control: word32(&bytes[8..12]),
            };
            breakpoints.set(kind, n, slot)?;
        }
        Ok(())
    }

    /// PTRACE_PEEKUSER, which this machine has not.
    pub fn user_word(&self, _at: u64) -> Result<u64, Refused> {
        Err(Refused::Io)
    }

    /// PTRACE_POKEUSER, which this machine has not.
    pub fn set_user_word(
        &mut self,
        _at: u64,
        _value: u64,
        _spare: &mut Option<Box<Breakpoints>>,
    ) -> Result<(), Refused> {
        Err(Refused::Io)
    }
}

/// The thread's breakpoints, in `spare` memory if these are its first.
fn slot<'a>(
    own: &'a mut Option<Box<Breakpoints>>,
    spare: &mut Option<Box<Breakpoints>>,
) -> Result<&'a mut Breakpoints, Refused> {
    if own.is_none() {
        *own = spare.take();
    }
    own.as_deref_mut().ok_or(Refused::Io)
}
