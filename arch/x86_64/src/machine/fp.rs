//! FP and SIMD state, and the segment registers: the state that stays in the CPU between two `run`s
//! of the same thread. XSAVE's standard format (SDM Vol 1 ch. 13); FXSAVE on CPUs without.

use super::segments::{Segments, UserBase};
use super::{features, percpu};
use crate::least::PKRU;
use alloc::boxed::Box;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags};

/// FXSAVE's area, the start of every XSAVE area.
pub const LEGACY_SIZE: usize = 512;
/// Offset of XSTATE_BV in the XSAVE header.
pub const XSTATE_BV: usize = 512;
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;
const INITIAL_FCW: u16 = 0x37f;
const INITIAL_MXCSR: u32 = 0x1f80;
const DEFAULT_MXCSR_MASK: u64 = 0xffbf;

static MASK: AtomicU64 = AtomicU64::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(LEGACY_SIZE);
static FRAME_SIZE: AtomicUsize = AtomicUsize::new(LEGACY_SIZE);
static PKRU_AT: AtomicUsize = AtomicUsize::new(0);
static VALID_MXCSR: AtomicU64 = AtomicU64::new(u64::MAX);

/// Bytes of the state as the CPU writes it here.
pub fn size() -> usize {
    SIZE.load(Relaxed)
}
/// The components that are saved here: those in use but for PKRU, which is switched with the thread
/// (`pkru`); 0 without XSAVE.
pub fn mask() -> u64 {
    MASK.load(Relaxed)
}
/// The components in use (XCR0); 0 without XSAVE.
pub fn all_components() -> u64 {
    match pkru_at() {
        Some(_) => mask() | PKRU,
        None => mask(),
    }
}
/// Bytes of the state as the CPU would write it with PKRU: as signal frames have it.
pub fn frame_size() -> usize {
    FRAME_SIZE.load(Relaxed)
}
/// Where PKRU is in it, on CPUs that have it.
pub fn pkru_at() -> Option<usize> {
    Some(PKRU_AT.load(Relaxed)).filter(|at| *at != 0)
}

/// Turns the FPU on and sizes the area. Again, when other features are in use: no thread's state is
/// in the CPU then, and there is no area.
pub fn init() {
    let xsave = features::get().xsave;
    // SAFETY: the bits exist on every long-mode CPU, OSXSAVE when CPUID says so; kernel code uses
    // no FP registers.
    unsafe {
        Cr0::update(|f| {
            f.remove(Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED);
            f.insert(Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR);
        });
        Cr4::update(|f| {
            f.insert(Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE);
            f.set(Cr4Flags::OSXSAVE, xsave);
        });
    }
    if xsave {
        let used = features::get().state;
        MASK.store(used & !PKRU, Relaxed);
        SIZE.store(enable(used & !PKRU), Relaxed);
        FRAME_SIZE.store(enable(used), Relaxed);
        let at = match used & PKRU {
            0 => 0,
            _ => __cpuid_count(0xd, PKRU.trailing_zeros()).ebx,
        };
        PKRU_AT.store(at as usize, Relaxed);
    }
    // 0 in the mask field means the default (SDM Vol 1, 11.6.6).
    let legacy: [Block; LEGACY_SIZE / 64] = [const { Block(UnsafeCell::new([0; 64])) }; 8];
    // SAFETY: 512 bytes, aligned; the mask lies inside them.
    let valid = unsafe {
        asm!("fxsave64 [{}]", in(reg) legacy.as_ptr(), options(nostack, preserves_flags));
        legacy
            .as_ptr()
            .cast::<u8>()
            .add(MXCSR_MASK)
            .cast::<u32>()
            .read()
    };
    let valid = match valid {
        0 => DEFAULT_MXCSR_MASK,
        valid => valid.into(),
    };
    // What all CPUs take.
    VALID_MXCSR.fetch_and(valid, Relaxed);
}

/// Enables components (XCR0), and returns the bytes of their state.
fn enable(components: u64) -> usize {
    // SAFETY: a subset of what every CPU's CPUID reports, with x87 set and AVX only beside SSE as
    // the CPUs report them.
    unsafe {
        asm!("xsetbv", in("ecx") 0, in("eax") components as u32, in("edx") (components >> 32) as u32, options(nostack, preserves_flags))
    };
    // EBX counts the components just enabled.
    __cpuid_count(0xd, 0).ebx as usize
}

