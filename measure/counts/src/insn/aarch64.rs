//! aarch64: Arm Architecture Reference Manual (DDI 0487), C4.1 (encodings) and C5.5 (TLB
//! maintenance).
use super::{Atomic, Effect};
use models::Register;

/// What a TLBI of EL1 flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlbi {
    /// Which translations.
    pub what: What,
    /// Those of all ASIDs, or of the one in bits 63:48 of the operand. Global ones always.
    pub all_asids: bool,
    /// Only last-level entries, not tables.
    pub last_level: bool,
    /// On all CPUs.
    pub broadcast: bool,
}

/// Which translations a TLBI names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All.
    All,
    /// Those of an ASID, but for global ones.
    Asid,
    /// The page in bits 43:0 of the operand.
    Page,
    /// The range in bits 48:0 of the operand.
    Range,
}

impl Tlbi {
    /// The first address and the length in bytes that the operand of a page or a range names
    /// (C5.5, "TLBI VAE1", "TLBI RVAE1"; granule 4 KiB).
    pub fn range(&self, operand: u64) -> (u64, u64) {
        let canonical =
            |bits: u64, width: u32| ((bits << (64 - width)) as i64 >> (64 - width)) as u64;
        match self.what {
            What::Page => (canonical(operand & ((1 << 44) - 1), 44) << 12, 1 << 12),
            What::Range => {
                let (num, scale) = (operand >> 39 & 0x1f, operand >> 44 & 3);
                let start = canonical(operand & ((1 << 37) - 1), 37) << 12;
                (start, (num + 1) << (5 * scale + 1) << 12)
            }
            What::All | What::Asid => (0, u64::MAX),
        }
    }

    /// The ASID in the operand.
    pub fn asid(operand: u64) -> u16 {
        (operand >> 48) as u16
    }
}

/// The instruction as a number.
pub fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// How it updates memory atomically (C4.1.94, "Loads and stores").
pub fn atomic(word: u32) -> Atomic {
    let is = |mask: u32, value: u32| word & mask == value;
    // Atomic memory operations, SWP among them; LDAPR has an encoding there, and only loads.
    let lse = is(0x3b20_0c00, 0x3820_0000) && !is(0x3fff_fc00, 0x38bf_c000);
    // CAS, CASP.
    let cas = is(0x3fa0_7c00, 0x08a0_7c00) || is(0xbfa0_7c00, 0x0820_7c00);
    if lse || cas {
        return Atomic::Update;
    }
    // STXR, STLXR and STXP, STLXP.
    if is(0x3fe0_0000, 0x0800_0000) || is(0xbfe0_0000, 0x8820_0000) {
        return Atomic::ExclusiveStore;
    }
    Atomic::No
}

/// What it does to translations: MSR to a register of theirs, TLBI.
pub fn effect(word: u32) -> Option<Effect> {
    let register = (word & 0x1f) as u8;
    // op1, CRn, CRm, op2.
    let system = (
        word >> 16 & 7,
        word >> 12 & 15,
        word >> 8 & 15,
        word >> 5 & 7,
    );
    match (word & 0xfff8_0000, system) {
        (0xd518_0000, system) => {
            let control = match system {
                (0, 1, 0, 0) => Register::Sctlr,
                (0, 2, 0, 0) => Register::Ttbr0,
                (0, 2, 0, 1) => Register::Ttbr1,
                (0, 2, 0, 2) => Register::Tcr,
                _ => return None,
            };
            Some(Effect::Register(control, register))
        }
        (0xd508_0000, (0, 8 | 9, area, what)) => Some(Effect::Tlbi(tlbi(area, what)?, register)),
        _ => None,
    }
}

