//! Linux's signal frame for x86_64: `struct rt_sigframe` { restorer, ucontext, siginfo } with the
//! FP state above it. The layout is part of the ABI that user programs read (ucontext_t,
//! sigcontext, _fpstate in the kernel's uapi headers).

use super::context::UserContext;
use super::fp::{self, LEGACY_SIZE, XSTATE_BV};
use super::frame::{ALWAYS_RFLAGS, CHANGED, USER_RFLAGS};
use super::pkru;
use super::selectors::{USER_CODE, USER_DATA};
use super::uaccess::{copy_from_user, copy_to_user};
use crate::least::PKRU;
use crate::pte::Format;
use arch_boot::trap::SignalFrame;
use mm::arch::PteFormat;
use x86_64::registers::rflags::RFlags;

/// Bytes below the stack pointer that a leaf function may use (System V ABI, x86-64, 3.2.2).
const RED_ZONE: u64 = 128;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// `struct _fpx_sw_bytes` in the unused end of the FXSAVE area.
const SW_RESERVED: usize = 464;

/// `struct sigcontext`, in words.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct SigContext {
    r8_to_r15: [u64; 8],
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
    eflags: u64,
    /// cs, gs, fs, ss: 16 bits each.
    segments: u64,
    err: u64,
    trapno: u64,
    oldmask: u64,
    cr2: u64,
    fpstate: u64,
    reserved: [u64; 8],
}

/// `struct rt_sigframe`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RtFrame {
    restorer: u64,
    flags: u64,
    link: u64,
    /// `stack_t`: sp, flags (32 bits and padding), size.
    stack: [u64; 3],
    context: SigContext,
    sigmask: u64,
    siginfo: [u8; 128],
}

/// What a new frame is made of, beside the registers.
struct Interrupted {
    /// Where the frame goes, and the FP state.
    at: u64,
    fp: u64,
    /// The reason why user mode was left.
    vector: u64,
    /// What the thread's protection keys refuse.
    pkru: u32,
}

const UCONTEXT: u64 = core::mem::offset_of!(RtFrame, flags) as u64;
const SIGINFO: u64 = core::mem::offset_of!(RtFrame, siginfo) as u64;

/// Copies a value to user memory.
fn put<T: Copy>(to: u64, value: &T) -> Result<(), ()> {
    // SAFETY: the types used are made of integers without padding.
    let bytes =
        unsafe { core::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) };
    put_bytes(to, bytes)
}

fn put_bytes(to: u64, bytes: &[u8]) -> Result<(), ()> {
    check(to, bytes.len())?;
    copy_to_user(to, bytes).map_err(|_| ())
}

fn get_bytes(from: u64, bytes: &mut [u8]) -> Result<(), ()> {
    check(from, bytes.len())?;
    copy_from_user(bytes, from).map_err(|_| ())
}

/// The range lies in user space.
fn check(at: u64, len: usize) -> Result<(), ()> {
    at.checked_add(len as u64)
        .filter(|&end| end <= Format::USER_END.0)
        .map(|_| ())
        .ok_or(())
}

/// The minimum size of a signal stack (AT_MINSIGSTKSZ): a signal frame and a small handler's use.
pub fn min_signal_stack() -> u64 {
    // The frame, its alignments and the red zone.
    (size_of::<RtFrame>() + fp_room()) as u64 + 63 + 15 + RED_ZONE
}

impl UserContext {
    /// Writes Linux's rt_sigframe for this architecture (siginfo, ucontext with mask, FP state)
    /// below `stack`, and makes the context enter `handler(signo, &siginfo, &ucontext)`; returns to
    /// `restorer` (x86_64: SA_RESTORER, required; aarch64: the restorer, or the sigreturn
    /// trampoline page when it is 0). `Err(())` when the frame cannot be written (SIGSEGV then).
    #[allow(clippy::result_unit_err)]
    pub fn push_signal_frame(&mut self, frame: &SignalFrame<'_>) -> Result<(), ()> {
        if frame.restorer == 0 {
            return Err(());
        }
        let vector = self.frame.vector;
        self.changed();
        let sp = frame.stack.unwrap_or(self.frame.rsp.wrapping_sub(RED_ZONE));
        let room = fp_room() as u64;
        let fp = sp.checked_sub(room).ok_or(())? & !63;
        // The handler is entered as by a call: rsp + 8 is a multiple of 16.
        let at = (fp.checked_sub(size_of::<RtFrame>() as u64).ok_or(())? & !15)
            .checked_sub(8)
            .ok_or(())?;
        // Whatever the thread's keys refuse, the frame is written; the handler begins as a program
        // does.
        let pkru = pkru::read();
        let interrupted = Interrupted {
            at,
            fp,
            vector,
            pkru,
        };
        pkru::write(0);
        let written = self.write_signal_frame(frame, &interrupted);
        pkru::write(match written {
            Ok(()) => pkru::INITIAL,
            Err(()) => pkru,
        });
        written?;
        let f = &mut self.frame;
        f.rdi = frame.signo as u64;
        f.rsi = at + SIGINFO;
        f.rdx = at + UCONTEXT;
        f.rax = 0;
        f.rip = frame.handler;
        f.rsp = at;
        f.rflags &= !(RFlags::DIRECTION_FLAG | RFlags::RESUME_FLAG | RFlags::TRAP_FLAG).bits();
        Ok(())
    }