/// Saves the state that is in the CPU, if any, into its area.
unsafe fn save_owner() {
    // SAFETY: `live` names an area that is alive (drop clears it), and the state is its.
    unsafe {
        let live = (*percpu::this()).live;
        if live != 0 {
            let owner = core::ptr::with_exposed_provenance_mut::<u8>(live as usize);
            save(owner, features::get().xsaveopt);
            let last = size().div_ceil(64) * 64;
            owner.add(last).cast::<Segments>().write(Segments::live());
        }
    }
}

/// Makes memory the only copy of the state that is in the CPU: another CPU may load it next.
pub fn release() {
    // SAFETY: this CPU's own field; see `save_owner`.
    unsafe {
        save_owner();
        (*percpu::this()).live = 0;
    }
}

/// XSAVE requires 64-byte alignment.
#[repr(C, align(64))]
struct Block(UnsafeCell<[u8; 64]>);

/// A thread's state while it is not in the CPU; its address identifies the owner while it is. The
/// last block holds the segment registers.
pub struct FpArea(Box<[Block]>);

impl FpArea {
    /// The state after reset: no component in use, default control words, null segments.
    pub fn new() -> Self {
        let blocks = size().div_ceil(64) + 1;
        let area = FpArea(
            (0..blocks)
                .map(|_| Block(UnsafeCell::new([0; 64])))
                .collect(),
        );
        area.reset();
        area
    }

    /// Writes the initial FP state; the area is not live.
    pub fn reset(&self) {
        // SAFETY: `size()` bytes are ours, and at least the legacy area.
        unsafe {
            self.bytes().write_bytes(0, size());
            self.bytes().cast::<u16>().write(INITIAL_FCW);
            self.bytes().add(MXCSR).cast::<u32>().write(INITIAL_MXCSR);
        }
    }

