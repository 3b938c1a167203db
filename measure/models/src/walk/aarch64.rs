//! Page tables of aarch64: VMSAv8-64, stage 1 of EL1&0, granule of 4 KiB, addresses of at most 48
//! bits, or of 52 (FEAT_LPA2).
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), D8.2 "Translation process" and D8.3
//! "Translation table descriptor formats"; TCR_EL1 in D24.2.

use super::{Entry, Fault, Start, Translation};

/// TCR_EL1: walks with TTBR0 disabled; bit 23 for TTBR1.
const EPD0: u64 = 1 << 7;
/// The ASID is TTBR1's.
const A1: u64 = 1 << 22;
const EPD1: u64 = 1 << 23;
/// ASIDs of 16 bits.
const AS: u64 = 1 << 36;
/// The top byte of an address is ignored.
const TBI0: u64 = 1 << 37;
const TBI1: u64 = 1 << 38;
/// Addresses of 52 bits (FEAT_LPA2).
const DS: u64 = 1 << 59;

const VALID: u64 = 1 << 0;
/// At the last level a page; above a table.
const TABLE_OR_PAGE: u64 = 1 << 1;
/// `AP[2]`: read-only, or clean where hardware marks pages as written.
const READ_ONLY: u64 = 1 << 7;
const ACCESSED: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
const CONTIGUOUS: u64 = 1 << 52;
/// `APTable[1]`: nothing below may be written.
const TABLE_READ_ONLY: u64 = 1 << 62;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// The same with 52-bit addresses: bits 50 and 51 are elsewhere.
const ADDRESS_DS: u64 = 0x0003_ffff_ffff_f000;

/// ASID, from the register that TCR_EL1.A1 names.
pub(crate) fn tag(ttbr0: u64, ttbr1: u64, tcr: u64) -> u16 {
    let ttbr = if tcr & A1 != 0 { ttbr1 } else { ttbr0 };
    let asid = (ttbr >> 48) as u16;
    if tcr & AS != 0 { asid } else { asid & 0xff }
}

pub(crate) fn start(ttbr0: u64, ttbr1: u64, tcr: u64, address: u64) -> Result<Start, Fault> {
    // D8.2: bit 55 chooses the range, whether or not the top byte is ignored.
    let upper = address & 1 << 55 != 0;
    let (ttbr, unused_bits, granule, disabled, ignores_top) = if upper {
        let granule = (tcr >> 30 & 0b11) == 0b10;
        (ttbr1, tcr >> 16 & 0x3f, granule, EPD1, TBI1)
    } else {
        let granule = (tcr >> 14 & 0b11) == 0b00;
        (ttbr0, tcr & 0x3f, granule, EPD0, TBI0)
    };
    if !granule {
        return Err(Fault::Unsupported("a granule other than 4 KiB"));
    }
    // 39 is the largest value without FEAT_TTST.
    let least = if tcr & DS != 0 { 12 } else { 16 };
    if !(least..=39).contains(&unused_bits) {
        return Err(Fault::Unsupported("a size of addresses (TnSZ)"));
    }
    let bits = 64 - unused_bits as u32;
    let mut address = address as i64;
    if tcr & ignores_top != 0 {
        address = address << 8 >> 8;
    }
    if address >> bits != if upper { -1 } else { 0 } {
        return Err(Fault::Address);
    }
    let level = 12 + (bits - 13) / 9 * 9;
    if tcr & disabled != 0 {
        return Err(Fault::Absent { level: level as u8 });
    }
    // The first table may be smaller than a page, and is aligned to its size.
    let table_bytes = 8u64 << (bits - level);
    // With 52 bits, bits 2 to 5 are the highest of the address.
    let above = if tcr & DS != 0 {
        (ttbr >> 2 & 0xf) << 48
    } else {
        0
    };
    Ok(Start {
        table: above | ttbr & ADDRESS_OF_TABLE & !(table_bytes.max(64) - 1),
        level: level as u8,
        index_bits: (bits - level) as u8,
        writable: true,
    })
}

/// The address in TTBRn_EL1: below is CnP, above the ASID.
const ADDRESS_OF_TABLE: u64 = 0x0000_ffff_ffff_fffe;

/// The output address of a descriptor: with 52 bits, bits 8 and 9 are the highest two.
fn output(raw: u64, tcr: u64) -> u64 {
    match tcr & DS {
        0 => raw & ADDRESS,
        _ => raw & ADDRESS_DS | (raw >> 8 & 0b11) << 50,
    }
}

pub(crate) fn decode(raw: u64, level: u8, address: u64, tcr: u64) -> Result<Entry, Fault> {
    if raw & VALID == 0 {
        return Err(Fault::Absent { level });
    }
    let physical = output(raw, tcr);
    let is_table = raw & TABLE_OR_PAGE != 0 && level != 12;
    if is_table {
        return Ok(Entry::Table {
            table: physical,
            writable: raw & TABLE_READ_ONLY == 0,
        });
    }
    // Reserved: a block at level 0 without 52-bit addresses, what is no page at level 3. So are the
    // bits of a block's address below its size.
    let below = (u64::MAX << level) ^ u64::MAX;
    let is_block = raw & TABLE_OR_PAGE == 0;
    let has_kind = match (level, is_block) {
        (12, false) | (21 | 30, true) => true,
        (39, true) => tcr & DS != 0,
        _ => false,
    };
    if !has_kind || physical & below != 0 {
        return Err(Fault::Malformed { level });
    }
    if raw & ACCESSED == 0 {
        return Err(Fault::Unused { level });
    }
    Ok(Entry::Leaf(Translation {
        physical,
        size: level,
        contiguous: raw & CONTIGUOUS != 0 && in_place(physical, address, level),
        global: raw & NOT_GLOBAL == 0,
        writable: raw & READ_ONLY == 0,
        entry: raw,
    }))
}

/// Whether an entry is at the place in its run that its output address has: else the contiguous bit
/// is misprogrammed, and what hardware does is not predictable. The model then ignores it.
fn in_place(physical: u64, address: u64, level: u8) -> bool {
    (physical >> level & 0xf) == (address >> level & 0xf)
}
