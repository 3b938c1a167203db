//! The TLBI instructions of aarch64 as flushes.
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), C5.5 "A64 System instructions for TLB
//! maintenance"; the encodings of SYS in C6.2.

use super::{Flush, Tables};

/// A TLBI instruction for the EL1&0 regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlbi {
    what: What,
    /// Whether only entries of the last level of tables are dropped, so that walk caches stay.
    last_level: bool,
    /// Whether it is broadcast to other CPUs (IS, OS).
    pub broadcast: bool,
    /// The number of the register with its operand; 31: zero.
    pub register: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    All,
    Tag,
    Page { any_tag: bool },
    Range { any_tag: bool },
}

impl Tlbi {
    /// Decodes an instruction word; `None` if it is no TLBI for EL1&0, stage 1.
    pub fn decode(word: u32) -> Option<Self> {
        // SYS with op1 = 0 and CRn = 8, or 9 for those with the nXS qualifier.
        if !matches!(word & 0xffff_f000, 0xd508_8000 | 0xd508_9000) {
            return None;
        }
        let (crm, op2) = (word >> 8 & 0xf, word >> 5 & 0b111);
        let any_tag = op2 & 0b010 != 0;
        let what = match (crm, op2) {
            (1 | 3 | 7, 0) => What::All,
            (1 | 3 | 7, 2) => What::Tag,
            (1 | 3 | 7, 1 | 3 | 5 | 7) => What::Page { any_tag },
            (2 | 5 | 6, 1 | 3 | 5 | 7) => What::Range { any_tag },
            _ => return None,
        };
        Some(Self {
            what,
            last_level: op2 >= 5,
            broadcast: !matches!(crm, 6 | 7),
            register: (word & 0x1f) as u8,
        })
    }

    /// What it drops, with the value of its register.
    pub fn flush(&self, value: u64) -> Flush {
        let asid = (value >> 48) as u16;
        let (address, bytes, any_tag) = match self.what {
            What::All => return Flush::All,
            What::Tag => return Flush::Tag(asid),
            // VA[55:12] in bits 0 to 43.
            What::Page { any_tag } => (extended(value << 12, 55), 1 << 12, any_tag),
            What::Range { any_tag } => {
                let (scale, number) = (value >> 44 & 0b11, value >> 39 & 0x1f);
                let pages = (number + 1) << (5 * scale + 1);
                // VA[48:12] in bits 0 to 36.
                (extended(value << 12, 48), pages << 12, any_tag)
            }
        };
        Flush::Pages {
            address,
            bytes,
            tag: (!any_tag).then_some(asid),
            globals: true,
            tables: if self.last_level {
                Tables::Keep
            } else {
                Tables::OfPages
            },
        }
    }
}

/// Sign extension from a bit.
fn extended(value: u64, bit: u32) -> u64 {
    ((value << (63 - bit)) as i64 >> (63 - bit)) as u64
}
