//! Features of the CPUs (CPUID; SDM Vol 2 "CPUID", APM Vol 3 appendix E): those of the boot CPU
//! until all have come, from then on what all have.

use crate::least::{self, PAGES_1G, PKRU, TSC_DEADLINE, WORDS, Word, Words, X2APIC, XSAVE, has};
use arch_boot::cpus::{NR_CPUS, is_least};
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use raw_cpuid::CpuId;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags};

/// The features the kernel uses or reports.
#[derive(Clone, Copy)]
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
    /// Components of the extended state, as XCR0 has them; 0 without XSAVE.
    pub state: u64,
    /// The local APIC can be driven by model-specific registers. Not under QEMU's TCG, which ends
    /// with "Bad icount read" when its timer is reached that way while instructions are counted.
    pub x2apic: bool,
    /// The local APIC timer takes a TSC value.
    pub tsc_deadline: bool,
    /// Protection keys.
    pub pku: bool,
    /// RDRAND.
    pub rdrand: bool,
    /// RDSEED.
    pub rdseed: bool,
    /// CPUID.1:EDX, Linux's AT_HWCAP.
    pub hwcap: u32,
    /// All words of it.
    pub words: Words,
}

impl Features {
    const NONE: Features = Features::of([0; WORDS.len()], false);

    const fn of(words: Words, emulated_by_tcg: bool) -> Features {
        Features {
            pages_1g: has(&words, PAGES_1G),
            smep: has(&words, (Word::MoreEbx, 7)),
            smap: has(&words, (Word::MoreEbx, 20)),
            umip: has(&words, (Word::MoreEcx, 2)),
            fsgsbase: has(&words, (Word::MoreEbx, 0)),
            xsave: has(&words, XSAVE),
            xsaveopt: has(&words, XSAVE) && has(&words, (Word::Save, 0)),
            state: least::state(&words),
            x2apic: has(&words, X2APIC) && !emulated_by_tcg,
            tsc_deadline: has(&words, TSC_DEADLINE),
            pku: least::state(&words) & PKRU != 0,
            rdrand: has(&words, (Word::BasicEcx, 30)),
            rdseed: has(&words, (Word::MoreEbx, 18)),
            hwcap: words[Word::BasicEdx as usize],
            words,
        }
    }
}

struct Holder(UnsafeCell<Features>);
// SAFETY: written by `detect` before anything else runs, and by `level` while all other CPUs stand
// still; read-only otherwise.
unsafe impl Sync for Holder {}
static FEATURES: Holder = Holder(UnsafeCell::new(Features::NONE));

/// By CPU, the words that it has come with; 0 of one that has not.
static CAME_WITH: [[AtomicU32; WORDS.len()]; NR_CPUS] =
    [const { [const { AtomicU32::new(0) }; WORDS.len()] }; NR_CPUS];

/// The features in use.
#[inline]
pub fn get() -> &'static Features {
    // SAFETY: see `Holder`.
    unsafe { &*FEATURES.0.get() }
}

/// Whether the hypervisor's signature is that of QEMU's TCG.
fn emulated_by_tcg() -> bool {
    let leaf = __cpuid(0x4000_0000);
    __cpuid(1).ecx >> 31 != 0
        && [leaf.ebx, leaf.ecx, leaf.edx] == [*b"TCGT", *b"CGTC", *b"GTCG"].map(u32::from_le_bytes)
}

/// Detects the boot CPU's features. Called once, before all other code.
pub fn detect() {
    let features = Features::of(read(), emulated_by_tcg());
    // SAFETY: called once on the boot CPU before any reader.
    unsafe { *FEATURES.0.get() = features };
}

/// Records the features of this CPU, which is another one. `false`: it lacks some that are in use
/// for good.
pub(crate) fn arrive(number: usize) -> bool {
    let own = match is_least(number) {
        true => least::without_options(&read()),
        false => read(),
    };
    for (word, value) in CAME_WITH[number].iter().zip(own) {
        word.store(value, Relaxed);
    }
    least::fits(&get().words, &own)
}

/// From now on the features are those that this CPU and the CPUs `others` have all; whether these
/// are fewer. Each CPU has to be set up again then.
///
/// # Safety
/// All other CPUs stand still, and have nothing in use of what [`get`] gives.
pub(crate) unsafe fn level(others: impl Iterator<Item = usize>) -> bool {
    let before = get().words;
    let came_with = |number: usize| CAME_WITH[number].each_ref().map(|word| word.load(Relaxed));
    let words = others.fold(before, |words, number| {
        least::least(&words, &came_with(number))
    });
    let features = Features::of(words, emulated_by_tcg());
    // SAFETY: the caller's promise.
    unsafe { *FEATURES.0.get() = features };
    words != before
}

/// The words of this CPU.
fn read() -> Words {
    let (basic, extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    let leaf = |number: u32, part: u32| {
        let highest = if number < 0x8000_0000 {
            basic
        } else {
            extended
        };
        (number <= highest).then(|| __cpuid_count(number, part))
    };
    let has_xsave = __cpuid(1).ecx >> XSAVE.1 & 1 != 0;
    let state = |part| leaf(0xd, part).filter(|_| has_xsave);
    WORDS.map(|word| {
        let value = match word {
            Word::BasicEdx => leaf(1, 0).map(|it| it.edx),
            Word::BasicEcx => leaf(1, 0).map(|it| it.ecx),
            Word::MoreEbx => leaf(7, 0).map(|it| it.ebx),
            Word::MoreEcx => leaf(7, 0).map(|it| it.ecx),
            Word::MoreEdx => leaf(7, 0).map(|it| it.edx),
            Word::ExtendedEdx => leaf(0x8000_0001, 0).map(|it| it.edx),
            Word::ExtendedEcx => leaf(0x8000_0001, 0).map(|it| it.ecx),
            Word::State => state(0).map(|it| it.eax),
            Word::Save => state(1).map(|it| it.eax),
        };
        value.unwrap_or(0)
    })
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

/// Turns on this CPU's protections, as far as all CPUs have them.
pub(crate) fn protect() {
    let have = get();
    let mut wanted = Cr4Flags::PAGE_GLOBAL;
    wanted.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, have.smep);
    wanted.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, have.smap);
    wanted.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, have.umip);
    let unwanted = (Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION
        | Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION
        | Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION)
        .difference(wanted);
    // SAFETY: the bits set are those the CPU has, and the kernel keeps to the protections.
    unsafe {
        Cr0::update(|f| f.insert(Cr0Flags::WRITE_PROTECT | Cr0Flags::NUMERIC_ERROR));
        Cr4::update(|f| {
            f.remove(unwanted);
            f.insert(wanted);
        });
    }
}
