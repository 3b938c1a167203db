//! Features of the CPU, read once at boot (CPUID; SDM Vol 2 "CPUID", APM Vol 3 appendix E).

use core::cell::UnsafeCell;
use raw_cpuid::CpuId;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags};

/// The features the kernel uses or reports.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// 1 GiB pages.
    pub pages_1g: bool,
    /// Supervisor mode execution prevention.
    pub smep: bool,
    /// Supervisor mode access prevention; STAC and CLAC exist.
    pub smap: bool,
    /// User mode instruction prevention.
    pub umip: bool,
    /// RDFSBASE, WRFSBASE, RDGSBASE and WRGSBASE.
    pub fsgsbase: bool,
    /// XSAVE and XRSTOR.
    pub xsave: bool,
    /// XSAVEOPT.
    pub xsaveopt: bool,
    /// Process-context identifiers.
    pub pcid: bool,
    /// The local APIC can be driven by model-specific registers. Not under QEMU's TCG, which ends
    /// with "Bad icount read" when its timer is reached that way while instructions are counted.
    pub x2apic: bool,
    /// The local APIC timer takes a TSC value.
    pub tsc_deadline: bool,
    /// RDRAND.
    pub rdrand: bool,
    /// RDSEED.
    pub rdseed: bool,
    /// CPUID.1:EDX, Linux's AT_HWCAP.
    pub hwcap: u32,
}

struct Holder(UnsafeCell<Features>);
// SAFETY: written once by `detect` before anything else runs, read-only afterwards.
unsafe impl Sync for Holder {}
static FEATURES: Holder = Holder(UnsafeCell::new(Features {
    pages_1g: false,
    smep: false,
    smap: false,
    umip: false,
    fsgsbase: false,
    xsave: false,
    xsaveopt: false,
    pcid: false,
    x2apic: false,
    tsc_deadline: false,
    rdrand: false,
    rdseed: false,
    hwcap: 0,
}));

/// The detected features.
#[inline]
pub fn get() -> &'static Features {
    // SAFETY: see `Holder`.
    unsafe { &*FEATURES.0.get() }
}

/// Whether the hypervisor's signature is that of QEMU's TCG.
fn emulated_by_tcg() -> bool {
    let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
    core::arch::x86_64::__cpuid(1).ecx >> 31 != 0
        && [leaf.ebx, leaf.ecx, leaf.edx] == [*b"TCGT", *b"CGTC", *b"GTCG"].map(u32::from_le_bytes)
}

/// Detects the features. Called once, before all other code.
pub fn detect() {
    let features = read();
    // SAFETY: called once on the boot CPU before any reader.
    unsafe { *FEATURES.0.get() = features };
}

/// Whether this CPU has the features of the boot CPU.
pub fn same_here() -> bool {
    read() == *get()
}

/// The features of this CPU.
fn read() -> Features {
    let id = CpuId::new();
    let mut f = Features::default();
    if let Some(basic) = id.get_feature_info() {
        f.xsave = basic.has_xsave();
        f.pcid = basic.has_pcid();
        f.x2apic = basic.has_x2apic() && !emulated_by_tcg();
        f.tsc_deadline = basic.has_tsc_deadline();
        f.rdrand = basic.has_rdrand();
    }
    if let Some(more) = id.get_extended_feature_info() {
        f.smep = more.has_smep();
        f.smap = more.has_smap();
        f.umip = more.has_umip();
        f.fsgsbase = more.has_fsgsbase();
        f.rdseed = more.has_rdseed();
    }
    if let Some(state) = id.get_extended_state_info() {
        f.xsaveopt = f.xsave && state.has_xsaveopt();
    }
    if let Some(extended) = id.get_extended_processor_and_feature_identifiers() {
        f.pages_1g = extended.has_1gib_pages();
    }
    f.hwcap = core::arch::x86_64::__cpuid(1).edx;
    f
}

/// A feature that the kernel requires and this CPU lacks, as a sentence. PVH's entry checks the
/// same in assembly.
pub fn missing() -> Option<&'static str> {
    let id = CpuId::new();
    let has_nx = id
        .get_extended_processor_and_feature_identifiers()
        .is_some_and(|f| f.has_execute_disable());
    let has_cx16 = id.get_feature_info().is_some_and(|f| f.has_cmpxchg16b());
    match (has_nx, has_cx16) {
        (false, _) => Some("this CPU has no long mode or no NX"),
        (_, false) => Some("this CPU has no cmpxchg16b"),
        _ => None,
    }
}

/// Turns on this CPU's protections.
pub(crate) fn protect() {
    let have = get();
    let mut wanted = Cr4Flags::PAGE_GLOBAL;
    wanted.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, have.smep);
    wanted.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, have.smap);
    wanted.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, have.umip);
    // SAFETY: the bits set are those the CPU has, and the kernel keeps to the protections.
    unsafe {
        Cr0::update(|f| f.insert(Cr0Flags::WRITE_PROTECT | Cr0Flags::NUMERIC_ERROR));
        Cr4::update(|f| f.insert(wanted));
    }
}
