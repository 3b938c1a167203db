//! The ID registers: what the kernel announces to user mode (AT_HWCAP, /proc/cpuinfo) and what user
//! mode reads itself (HWCAP_CPUID: Linux's Documentation/arch/arm64/cpu-feature-registers.rst).

use super::regs;
use crate::least::{IDS, Id, InUse, Shown, WITHOUT_OPTIONS, least};
use arch_boot::cpus::{NR_CPUS, is_least};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::Lock;

impl Id {
    fn read(self) -> u64 {
        match self {
            Id::Pfr0 => regs::read!("id_aa64pfr0_el1"),
            Id::Pfr1 => regs::read!("id_aa64pfr1_el1"),
            Id::Isar0 => regs::read!("id_aa64isar0_el1"),
            Id::Isar1 => regs::read!("id_aa64isar1_el1"),
            Id::Mmfr2 => regs::read!("S3_0_C0_C7_2"),
        }
    }

    /// What user mode may see: what all CPUs have.
    fn shown(self) -> u64 {
        SHOWN[self as usize].load(Relaxed)
    }
}

type Words = [AtomicU64; IDS.len()];

/// What is shown: of the boot CPU until all have come, from then on what all have.
static SHOWN: Words = [const { AtomicU64::new(0) }; IDS.len()];
/// By CPU, what it has come with; 0 of one that has not.
static CAME_WITH: [Words; NR_CPUS] = [const { [const { AtomicU64::new(0) }; IDS.len()] }; NR_CPUS];
/// By CPU, its MIDR_EL1.
static MIDR: [AtomicU64; NR_CPUS] = [const { AtomicU64::new(0) }; NR_CPUS];

fn set(words: &Words, values: Shown) {
    for (word, value) in words.iter().zip(values) {
        word.store(value, Relaxed);
    }
}

fn values(words: &Words) -> Shown {
    words.each_ref().map(|word| word.load(Relaxed))
}

/// The visible fields of this CPU.
fn own() -> Shown {
    IDS.map(|id| id.read() & id.visible())
}

/// A feature: register, lowest bit of its field, least value, which word of hwcap (0 AT_HWCAP, 1
/// AT_HWCAP2), bit, name.
type Feature = (Id, u32, u64, usize, u32, &'static str);

/// In the order of /proc/cpuinfo. Bits: asm/hwcap.h, which is ABI.
const FEATURES: &[Feature] = &[
    (Id::Pfr0, 16, 0, 0, 0, "fp"),
    (Id::Pfr0, 20, 0, 0, 1, "asimd"),
    (Id::Isar0, 4, 1, 0, 3, "aes"),
    (Id::Isar0, 4, 2, 0, 4, "pmull"),
    (Id::Isar0, 8, 1, 0, 5, "sha1"),
    (Id::Isar0, 12, 1, 0, 6, "sha2"),
    (Id::Isar0, 16, 1, 0, 7, "crc32"),
    (Id::Isar0, 20, 2, 0, 8, "atomics"),
    (Id::Pfr0, 16, 1, 0, 9, "fphp"),
    (Id::Pfr0, 20, 1, 0, 10, "asimdhp"),
    // Reads of ID registers are emulated everywhere: any CPU has it.
    (Id::Pfr0, 0, 0, 0, 11, "cpuid"),
    (Id::Isar0, 28, 1, 0, 12, "asimdrdm"),
    (Id::Isar1, 12, 1, 0, 13, "jscvt"),
    (Id::Isar1, 16, 1, 0, 14, "fcma"),
    (Id::Isar1, 20, 1, 0, 15, "lrcpc"),
    (Id::Isar1, 0, 1, 0, 16, "dcpop"),
    (Id::Isar0, 32, 1, 0, 17, "sha3"),
    (Id::Isar0, 36, 1, 0, 18, "sm3"),
    (Id::Isar0, 40, 1, 0, 19, "sm4"),
    (Id::Isar0, 44, 1, 0, 20, "asimddp"),
    (Id::Isar0, 12, 2, 0, 21, "sha512"),
    (Id::Isar0, 48, 1, 0, 23, "asimdfhm"),
    (Id::Pfr0, 48, 1, 0, 24, "dit"),
    (Id::Mmfr2, 32, 1, 0, 25, "uscat"),
    (Id::Isar1, 20, 2, 0, 26, "ilrcpc"),
    (Id::Isar0, 52, 1, 0, 27, "flagm"),
    (Id::Pfr1, 4, 2, 0, 28, "ssbs"),
    (Id::Isar1, 36, 1, 0, 29, "sb"),
    (Id::Isar1, 0, 2, 1, 0, "dcpodp"),
    (Id::Isar0, 52, 2, 1, 7, "flagm2"),
    (Id::Isar1, 32, 1, 1, 8, "frint"),
    (Id::Isar1, 52, 1, 1, 13, "i8mm"),
    (Id::Isar1, 44, 1, 1, 14, "bf16"),
    (Id::Isar1, 48, 1, 1, 15, "dgh"),
    (Id::Isar0, 60, 1, 1, 16, "rng"),
];

fn present(&(register, shift, least, ..): &Feature) -> bool {
    register.has(register.shown(), shift, least)
}

/// AT_HWCAP, AT_HWCAP2.
pub(crate) fn hwcap() -> (u64, u64) {
    let mut words = [0u64; 2];
    for feature in FEATURES.iter().filter(|f| present(f)) {
        words[feature.3] |= 1 << feature.4;
    }
    (words[0], words[1])
}

/// The names of the features in [`hwcap`].
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().filter(|f| present(f)).map(|f| f.5)
}