    /// Writes the frame, and the FP state with PKRU.
    fn write_signal_frame(
        &self,
        frame: &SignalFrame<'_>,
        interrupted: &Interrupted,
    ) -> Result<(), ()> {
        let Interrupted {
            at,
            fp,
            vector,
            pkru,
        } = *interrupted;
        self.put_fp_state(fp, pkru)?;
        let f = &self.frame;
        let exception = vector < 32;
        let user_frame = RtFrame {
            restorer: frame.restorer,
            flags: UC_SIGCONTEXT_SS
                | UC_STRICT_RESTORE_SS
                | if fp::mask() != 0 { UC_FP_XSTATE } else { 0 },
            link: 0,
            stack: frame.altstack,
            context: SigContext {
                r8_to_r15: [f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15],
                rdi: f.rdi,
                rsi: f.rsi,
                rbp: f.rbp,
                rbx: f.rbx,
                rdx: f.rdx,
                rax: f.rax,
                rcx: f.rcx,
                rsp: f.rsp,
                rip: f.rip,
                eflags: f.rflags,
                segments: f.cs | f.ss << 48,
                err: if exception { f.error } else { 0 },
                trapno: if exception { vector } else { 0 },
                oldmask: frame.mask,
                cr2: frame.fault_addr,
                fpstate: fp,
                reserved: [0; 8],
            },
            sigmask: frame.mask,
            siginfo: *frame.siginfo,
        };
        put(at, &user_frame)
    }

    /// rt_sigreturn: restores registers and FP state from the frame at sp, refusing privileged
    /// bits; returns the saved mask and the saved altstack (sp, flags, size). On `Err` the
    /// registers are as they were.
    #[allow(clippy::result_unit_err)]
    pub fn pop_signal_frame(&mut self) -> Result<(u64, [u64; 3]), ()> {
        // The handler's `ret` took the restorer's address off the stack.
        let at = self.frame.rsp.wrapping_sub(8);
        let mut raw = [0u8; size_of::<RtFrame>()];
        get_bytes(at, &mut raw)?;
        // SAFETY: the type is made of integers, so any bytes are a value.
        let saved = unsafe { raw.as_ptr().cast::<RtFrame>().read_unaligned() };
        let c = &saved.context;
        let pkru = self.get_fp_state(c.fpstate)?;
        // Last: it may refuse the stack that all of this was read from.
        pkru::write(pkru);
        let f = &mut self.frame;
        [f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15] = c.r8_to_r15;
        (f.rdi, f.rsi, f.rbp, f.rbx) = (c.rdi, c.rsi, c.rbp, c.rbx);
        (f.rdx, f.rax, f.rcx) = (c.rdx, c.rax, c.rcx);
        (f.rsp, f.rip) = (c.rsp, c.rip);
        f.rflags = c.eflags & USER_RFLAGS | ALWAYS_RFLAGS;
        f.cs = u64::from(USER_CODE);
        f.ss = u64::from(USER_DATA);
        f.vector = CHANGED;
        Ok((saved.sigmask, saved.stack))
    }

