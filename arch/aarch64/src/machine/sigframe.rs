//! Linux's signal frame on arm64 (its ABI: asm/sigcontext.h, asm/ucontext.h).
//!
//! ```text
//!   sp  + 0     siginfo                128 bytes
//!       + 128   uc_flags, uc_link      8 + 8
//!       + 144   uc_stack               sp, flags, size
//!       + 168   uc_sigmask             8, then 120 unused
//!       + 304   fault_address, x0-x30, sp, pc, pstate
//!       + 592   __reserved[4096]: fpsimd_context (528), terminator
//!       + 4688  the frame record of the interrupted code: x29, x30
//! ```

use super::context::{PSTATE_PRIVILEGED, PSTATE_USER, UserContext};
use super::uaccess::{copy_from_user, copy_to_user};
use crate::pte::Format;
use arch_boot::trap::SignalFrame;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;

/// The code that handlers without a restorer return to (neither glibc nor musl sets one here): `mov
/// x8, #139; svc #0`.
pub const SIGRETURN_CODE: [u32; 2] = [0xd280_1168, 0xd400_0001];
/// Where exec maps [`SIGRETURN_CODE`], readable and executable: the last page, above the stack.
/// Sanitizers end a program that has something where Linux has nothing.
pub const SIGRETURN_PAGE: u64 = Format::USER_END.0 - PAGE_SIZE;

/// 8-byte words of the frame up to and including the records that are written.
const WORDS: usize = RESERVED + FPSIMD_WORDS + 2;
const UC_STACK: usize = 144 / 8;
const UC_SIGMASK: usize = 168 / 8;
const FAULT_ADDRESS: usize = 304 / 8;
const X0: usize = FAULT_ADDRESS + 1;
const SP: usize = X0 + 31;
const RESERVED: usize = 592 / 8;
/// The whole frame in bytes.
const SIZE: u64 = 592 + 4096;
/// Records in `__reserved` start with a magic number and their size.
const FPSIMD_MAGIC: u32 = 0x4650_8001;
const ESR_MAGIC: u32 = 0x4553_5201;
const FPSIMD_BYTES: u32 = 8 + 8 + 512;
const FPSIMD_WORDS: usize = FPSIMD_BYTES as usize / 8;

/// The minimum size of a signal stack (AT_MINSIGSTKSZ): a signal frame and a small handler's use.
pub fn min_signal_stack() -> u64 {
    // The frame, the frame record and its alignment.
    SIZE + 16 + 15
}

type FrameWords = [u64; WORDS];

/// Integers, of which any bytes are a value.
pub(super) trait Word: Copy {}
impl Word for u64 {}
impl Word for u128 {}

/// Words as the bytes that they are in memory.
pub(super) fn bytes<W: Word, const N: usize>(words: &[W; N]) -> &[u8] {
    // SAFETY: any words are valid bytes, of the same length and lifetime.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of::<[W; N]>()) }
}

