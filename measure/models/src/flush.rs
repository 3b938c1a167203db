//! What a flush drops from TLBs and walk caches.
//!
//! Sources: Intel SDM volume 3A, 5.10.4.1 (4.10.4.1 in editions before 2024) "Operations that
//! Invalidate TLBs and Paging-Structure Caches"; Arm Architecture Reference Manual (DDI 0487),
//! D8.17 "TLB maintenance".

use crate::entry::{Entry, Kind};

/// A flush. A page or block of which any part is named loses all of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Everything: a change of CR4.PGE; TLBI VMALLE1.
    All,
    /// What was cached under one tag, but for global entries: MOV to CR3 with bit 63 clear (the tag
    /// is the new PCID); TLBI ASIDE1. Without PCIDs the tag is 0.
    Tag(u16),
    /// The pages of a range of addresses.
    Pages {
        /// First address.
        address: u64,
        /// Length in bytes, at least 1.
        bytes: u64,
        /// Under one tag, or under all of them.
        tag: Option<u16>,
        /// Whether global entries are dropped, too.
        globals: bool,
        /// What is dropped from walk caches.
        tables: Tables,
    },
}

/// What a flush of pages drops from walk caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Nothing (TLBI ...LE1...: last level only).
    Keep,
    /// What covers the pages (TLBI VAE1).
    OfPages,
    /// All that was cached under the tag (INVLPG).
    OfTag,
}

impl Flush {
    /// INVLPG with the current PCID (0 without PCIDs).
    pub fn invlpg(address: u64, pcid: u16) -> Self {
        Flush::Pages {
            address,
            bytes: 1,
            tag: Some(pcid),
            globals: true,
            tables: Tables::OfTag,
        }
    }

    /// Whether it drops an entry of a TLB.
    pub(crate) fn drops(&self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::Empty => false,
            Kind::Page => self.drops_page(entry),
            Kind::Table => self.drops_table(entry.base, entry.size, entry.tag),
        }
    }

    fn drops_page(&self, entry: &Entry) -> bool {
        match *self {
            Flush::All => true,
            Flush::Tag(tag) => !entry.global && entry.tag == tag,
            Flush::Pages {
                address,
                bytes,
                tag,
                globals,
                ..
            } => {
                let whole = entry.whole();
                let is_meant = if entry.global {
                    globals
                } else {
                    tag.is_none_or(|tag| entry.tag == tag)
                };
                is_meant && overlaps(whole.base, whole.size, address, bytes)
            }
        }
    }

    /// Whether it drops an entry of a walk cache, which begins at `base` and spans `2^level` bytes.
    /// Walk caches know no global entries.
    pub(crate) fn drops_table(&self, base: u64, level: u8, of: u16) -> bool {
        match *self {
            Flush::All => true,
            Flush::Tag(tag) => of == tag,
            Flush::Pages {
                address,
                bytes,
                tag,
                tables,
                ..
            } => {
                let is_meant = tag.is_none_or(|tag| of == tag);
                is_meant
                    && match tables {
                        Tables::Keep => false,
                        Tables::OfPages => overlaps(base, level, address, bytes),
                        Tables::OfTag => true,
                    }
            }
        }
    }
}

/// Whether the `2^size` bytes from `base` and `bytes` from `address` have one in common.
fn overlaps(base: u64, size: u8, address: u64, bytes: u64) -> bool {
    let last = address.saturating_add(bytes.max(1) - 1);
    base <= last && address <= base + ((1 << size) - 1)
}
