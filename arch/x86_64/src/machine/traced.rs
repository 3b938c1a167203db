//! The registers of a stopped thread, as ptrace(2) and core files lay them out (`struct
//! user_regs_struct`, `struct user`, NT_*).

use super::context::UserContext;
use super::debug::{self, Breakpoints};
use super::fp::{self, LEGACY_SIZE, XSTATE_BV};
use super::frame::{ALWAYS_RFLAGS, CHANGED, SYSCALL, USER_RFLAGS};
use super::segments::Segments;
use super::selectors::{USER_CODE, USER_DATA};
use alloc::boxed::Box;
use arch_boot::trap::{Refused, StopAt, Trap};
use x86_64::registers::rflags::RFlags;

const NT_PRSTATUS: u32 = 1;
const NT_PRFPREG: u32 = 2;
const NT_X86_XSTATE: u32 = 0x202;

/// Words of `struct user_regs_struct`.
const GENERAL: usize = 27;
/// The components that an XSAVE area may hold, for its readers: in the unused end of the FXSAVE
/// part.
const XCR0_AT: usize = 464;
/// `struct user`: its debug registers, and its bytes.
const DEBUG_AT: u64 = 848;
const USER_BYTES: u64 = 928;
/// The FXSAVE part's components in XSTATE_BV: x87 and SSE.
const LEGACY: u64 = 0b11;

impl UserContext {
    /// [`UserContext::run`] of a traced thread: with its breakpoints, and with `step` for one
    /// instruction.
    pub fn run_traced(&mut self, step: bool) -> Trap {
        let trap_flag = RFlags::TRAP_FLAG.bits();
        let own = self.frame.rflags & trap_flag;
        if step {
            self.frame.rflags |= trap_flag;
        }
        if let Some(breakpoints) = &self.breakpoints {
            breakpoints.load();
        }
        let trap = self.run();
        if self.breakpoints.is_some() {
            debug::unload();
        }
        if step {
            self.frame.rflags = self.frame.rflags & !trap_flag | own;
        }
        trap
    }

    /// Before a stop for a tracer: the registers are in memory, and tell where in a system call the
    /// thread is.
    pub fn begin_stop(&mut self, at: StopAt) {
        self.fp.detach();
        if self.frame.vector == SYSCALL {
            self.changed();
        }
        match at {
            StopAt::Interrupted(code) => self.frame.rax = (-i64::from(code)) as u64,
            StopAt::Elsewhere if self.frame.vector == CHANGED => self.frame.error = u64::MAX,
            StopAt::Call | StopAt::Elsewhere => {}
        }
    }

    /// After it. Whether an interrupted call is still to be repeated.
    pub fn end_stop(&mut self, at: StopAt) -> bool {
        let StopAt::Interrupted(code) = at else {
            return false;
        };
        self.frame.error as i64 >= 0 && self.frame.rax as i64 == -i64::from(code)
    }

    /// Bytes of a set of registers (NT_*); `None`: this machine has no such set.
    pub fn set_size(note: u32) -> Option<usize> {
        match note {
            NT_PRSTATUS => Some(GENERAL * 8),
            NT_PRFPREG => Some(LEGACY_SIZE),
            NT_X86_XSTATE if fp::mask() != 0 => Some(fp::size()),
            _ => None,
        }
    }

    /// Copies a set, of [`UserContext::set_size`] bytes.
    pub fn copy_set(&mut self, note: u32, into: &mut [u8]) {
        if note == NT_PRSTATUS {
            for (bytes, word) in into.chunks_exact_mut(8).zip(self.general()) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
            return;
        }
        self.fp.sync();
        let len = into.len().min(fp::size());
        // SAFETY: the area has `fp::size()` bytes, and is not in use while its thread is stopped.
        unsafe {
            into.as_mut_ptr()
                .copy_from_nonoverlapping(self.fp.bytes(), len)
        };
        if note == NT_X86_XSTATE {
            into[XCR0_AT..LEGACY_SIZE].fill(0);
            into[XCR0_AT..XCR0_AT + 8].copy_from_slice(&fp::mask().to_ne_bytes());
        }
    }

    /// Replaces a set, or the part of the general registers that `from` holds. No set has
    /// breakpoints here.
    pub fn replace_set(
        &mut self,
        note: u32,
        from: &[u8],
        _spare: &mut Option<Box<Breakpoints>>,
    ) -> Result<(), Refused> {
        match note {
            NT_PRSTATUS => {
                let mut words = self.general();
                for (word, bytes) in words.iter_mut().zip(from.chunks_exact(8)) {
                    *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
                }
                self.set_general(&words)
            }
            // A part of the FP state would be mixed with what was there.
            _ if Self::set_size(note) != Some(from.len()) => Err(Refused::Invalid),
            _ => {
                self.replace_fp(from);
                Ok(())
            }
        }
    }