    /// The state's first byte.
    pub fn bytes(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    #[inline]
    fn id(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }

    fn saved_segments(&self) -> *mut Segments {
        self.0[self.0.len() - 1].0.get().cast()
    }

    #[inline(always)]
    fn is_live(&self) -> bool {
        // SAFETY: this CPU's own field.
        unsafe { (*percpu::this()).live == self.id() }
    }

    /// Loads the state into the CPU, after saving the state that is there into its own area.
    #[inline(always)]
    pub fn make_live(&self) {
        if !self.is_live() {
            self.exchange();
        }
    }

    #[inline(never)]
    fn exchange(&self) {
        let cpu = percpu::this();
        // SAFETY: `live` names an area that is alive (drop clears it); areas are only touched on
        // this CPU.
        unsafe {
            save_owner();
            restore(self.bytes());
            (*self.saved_segments()).load();
            (*cpu).live = self.bytes().expose_provenance() as u64;
        }
    }

    /// Saves the CPU's copy to the area; the CPU keeps it, too.
    pub fn sync(&self) {
        if self.is_live() {
            // SAFETY: the area is ours and the state in the CPU belongs to it.
            unsafe {
                save(self.bytes(), false);
                *self.saved_segments() = Segments::live();
            }
        }
    }

    /// Makes the area's memory the only copy; the CPU's is dropped.
    pub fn detach(&self) {
        self.sync();
        self.forget();
    }

    fn forget(&self) {
        if self.is_live() {
            // SAFETY: this CPU's own field.
            unsafe { (*percpu::this()).live = 0 };
        }
    }

    /// The segment registers.
    pub fn segments(&self) -> Segments {
        if self.is_live() {
            return Segments::live();
        }
        // SAFETY: the area's own last block.
        unsafe { *self.saved_segments() }
    }

    /// Replaces the segment registers.
    pub fn set_segments(&self, segments: Segments) {
        if self.is_live() {
            segments.load();
        } else {
            // SAFETY: the area's own last block.
            unsafe { *self.saved_segments() = segments };
        }
    }

    /// Sets the FS base, and a null selector, as Linux does; what is not a user address is ignored.
    pub fn set_fs(&self, fs: u64) {
        if let Some(base) = UserBase::new(fs) {
            self.set_segments(self.segments().with_fs(base));
        }
    }

    /// Sets the GS base; as `set_fs`.
    pub fn set_gs(&self, gs: u64) {
        if let Some(base) = UserBase::new(gs) {
            self.set_segments(self.segments().with_gs(base));
        }
    }

    /// Makes bytes that came from user mode safe to load: no reserved bit of MXCSR, of XSTATE_BV or
    /// of the header is set (else XRSTOR raises #GP in the kernel; SDM Vol 1, 13.8.1).
    /// `components`: which of them the bytes hold.
    pub fn sanitize(&self, components: u64) {
        // SAFETY: within the area; the legacy part is always there, the header when XSAVE is in
        // use.
        unsafe {
            let mxcsr = self.bytes().add(MXCSR).cast::<u32>();
            mxcsr.write(mxcsr.read() & VALID_MXCSR.load(Relaxed) as u32);
            if mask() != 0 {
                let header = self.bytes().add(XSTATE_BV).cast::<[u64; 8]>();
                let present = (*header)[0] & components & mask();
                header.write([present, 0, 0, 0, 0, 0, 0, 0]);
            }
        }
    }
}

impl Clone for FpArea {
    fn clone(&self) -> Self {
        self.sync();
        let copy = FpArea::new();
        // SAFETY: both have the same number of blocks, and they do not overlap.
        unsafe {
            copy.bytes()
                .copy_from_nonoverlapping(self.bytes(), self.0.len() * 64)
        };
        copy
    }
}

impl Drop for FpArea {
    fn drop(&mut self) {
        self.forget();
    }
}

/// # Safety
/// `to` is an area of `size()` bytes, 64-byte aligned; with `optimized` it is the one last
/// restored.
unsafe fn save(to: *mut u8, optimized: bool) {
    let (low, high) = (mask() as u32, (mask() >> 32) as u32);
    // SAFETY: the caller's promise.
    unsafe {
        if mask() == 0 {
            asm!("fxsave64 [{}]", in(reg) to, options(nostack, preserves_flags));
        } else if optimized {
            asm!("xsaveopt64 [{}]", in(reg) to, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        } else {
            asm!("xsave64 [{}]", in(reg) to, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        }
    }
}

/// # Safety
/// `from` was written by `save`, `reset` or `sanitize`.
unsafe fn restore(from: *const u8) {
    let (low, high) = (mask() as u32, (mask() >> 32) as u32);
    // SAFETY: the caller's promise: no reserved bit is set.
    unsafe {
        if mask() == 0 {
            asm!("fxrstor64 [{}]", in(reg) from, options(nostack, preserves_flags));
        } else {
            asm!("xrstor64 [{}]", in(reg) from, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        }
    }
}

/// FPE_* of an x87 exception: status word bits that the control word does not mask.
pub fn x87_code() -> i32 {
    let (mut status, mut control) = (0u16, 0u16);
    // SAFETY: stores two words; FNSTSW and FNSTCW do not wait for the pending exception.
    unsafe {
        asm!("fnstsw [{}]", "fnstcw [{}]", in(reg) &raw mut status, in(reg) &raw mut control, options(nostack, preserves_flags))
    };
    fpe_code(u32::from(status & !control))
}

/// FPE_* of a SIMD exception: MXCSR flags (0-5) that its masks (7-12) do not mask.
pub fn simd_code() -> i32 {
    let mut mxcsr = 0u32;
    // SAFETY: stores one word.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    fpe_code(mxcsr & !(mxcsr >> 7))
}

/// Exception flags IE DE ZE OE UE PE to FPE_FLTINV 7, FLTDIV 3, FLTOVF 4, FLTUND 5, FLTRES 6, in
/// Linux's order of precedence.
fn fpe_code(flags: u32) -> i32 {
    match flags {
        f if f & 1 != 0 => 7,
        f if f & 4 != 0 => 3,
        f if f & 8 != 0 => 4,
        f if f & (16 | 2) != 0 => 5,
        f if f & 32 != 0 => 6,
        _ => 0,
    }
}
