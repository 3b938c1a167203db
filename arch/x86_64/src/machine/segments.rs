//! The segment registers that user mode may load: DS, ES, FS and GS, and the bases of FS and GS.
//!
//! In 64-bit mode the CPU ignores what DS and ES select, but each of the four keeps its selector,
//! and any program can read it. So they belong to the thread, like the bases. Loading a selector
//! replaces the base by the descriptor's, or by 0 (SDM Vol 3, 3.4.4), hence the order: selectors,
//! then bases.
//!
//! What user mode has loaded can be loaded again without a fault: the global table never changes
//! and there is no local one.

use super::selectors::{USER_CODE, USER_DATA};
use crate::pte::Format;
use core::arch::asm;
use mm::arch::PteFormat;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{FsBase, KernelGsBase};
use x86_64::registers::segmentation::{DS, ES, FS, GS, Segment};
use x86_64::structures::gdt::SegmentSelector;

/// What DS, ES, FS and GS select.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Selectors {
    ds: u16,
    es: u16,
    fs: u16,
    gs: u16,
}

impl Selectors {
    #[inline(always)]
    fn read() -> Self {
        Selectors {
            ds: DS::get_reg().0,
            es: ES::get_reg().0,
            fs: FS::get_reg().0,
            gs: GS::get_reg().0,
        }
    }

    /// Loads them; the bases of FS and GS are lost.
    #[cold]
    fn load(self) {
        // SAFETY: null, or data or code of privilege level 3.
        unsafe {
            DS::set_reg(loadable(self.ds));
            ES::set_reg(loadable(self.es));
            FS::set_reg(loadable(self.fs));
            load_gs(loadable(self.gs));
        }
    }
}

/// The selector if user mode can load it, else null. In virtual-8086 mode (see `entry`) a register
/// may hold any number.
fn loadable(selector: u16) -> SegmentSelector {
    const RPL: u16 = 3;
    match selector | RPL {
        USER_DATA | USER_CODE => SegmentSelector(selector),
        _ => SegmentSelector(0),
    }
}

/// Loads GS while its base is the user's, so that the kernel's is not replaced.
///
/// # Safety
/// The selector is null or one that user mode can load.
unsafe fn load_gs(selector: SegmentSelector) {
    // SAFETY: the caller's promise; nothing between the two swaps uses GS, and what may interrupt
    // them loads its own.
    unsafe {
        asm!("swapgs", "mov gs, {0:x}", "swapgs", in(reg) selector.0, options(nostack, preserves_flags))
    };
}

/// The user's segment registers of one thread.
#[derive(Clone, Copy, Default)]
pub struct Segments {
    selectors: Selectors,
    fs_base: u64,
    gs_base: u64,
}

impl Segments {
    /// The segment registers in the CPU.
    #[inline(always)]
    pub fn live() -> Self {
        Segments {
            selectors: Selectors::read(),
            fs_base: FsBase::read().as_u64(),
            gs_base: KernelGsBase::read().as_u64(),
        }
    }

    /// Loads them into the CPU; selectors only where they differ from the CPU's.
    #[inline(always)]
    pub fn load(&self) {
        if self.selectors != Selectors::read() {
            self.selectors.load();
        }
        write_bases(self.fs_base, self.gs_base);
    }

    /// DS, ES, FS and GS with the bases of the last two; `None` when user mode could not load them.
    pub fn of(selectors: [u64; 4], fs_base: u64, gs_base: u64) -> Option<Self> {
        let valid = |selector: &u64| {
            let number = u16::try_from(*selector);
            number.is_ok_and(|n| n == 0 || loadable(n).0 == n)
        };
        if !selectors.iter().all(valid) {
            return None;
        }
        let [ds, es, fs, gs] = selectors.map(|selector| selector as u16);
        Some(Segments {
            selectors: Selectors { ds, es, fs, gs },
            fs_base: UserBase::new(fs_base)?.0,
            gs_base: UserBase::new(gs_base)?.0,
        })
    }

    /// What DS, ES, FS and GS select.
    pub fn selectors(&self) -> [u16; 4] {
        let Selectors { ds, es, fs, gs } = self.selectors;
        [ds, es, fs, gs]
    }

    /// FS and GS base.
    pub fn bases(&self) -> (u64, u64) {
        (self.fs_base, self.gs_base)
    }

    /// The same with another FS base and a null selector, as arch_prctl(2) sets them.
    pub fn with_fs(mut self, base: UserBase) -> Self {
        (self.selectors.fs, self.fs_base) = (0, base.0);
        self
    }

    /// The same with another GS base and a null selector.
    pub fn with_gs(mut self, base: UserBase) -> Self {
        (self.selectors.gs, self.gs_base) = (0, base.0);
        self
    }
}

/// A base that can be loaded: below the end of user space, hence canonical.
#[derive(Clone, Copy)]
pub struct UserBase(u64);

impl UserBase {
    /// `None` when it is not a user address.
    pub fn new(base: u64) -> Option<Self> {
        (base < Format::USER_END.0).then_some(Self(base))
    }
}

fn write_bases(fs: u64, gs: u64) {
    // SAFETY: user addresses are canonical; values read back from the CPU are, too.
    unsafe {
        FsBase::write(VirtAddr::new_unsafe(fs));
        KernelGsBase::write(VirtAddr::new_unsafe(gs));
    }
}

/// Loads null selectors: a loader may leave any values.
///
/// # Safety
/// Once per CPU, before the kernel's base of GS is set.
pub unsafe fn init() {
    // SAFETY: null selectors load without a fault.
    unsafe {
        DS::set_reg(SegmentSelector(0));
        ES::set_reg(SegmentSelector(0));
        FS::set_reg(SegmentSelector(0));
        GS::set_reg(SegmentSelector(0));
    }
}