    fn replace_fp(&mut self, from: &[u8]) {
        self.fp.detach();
        let len = from.len().min(fp::size());
        // SAFETY: the area has `fp::size()` bytes; `detach` made it the only copy.
        unsafe {
            self.fp.bytes().copy_from_nonoverlapping(from.as_ptr(), len);
            if len == LEGACY_SIZE && fp::mask() != 0 {
                *self.fp.bytes().add(XSTATE_BV).cast::<u64>() |= LEGACY;
            }
        }
        self.fp.sanitize(fp::mask());
    }

    /// `struct user_regs_struct`.
    fn general(&self) -> [u64; GENERAL] {
        let f = &self.frame;
        let call = match f.vector {
            SYSCALL | CHANGED => f.error,
            _ => u64::MAX,
        };
        let segments = self.fp.segments();
        let (fs_base, gs_base) = segments.bases();
        let [ds, es, fs, gs] = segments.selectors().map(u64::from);
        [
            f.r15, f.r14, f.r13, f.r12, f.rbp, f.rbx, f.r11, f.r10, f.r9, f.r8, f.rax, f.rcx,
            f.rdx, f.rsi, f.rdi, call, f.rip, f.cs, f.rflags, f.rsp, f.ss, fs_base, gs_base, ds,
            es, fs, gs,
        ]
    }

    fn set_general(&mut self, words: &[u64; GENERAL]) -> Result<(), Refused> {
        let [
            r15,
            r14,
            r13,
            r12,
            rbp,
            rbx,
            r11,
            r10,
            r9,
            r8,
            rax,
            rcx,
            rdx,
            rsi,
            rdi,
            call,
            rip,
            cs,
            rflags,
            rsp,
            ss,
            fs_base,
            gs_base,
            data @ ..,
        ] = *words;
        if [cs, ss] != [USER_CODE, USER_DATA].map(u64::from) {
            return Err(Refused::Io);
        }
        let segments = Segments::of(data, fs_base, gs_base).ok_or(Refused::Io)?;
        self.fp.set_segments(segments);
        let f = &mut self.frame;
        [f.r15, f.r14, f.r13, f.r12] = [r15, r14, r13, r12];
        [f.r11, f.r10, f.r9, f.r8] = [r11, r10, r9, r8];
        [f.rbp, f.rbx, f.rax, f.rcx] = [rbp, rbx, rax, rcx];
        [f.rdx, f.rsi, f.rdi] = [rdx, rsi, rdi];
        [f.rip, f.rsp, f.error] = [rip, rsp, call];
        f.rflags = rflags & USER_RFLAGS | ALWAYS_RFLAGS;
        f.vector = CHANGED;
        Ok(())
    }

    /// A word of `struct user`, PTRACE_PEEKUSER: its registers and debug registers, else 0.
    pub fn user_word(&self, at: u64) -> Result<u64, Refused> {
        if !at.is_multiple_of(8) || at >= USER_BYTES {
            return Err(Refused::Io);
        }
        if let Some(word) = self.general().get(at as usize / 8) {
            return Ok(*word);
        }
        let breakpoint = debug_register(at).zip(self.breakpoints.as_ref());
        Ok(breakpoint.map_or(0, |(n, breakpoints)| breakpoints.get(n)))
    }

    /// Sets a word of `struct user`, PTRACE_POKEUSER. `spare`: memory for the first breakpoint.
    pub fn set_user_word(
        &mut self,
        at: u64,
        value: u64,
        spare: &mut Option<Box<Breakpoints>>,
    ) -> Result<(), Refused> {
        let mut words = self.general();
        if !at.is_multiple_of(8) {
            return Err(Refused::Io);
        }
        if let Some(word) = words.get_mut(at as usize / 8) {
            *word = value;
            return self.set_general(&words);
        }
        let n = debug_register(at).ok_or(Refused::Io)?;
        slot(&mut self.breakpoints, spare)?.set(n, value)
    }
}

/// The debug register at an offset of `struct user`.
fn debug_register(at: u64) -> Option<usize> {
    let n = at.checked_sub(DEBUG_AT)? / 8;
    (n < 8).then_some(n as usize)
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
