//! Page tables of x86_64 with four or five levels.
//!
//! Source: Intel SDM volume 3A, 5.5 "4-Level Paging and 5-Level Paging" (4.5 in editions before
//! 2024), tables of the formats of entries; 5.10 (4.10) for PCIDs and global pages.

use super::{Entry, Fault, Start, Translation};

const CR4_PGE: u64 = 1 << 7;
const CR4_LA57: u64 = 1 << 12;
const CR4_PCIDE: u64 = 1 << 17;
const EFER_LMA: u64 = 1 << 10;
const EFER_NXE: u64 = 1 << 11;

const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const DIRTY: u64 = 1 << 6;
/// In an entry that may be a table or a block: a block.
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;
/// Bits 12 to 51; those above the physical width of the CPU are reserved, which the emulator
/// checks.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// PCID; 0 while CR4.PCIDE is clear.
pub(crate) fn tag(cr3: u64, cr4: u64) -> u16 {
    if cr4 & CR4_PCIDE != 0 {
        (cr3 & 0xfff) as u16
    } else {
        0
    }
}

pub(crate) fn start(cr3: u64, cr4: u64, efer: u64, address: u64) -> Result<Start, Fault> {
    if efer & EFER_LMA == 0 {
        return Err(Fault::Unsupported("paging outside of long mode"));
    }
    let level = if cr4 & CR4_LA57 != 0 { 48 } else { 39 };
    // The bits above those that are translated are equal to the highest of them.
    if !matches!(address as i64 >> (level + 8), 0 | -1) {
        return Err(Fault::Address);
    }
    Ok(Start {
        table: cr3 & ADDRESS,
        level,
        index_bits: 9,
        writable: true,
    })
}

pub(crate) fn decode(raw: u64, level: u8, cr4: u64, efer: u64) -> Result<Entry, Fault> {
    if raw & PRESENT == 0 {
        return Err(Fault::Absent { level });
    }
    let is_leaf = level == 12 || raw & LARGE != 0;
    if raw & reserved(level, is_leaf, efer) != 0 {
        return Err(Fault::Malformed { level });
    }
    if !is_leaf {
        return Ok(Entry::Table {
            table: raw & ADDRESS,
            writable: raw & WRITE != 0,
        });
    }
    Ok(Entry::Leaf(Translation {
        physical: raw & ADDRESS & (u64::MAX << level),
        size: level,
        contiguous: false,
        global: raw & GLOBAL != 0 && cr4 & CR4_PGE != 0,
        writable: raw & (WRITE | DIRTY) == WRITE | DIRTY,
        entry: raw,
    }))
}

/// Bits that must be clear.
fn reserved(level: u8, is_leaf: bool, efer: u64) -> u64 {
    let no_execute = if efer & EFER_NXE == 0 { NO_EXECUTE } else { 0 };
    let block = match level {
        39 | 48 => LARGE,
        // Bit 12 is PAT; from 13 to the size of the block.
        21 | 30 if is_leaf => (1 << level) - (1 << 13),
        _ => 0,
    };
    no_execute | block
}