    /// Writes the FP state to `at`, with the magic words that mark its size, and PKRU where XSAVE
    /// would have it.
    fn put_fp_state(&self, at: u64, pkru: u32) -> Result<(), ()> {
        self.fp.sync();
        let size = fp::frame_size();
        let mut legacy = [0u8; LEGACY_SIZE];
        // SAFETY: the area holds at least the legacy part.
        unsafe {
            legacy
                .as_mut_ptr()
                .copy_from_nonoverlapping(self.fp.bytes(), LEGACY_SIZE)
        };
        if fp::mask() == 0 {
            return put_bytes(at, &legacy);
        }
        let sw = &mut legacy[SW_RESERVED..];
        sw.fill(0);
        sw[0..4].copy_from_slice(&FP_XSTATE_MAGIC1.to_le_bytes());
        sw[4..8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
        sw[8..16].copy_from_slice(&fp::all_components().to_le_bytes());
        sw[16..20].copy_from_slice(&(size as u32).to_le_bytes());
        put_bytes(at, &legacy)?;
        // SAFETY: the rest of the area, which is not shared: a fault on the user's side does not
        // touch it.
        let rest = unsafe {
            core::slice::from_raw_parts(self.fp.bytes().add(LEGACY_SIZE), fp::size() - LEGACY_SIZE)
        };
        put_bytes(at + LEGACY_SIZE as u64, rest)?;
        if let Some(pkru_at) = fp::pkru_at() {
            // SAFETY: the header is inside an XSAVE area.
            let present = unsafe { self.fp.bytes().add(XSTATE_BV).cast::<u64>().read() } | PKRU;
            put_bytes(at + XSTATE_BV as u64, &present.to_le_bytes())?;
            put_bytes(at + pkru_at as u64, &pkru.to_le_bytes())?;
        }
        put_bytes(at + size as u64, &FP_XSTATE_MAGIC2.to_le_bytes())
    }

    /// Reads the FP state back, and returns PKRU; 0 means the initial state. Without both magic
    /// words only the FXSAVE part counts.
    fn get_fp_state(&mut self, at: u64) -> Result<u32, ()> {
        let size = fp::frame_size();
        let mut legacy = [0u8; LEGACY_SIZE];
        if at == 0 {
            self.fp.detach();
            self.fp.reset();
            return Ok(pkru::INITIAL);
        }
        get_bytes(at, &mut legacy)?;
        let word = |offset: usize| {
            u32::from_le_bytes([0, 1, 2, 3].map(|i| legacy[SW_RESERVED + offset + i]))
        };
        let mut magic2 = [0u8; 4];
        let extended = fp::mask() != 0
            && word(0) == FP_XSTATE_MAGIC1
            && word(16) as usize == size
            && get_bytes(at + size as u64, &mut magic2).is_ok()
            && u32::from_le_bytes(magic2) == FP_XSTATE_MAGIC2;
        self.fp.detach();
        self.fp.reset();
        let pkru = match extended {
            true => get_pkru(at)?,
            false => pkru::INITIAL,
        };
        if extended {
            // SAFETY: the area's own memory behind the legacy part; `detach` made it the only copy.
            let rest = unsafe {
                core::slice::from_raw_parts_mut(
                    self.fp.bytes().add(LEGACY_SIZE),
                    fp::size() - LEGACY_SIZE,
                )
            };
            if get_bytes(at + LEGACY_SIZE as u64, rest).is_err() {
                self.fp.reset();
                return Err(());
            }
        }
        // SAFETY: the legacy part of the area.
        unsafe {
            self.fp
                .bytes()
                .copy_from_nonoverlapping(legacy.as_ptr(), LEGACY_SIZE)
        };
        if !extended && fp::mask() != 0 {
            // SAFETY: the header is inside an XSAVE area; x87 and SSE are what the legacy part
            // holds.
            unsafe { self.fp.bytes().add(XSTATE_BV).cast::<u64>().write(0b11) };
        }
        self.fp.sanitize(fp::mask());
        Ok(pkru)
    }
}

/// Reads PKRU from the XSAVE area at `at`, as XRSTOR would: 0 where it is not present.
fn get_pkru(at: u64) -> Result<u32, ()> {
    let Some(pkru_at) = fp::pkru_at() else {
        return Ok(0);
    };
    let (mut present, mut pkru) = ([0; 8], [0; 4]);
    get_bytes(at + XSTATE_BV as u64, &mut present)?;
    get_bytes(at + pkru_at as u64, &mut pkru)?;
    Ok(match u64::from_le_bytes(present) & PKRU {
        0 => 0,
        _ => u32::from_le_bytes(pkru),
    })
}

/// Bytes that the FP state takes in a frame.
fn fp_room() -> usize {
    if fp::mask() == 0 {
        LEGACY_SIZE
    } else {
        fp::frame_size() + 4
    }
}