/// A TLBI of EL1 by its CRm and op2.
fn tlbi(area: u32, what: u32) -> Option<Tlbi> {
    let (is_range, broadcast) = match area {
        1 | 3 => (false, true),
        7 => (false, false),
        2 | 5 => (true, true),
        6 => (true, false),
        _ => return None,
    };
    let what_is = match (what, is_range) {
        (0, false) => What::All,
        (2, false) => What::Asid,
        (1 | 3 | 5 | 7, false) => What::Page,
        (1 | 3 | 5 | 7, true) => What::Range,
        _ => return None,
    };
    Some(Tlbi {
        what: what_is,
        all_asids: matches!(what, 0 | 3 | 7),
        last_level: matches!(what, 5 | 7),
        broadcast,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics() {
        for (word, expected) in [
            (0xf821_0000, Atomic::Update),         // ldadd x1, x0, [x0]
            (0xf8e1_0042, Atomic::Update),         // ldaddal x1, x2, [x2]
            (0xb8a1_8042, Atomic::Update),         // swpa w1, w2, [x2]
            (0xf821_301f, Atomic::Update),         // stset x1, [x0]
            (0xc8e1_fc02, Atomic::Update),         // casal x1, x2, [x0]
            (0x4820_7c82, Atomic::Update),         // casp x0, x1, x2, x3, [x4]
            (0xc801_7c02, Atomic::ExclusiveStore), // stxr w1, x2, [x0]
            (0x8801_fc02, Atomic::ExclusiveStore), // stlxr w1, w2, [x0]
            (0xc821_8c02, Atomic::ExclusiveStore), // stlxp w1, x2, x3, [x0]
            (0xc85f_7c02, Atomic::No),             // ldxr x2, [x0]
            (0xf8bf_c002, Atomic::No),             // ldapr x2, [x0]
            (0xc89f_fc02, Atomic::No),             // stlr x2, [x0]
            (0xc8df_fc02, Atomic::No),             // ldar x2, [x0]
            (0xf900_0002, Atomic::No),             // str x2, [x0]
            (0xf821_6802, Atomic::No),             // str x2, [x0, x1]
            (0xd503_201f, Atomic::No),             // nop
        ] {
            assert_eq!(atomic(word), expected, "{word:x}");
        }
    }

    #[test]
    fn roots() {
        for (word, expected) in [
            (0xd518_1001, Some(Effect::Register(Register::Sctlr, 1))), // msr sctlr_el1, x1
            (0xd518_2003, Some(Effect::Register(Register::Ttbr0, 3))), // msr ttbr0_el1, x3
            (0xd518_203f, Some(Effect::Register(Register::Ttbr1, 31))), // msr ttbr1_el1, xzr
            (0xd518_2045, Some(Effect::Register(Register::Tcr, 5))),   // msr tcr_el1, x5
            (0xd538_2003, None),                                       // mrs x3, ttbr0_el1
            (0xd518_c000, None),                                       // msr vbar_el1, x0
        ] {
            assert_eq!(effect(word), expected, "{word:x}");
        }
    }

    #[test]
    fn flushes() {
        let flush = |word| match effect(word) {
            Some(Effect::Tlbi(tlbi, register)) => (tlbi, register),
            other => panic!("{word:x}: {other:?}"),
        };
        let page = Tlbi {
            what: What::Page,
            all_asids: false,
            last_level: false,
            broadcast: true,
        };
        assert_eq!(flush(0xd508_8322), (page, 2)); // tlbi vae1is, x2
        let last_level = Tlbi {
            last_level: true,
            ..page
        };
        assert_eq!(flush(0xd508_83a0), (last_level, 0)); // tlbi vale1is, x0
        let local = Tlbi {
            broadcast: false,
            all_asids: true,
            ..page
        };
        assert_eq!(flush(0xd508_8761), (local, 1)); // tlbi vaae1, x1
        assert_eq!(flush(0xd508_831f).0.what, What::All); // tlbi vmalle1is
        assert_eq!(flush(0xd508_8344).0.what, What::Asid); // tlbi aside1is, x4
        assert_eq!(flush(0xd508_8223).0.what, What::Range); // tlbi rvae1is, x3
        assert_eq!(effect(0xd508_7620), None); // dc ivac, x0
        assert_eq!(effect(0xd50c_831f), None); // tlbi alle2is: not of EL1
    }

    #[test]
    fn operands() {
        let tlbi = |what| Tlbi {
            what,
            all_asids: false,
            last_level: true,
            broadcast: true,
        };
        let operand = 0x0007_0fff_8000_0012;
        assert_eq!(Tlbi::asid(operand), 7);
        let page = tlbi(What::Page).range(operand);
        assert_eq!(page, (0xffff_f800_0001_2000, 4096));
        // 0x40 pages from 0x1_2000: NUM 31 is 32 units of 2 pages.
        let range = tlbi(What::Range).range(31 << 39 | 0x12);
        assert_eq!(range, (0x1_2000, 0x40 * 4096));
        // SCALE 1: units of 64 pages.
        let range = tlbi(What::Range).range(1 << 44 | 1 << 39 | 0x1f_ffff_ffff);
        assert_eq!(range, (0xffff_ffff_ffff_f000, 0x80 * 4096));
    }
}