/// FEAT_PAN.
pub(crate) fn has_pan() -> bool {
    regs::field(regs::read!("id_aa64mmfr1_el1"), 20) >= 1
}

/// FEAT_HAFDBS: the access flag (1) and the dirty state (2) set by hardware.
pub(crate) fn hafdbs() -> u64 {
    regs::field(regs::read!("id_aa64mmfr1_el1"), 0)
}

/// FEAT_RNG.
pub(crate) fn has_rng() -> bool {
    regs::field(Id::Isar0.read(), 60) >= 1
}

/// FEAT_TLBIRANGE: TLBI takes ranges.
#[inline]
pub(crate) fn has_tlbi_range() -> bool {
    regs::field(Id::Isar0.read(), 56) >= 2
}

/// FEAT_MOPS: memory is filled by SETP, SETM, SETE.
#[inline]
pub(crate) fn has_mops() -> bool {
    // ID_AA64ISAR2_EL1.
    regs::field(regs::read!("S3_0_C0_C6_2"), 16) >= 1
}

/// 16-bit ASIDs.
pub(crate) fn has_asid16() -> bool {
    regs::field(regs::read!("id_aa64mmfr0_el1"), 4) == 2
}

fn in_use() -> InUse {
    InUse {
        mmfr0: regs::read!("id_aa64mmfr0_el1"),
        ctr: regs::read!("ctr_el0"),
        dczid: regs::read!("dczid_el0"),
        frequency: regs::read!("cntfrq_el0"),
        pfr0: Id::Pfr0.read(),
    }
}

/// What the boot CPU has in use. Taken under no other lock.
static IN_USE: Lock<Option<InUse>, 254> = Lock::new(None);

/// Records the boot CPU's features.
pub(crate) fn remember() {
    set(&SHOWN, own());
    MIDR[0].store(regs::read!("midr_el1"), Relaxed);
    *IN_USE.lock() = Some(in_use());
}

/// Records the features of this CPU, which is another one. `false`: it lacks some that are in use
/// for good. All else that the kernel uses each CPU asks itself for.
pub(crate) fn arrive(number: usize) -> bool {
    let own = match is_least(number) {
        true => WITHOUT_OPTIONS,
        false => own(),
    };
    set(&CAME_WITH[number], own);
    MIDR[number].store(regs::read!("midr_el1"), Relaxed);
    IN_USE.lock().is_some_and(|boot| in_use().fits(&boot))
}

/// From now on what is shown is what this CPU and the CPUs `others` have all; whether that is less.
pub(crate) fn level(others: impl Iterator<Item = usize>) -> bool {
    let before = values(&SHOWN);
    let all = others.fold(before, |shown, number| {
        least(&shown, &values(&CAME_WITH[number]))
    });
    set(&SHOWN, all);
    all != before
}

/// MIDR_EL1 of a CPU that has come.
pub(crate) fn midr(number: usize) -> u64 {
    MIDR[number].load(Relaxed)
}

/// `mrs xN, <ID register>` in user mode: emulates the read. `false` for another instruction, or a
/// register that is not shown.
pub(crate) fn emulate(instruction: u32, x: &mut [u64; 31]) -> bool {
    // mrs of op0 = 3, op1 = 0, CRn = 0.
    if instruction & 0xffff_f000 != 0xd538_0000 {
        return false;
    }
    let (crm, op2) = (instruction >> 8 & 0xf, instruction >> 5 & 7);
    let value = match (crm, op2) {
        (0, 0) => regs::read!("midr_el1"),
        // One CPU, no affinity: RES1 and nothing else, as Linux shows it.
        (0, 5) => 1 << 31,
        (0, 6) => regs::read!("revidr_el1"),
        // EL1 and EL0 are AArch64 only.
        (4, 0) => Id::Pfr0.shown() | 0x11,
        (4, 1) => Id::Pfr1.shown(),
        // The least DebugVer.
        (5, 0) => 6,
        (6, 0) => Id::Isar0.shown(),
        (6, 1) => Id::Isar1.shown(),
        (7, 2) => Id::Mmfr2.shown(),
        (2..=7, _) => 0,
        _ => return false,
    };
    if let Some(register) = x.get_mut(instruction as usize & 31) {
        *register = value;
    }
    true
}
