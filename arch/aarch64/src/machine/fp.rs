//! FP/SIMD registers and TPIDR_EL0: in the CPU while their thread's kernel code runs (the kernel
//! uses neither), in memory while another thread may run.
//!
//! ```text
//!   in memory, owner null --own()--> in the CPU, owner = this state --release()--> in memory, owner null
//! ```
//! `own` runs before user mode is entered, `release` before every switch of threads, so the owner
//! is the running thread's state or none; a state that is dropped or replaced gives up its
//! ownership.

use super::percpu;
use super::regs;
use core::arch::asm;

/// The saved registers.
#[repr(C, align(16))]
pub(crate) struct State {
    v: [u128; 32],
    fpsr: u64,
    fpcr: u64,
    tls: u64,
}

impl State {
    /// The state after execve: all zero.
    pub(crate) const fn new() -> Self {
        Self {
            v: [0; 32],
            fpsr: 0,
            fpcr: 0,
            tls: 0,
        }
    }
    #[inline]
    fn owned(&self) -> bool {
        // SAFETY: this CPU's own data.
        core::ptr::eq(unsafe { (*percpu::this()).fp_owner }.cast(), self)
    }
    /// Loads the state into the CPU, if it is not there.
    #[inline]
    pub(crate) fn own(&mut self) {
        if !self.owned() {
            self.load();
        }
    }
    #[inline(never)]
    fn load(&mut self) {
        // SAFETY: this CPU's own data. A former owner saved its state in `release`.
        unsafe { (*percpu::this()).fp_owner = (&raw mut *self).cast() };
        regs::write!("tpidr_el0", self.tls);
        // SAFETY: reads this state; the kernel is compiled without FP registers, so nothing of its
        // own is lost.
        unsafe {
            asm!(
                ".arch_extension fp", ".arch_extension simd",
                "ldp q0, q1, [{0}]", "ldp q2, q3, [{0}, #32]", "ldp q4, q5, [{0}, #64]", "ldp q6, q7, [{0}, #96]",
                "ldp q8, q9, [{0}, #128]", "ldp q10, q11, [{0}, #160]", "ldp q12, q13, [{0}, #192]", "ldp q14, q15, [{0}, #224]",
                "ldp q16, q17, [{0}, #256]", "ldp q18, q19, [{0}, #288]", "ldp q20, q21, [{0}, #320]", "ldp q22, q23, [{0}, #352]",
                "ldp q24, q25, [{0}, #384]", "ldp q26, q27, [{0}, #416]", "ldp q28, q29, [{0}, #448]", "ldp q30, q31, [{0}, #480]",
                "msr fpsr, {1}", "msr fpcr, {2}",
                in(reg) &raw const self.v, in(reg) self.fpsr, in(reg) self.fpcr, options(nostack, preserves_flags),
            );
        }
    }
    /// Saves the registers to memory, if they hold this state.
    pub(crate) fn save(&mut self) {
        if !self.owned() {
            return;
        }
        self.tls = regs::read!("tpidr_el0");
        // SAFETY: writes this state, which owns the registers.
        unsafe {
            asm!(
                ".arch_extension fp", ".arch_extension simd",
                "stp q0, q1, [{0}]", "stp q2, q3, [{0}, #32]", "stp q4, q5, [{0}, #64]", "stp q6, q7, [{0}, #96]",
                "stp q8, q9, [{0}, #128]", "stp q10, q11, [{0}, #160]", "stp q12, q13, [{0}, #192]", "stp q14, q15, [{0}, #224]",
                "stp q16, q17, [{0}, #256]", "stp q18, q19, [{0}, #288]", "stp q20, q21, [{0}, #320]", "stp q22, q23, [{0}, #352]",
                "stp q24, q25, [{0}, #384]", "stp q26, q27, [{0}, #416]", "stp q28, q29, [{0}, #448]", "stp q30, q31, [{0}, #480]",
                "mrs {1}, fpsr", "mrs {2}, fpcr",
                in(reg) &raw mut self.v, out(reg) self.fpsr, out(reg) self.fpcr, options(nostack, preserves_flags),
            );
        }
    }
    /// TPIDR_EL0.
    pub(crate) fn tls(&self) -> u64 {
        if self.owned() {
            regs::read!("tpidr_el0")
        } else {
            self.tls
        }
    }
    /// Sets TPIDR_EL0.
    pub(crate) fn set_tls(&mut self, tls: u64) {
        self.tls = tls;
        if self.owned() {
            regs::write!("tpidr_el0", tls);
        }
    }
    /// The registers in the form of a signal frame: fpsr, fpcr, v0 to v31.
    pub(crate) fn registers(&mut self) -> (u32, u32, &[u128; 32]) {
        self.save();
        (self.fpsr as u32, self.fpcr as u32, &self.v)
    }
    /// Replaces the registers; TPIDR_EL0 stays.
    pub(crate) fn set_registers(&mut self, fpsr: u32, fpcr: u32, v: [u128; 32]) {
        self.detach();
        (self.fpsr, self.fpcr, self.v) = (fpsr.into(), fpcr.into(), v);
    }
    /// Makes memory the only copy.
    pub(crate) fn detach(&mut self) {
        self.save();
        self.disown();
    }
    /// Gives up ownership of the CPU's registers.
    fn disown(&self) {
        if self.owned() {
            // SAFETY: this CPU's own data.
            unsafe { (*percpu::this()).fp_owner = core::ptr::null_mut() };
        }
    }
}

/// Saves the CPU's registers to their owner. Called before every switch of threads.
pub(crate) fn release() {
    // SAFETY: this CPU's own data; the owner is the running thread's state, which is alive and not
    // in use while the kernel runs (see the module's first lines).
    unsafe {
        let owner = (*percpu::this()).fp_owner.cast::<State>();
        if !owner.is_null() {
            (*owner).save();
            (*percpu::this()).fp_owner = core::ptr::null_mut();
        }
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        let mut copy = Self {
            v: self.v,
            fpsr: self.fpsr,
            fpcr: self.fpcr,
            tls: self.tls,
        };
        if self.owned() {
            // The registers are newer than the memory: save them into the copy by making it the
            // owner for a moment.
            // SAFETY: this CPU's own data; interrupts are off.
            unsafe {
                let owner = (*percpu::this()).fp_owner;
                (*percpu::this()).fp_owner = (&raw mut copy).cast();
                copy.save();
                (*percpu::this()).fp_owner = owner;
            }
        }
        copy
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.disown();
    }
}