/// See [`bytes`].
pub(super) fn bytes_mut<W: Word, const N: usize>(words: &mut [W; N]) -> &mut [u8] {
    // SAFETY: as in `bytes`, and any bytes are valid words.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of::<[W; N]>()) }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl UserContext {
    /// Writes Linux's rt_sigframe for this architecture (siginfo, ucontext with mask, FP state)
    /// below `stack`, and makes the context enter `handler(signo, &siginfo, &ucontext)`; returns to
    /// `restorer` (x86_64: SA_RESTORER, required; aarch64: the restorer, or the sigreturn
    /// trampoline page when it is 0). `Err(())` when the frame cannot be written (SIGSEGV then).
    #[allow(clippy::result_unit_err)]
    pub fn push_signal_frame(&mut self, frame: &SignalFrame<'_>) -> Result<(), ()> {
        let top = frame.stack.unwrap_or(self.frame.sp);
        let record = (top & !15).checked_sub(16).ok_or(())?;
        let at = record.checked_sub(SIZE).ok_or(())?;
        let words = self.frame_words(frame);
        copy_to_user(at, bytes(&words)).map_err(|_| ())?;
        let mut link = [0; 16];
        link[..8].copy_from_slice(&self.frame.x[29].to_le_bytes());
        link[8..].copy_from_slice(&self.frame.x[30].to_le_bytes());
        copy_to_user(record, &link).map_err(|_| ())?;
        self.frame.x[0] = frame.signo as u64;
        self.frame.x[1] = at;
        self.frame.x[2] = at + 128;
        self.frame.x[29] = record;
        self.frame.x[30] = if frame.restorer == 0 {
            SIGRETURN_PAGE
        } else {
            frame.restorer
        };
        self.frame.sp = at;
        self.frame.pc = frame.handler;
        // The handler starts without a pending branch type and without tag checks off.
        self.frame.pstate &= !(3 << 10 | 1 << 25);
        Ok(())
    }

    fn frame_words(&mut self, frame: &SignalFrame<'_>) -> FrameWords {
        let mut words = [0; WORDS];
        bytes_mut(&mut words)[..128].copy_from_slice(frame.siginfo);
        words[UC_STACK..UC_STACK + 3].copy_from_slice(&frame.altstack);
        words[UC_SIGMASK] = frame.mask;
        words[FAULT_ADDRESS] = frame.fault_addr;
        words[X0..SP].copy_from_slice(&self.frame.x);
        words[SP..SP + 3].copy_from_slice(&[self.frame.sp, self.frame.pc, self.frame.pstate]);
        let (fpsr, fpcr, v) = self.fp.registers();
        words[RESERVED] = pair(FPSIMD_MAGIC, FPSIMD_BYTES);
        words[RESERVED + 1] = pair(fpsr, fpcr);
        for (n, v) in v.iter().enumerate() {
            words[RESERVED + 2 + n * 2] = *v as u64;
            words[RESERVED + 3 + n * 2] = (*v >> 64) as u64;
        }
        words
    }

    /// rt_sigreturn: restores registers and FP state from the frame at sp, refusing privileged
    /// bits; returns the saved mask and the saved altstack (sp, flags, size).
    #[allow(clippy::result_unit_err)]
    pub fn pop_signal_frame(&mut self) -> Result<(u64, [u64; 3]), ()> {
        let at = self.frame.sp;
        if !at.is_multiple_of(16) {
            return Err(());
        }
        let mut words = [0; WORDS];
        copy_from_user(bytes_mut(&mut words), at).map_err(|_| ())?;
        let [sp, pc, pstate] = [words[SP], words[SP + 1], words[SP + 2]];
        if pstate & PSTATE_PRIVILEGED != 0 {
            return Err(());
        }
        let (fpsr, fpcr, v) = fpsimd(at + 592)?;
        self.fp.set_registers(fpsr, fpcr, v);
        self.frame.x.copy_from_slice(&words[X0..SP]);
        (self.frame.sp, self.frame.pc, self.frame.pstate) = (sp, pc, pstate & PSTATE_USER);
        Ok((
            words[UC_SIGMASK],
            [words[UC_STACK], words[UC_STACK + 1], words[UC_STACK + 2]],
        ))
    }
}

/// Finds the FP record in `__reserved` at `base`: the handler may have moved records.
fn fpsimd(base: u64) -> Result<(u32, u32, [u128; 32]), ()> {
    let mut at = base;
    loop {
        let mut head = [0; 16];
        copy_from_user(&mut head, at).map_err(|_| ())?;
        let word = |n: usize| u32::from_le_bytes([head[n], head[n + 1], head[n + 2], head[n + 3]]);
        let size = word(4);
        match word(0) {
            FPSIMD_MAGIC if size == FPSIMD_BYTES => {
                let mut raw = [[0u8; 16]; 32];
                copy_from_user(raw.as_flattened_mut(), at + 16).map_err(|_| ())?;
                return Ok((word(8), word(12), raw.map(u128::from_le_bytes)));
            }
            ESR_MAGIC if size == 16 && at + 32 <= base + 4096 => at += 16,
            _ => return Err(()),
        }
    }
}
