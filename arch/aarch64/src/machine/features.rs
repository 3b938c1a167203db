//! The ID registers: what the kernel announces to user mode (AT_HWCAP, /proc/cpuinfo) and what user
//! mode reads itself (HWCAP_CPUID: Linux's Documentation/arch/arm64/cpu-feature-registers.rst).

use super::regs;
use core::sync::atomic::{AtomicU64, Ordering};

/// Registers that carry features, by CRm and op2 of their encoding S3_0_C0_Cm_op2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Id {
    Pfr0,
    Pfr1,
    Isar0,
    Isar1,
    Mmfr0,
    Mmfr1,
    Mmfr2,
}

impl Id {
    fn read(self) -> u64 {
        match self {
            Id::Pfr0 => regs::read!("id_aa64pfr0_el1"),
            Id::Pfr1 => regs::read!("id_aa64pfr1_el1"),
            Id::Isar0 => regs::read!("id_aa64isar0_el1"),
            Id::Isar1 => regs::read!("id_aa64isar1_el1"),
            Id::Mmfr0 => regs::read!("id_aa64mmfr0_el1"),
            Id::Mmfr1 => regs::read!("id_aa64mmfr1_el1"),
            Id::Mmfr2 => regs::read!("S3_0_C0_C7_2"),
        }
    }
    /// The fields that user mode may see: what works without support of the kernel, or with support
    /// that exists.
    fn visible(self) -> u64 {
        match self {
            // FP, AdvSIMD, DIT.
            Id::Pfr0 => 0x000f_0000_00ff_0000,
            // SSBS; no BT, MTE, SME.
            Id::Pfr1 => 0xf0,
            // All but TLB.
            Id::Isar0 => 0xf0ff_ffff_f0ff_fff0,
            // I8MM, DGH, BF16, SB, FRINTTS, LRCPC, FCMA, JSCVT, DPB; no pointer authentication.
            Id::Isar1 => 0x00ff_f0ff_00ff_f00f,
            Id::Mmfr0 | Id::Mmfr1 => 0,
            // AT: unaligned atomics.
            Id::Mmfr2 => 0xf << 32,
        }
    }
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
    let value = regs::field(register.read(), shift);
    // FP and AdvSIMD are signed: 15 is "not there".
    let signed = register == Id::Pfr0 && (shift == 16 || shift == 20);
    value >= least && !(signed && value == 0xf)
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
    regs::field(Id::Mmfr1.read(), 20) >= 1
}

/// FEAT_HAFDBS: the access flag (1) and the dirty state (2) set by hardware.
pub(crate) fn hafdbs() -> u64 {
    regs::field(Id::Mmfr1.read(), 0)
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
    regs::field(Id::Mmfr0.read(), 4) == 2
}

/// What the kernel or user mode relies on, of each register.
static BOOT_CPU: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

fn relied_on() -> [u64; 8] {
    use Id::*;
    let [pfr0, pfr1, isar0, isar1, mmfr2] =
        [Pfr0, Pfr1, Isar0, Isar1, Mmfr2].map(|id| id.read() & id.visible());
    // PARange, ASIDBits; HAFDBS, PAN; MOPS; TLB.
    let mmfr = Mmfr0.read() & 0xff | (Mmfr1.read() & 0xf0_000f) << 8;
    let kernel = u64::from(has_mops()) | u64::from(has_tlbi_range()) << 1;
    let counter = regs::read!("cntfrq_el0");
    [pfr0, pfr1, isar0, isar1, mmfr2, mmfr, kernel, counter]
}

/// Records the boot CPU's features, for [`same_here`].
pub(crate) fn remember() {
    for (word, value) in BOOT_CPU.iter().zip(relied_on()) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Whether this CPU has the features of the boot CPU.
pub(crate) fn same_here() -> bool {
    let same = |(word, value): (&AtomicU64, u64)| word.load(Ordering::Relaxed) == value;
    BOOT_CPU.iter().zip(relied_on()).all(same)
}

/// `mrs xN, <ID register>` in user mode: emulates the read. `false` for another instruction, or a
/// register that is not shown.
pub(crate) fn emulate(instruction: u32, x: &mut [u64; 31]) -> bool {
    // mrs of op0 = 3, op1 = 0, CRn = 0.
    if instruction & 0xffff_f000 != 0xd538_0000 {
        return false;
    }
    let (crm, op2) = (instruction >> 8 & 0xf, instruction >> 5 & 7);
    let shown = |id: Id| id.read() & id.visible();
    let value = match (crm, op2) {
        (0, 0) => regs::read!("midr_el1"),
        // One CPU, no affinity: RES1 and nothing else, as Linux shows it.
        (0, 5) => 1 << 31,
        (0, 6) => regs::read!("revidr_el1"),
        // EL1 and EL0 are AArch64 only.
        (4, 0) => shown(Id::Pfr0) | 0x11,
        (4, 1) => shown(Id::Pfr1),
        // The least DebugVer.
        (5, 0) => 6,
        (6, 0) => shown(Id::Isar0),
        (6, 1) => shown(Id::Isar1),
        (7, 2) => shown(Id::Mmfr2),
        (2..=7, _) => 0,
        _ => return false,
    };
    if let Some(register) = x.get_mut(instruction as usize & 31) {
        *register = value;
    }
    true
}
