//! The entry format: VMSAv8-64 stage 1 descriptors, 4 KiB granule, 48-bit output addresses.
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), D8.3 "Translation table descriptor
//! formats". Pure bits, compiled and tested on every host.
//!
//! ```text
//! 63 59  58    57    56    55     54   53   52      51   50 48 47        12 11  10   9 8    7     6     5    4  2      1     0
//! ------ INVAL UFFD  TRACK DIRTY  UXN  PXN  CONTIG  DBM  ----- output addr  nG  AF  SH[1:0] AP[2] AP[1] NS   AttrIndx  T/P   V
//! ```
//! Bits 55 to 58 are reserved for software. Dirty is hardware's (D8.5.2): a leaf that may be
//! written but is clean has DBM set and `AP[2]` (read-only) set; the first write clears `AP[2]`, by
//! hardware with FEAT_HAFDBS, else in the fault handler. A page that was written and is now
//! read-only keeps its mark in the software bit.

use mm::addr::{Order, Pfn, VirtAddr};
use mm::arch::{Attrs, Entry, Level, PteFormat};

/// Descriptor bits by their names in the manual.
pub mod bits {
    /// The entry translates; without it hardware ignores every other bit.
    pub const VALID: u64 = 1 << 0;
    /// At the last level: a page (must be 1). Above: points to a table.
    pub const TABLE_OR_PAGE: u64 = 1 << 1;
    /// `AttrIndx[2:0]`: which byte of MAIR_EL1 says what kind of memory it is.
    pub const ATTR_INDEX: u64 = 0b111 << 2;
    /// AttrIndx of device memory; normal memory is index 0.
    pub const ATTR_DEVICE: u64 = super::MAIR_DEVICE << 2;
    /// `AP[1]`: EL0 may use it.
    pub const AP_USER: u64 = 1 << 6;
    /// `AP[2]`: read-only.
    pub const AP_READ_ONLY: u64 = 1 << 7;
    /// `SH[1:0]` = 0b11: inner shareable.
    pub const SH_INNER: u64 = 0b11 << 8;
    /// Access flag: the entry may be cached and used.
    pub const AF: u64 = 1 << 10;
    /// Not global: matched by ASID.
    pub const NOT_GLOBAL: u64 = 1 << 11;
    /// Dirty bit modifier: `AP[2]` may be cleared by hardware. "May be written", whether clean or
    /// dirty.
    pub const DBM: u64 = 1 << 51;
    /// Contiguous: one of 16 entries that the TLB may hold as one.
    pub const CONTIG: u64 = 1 << 52;
    /// EL1 may not execute.
    pub const PXN: u64 = 1 << 53;
    /// EL0 may not execute.
    pub const UXN: u64 = 1 << 54;
    /// Software: was written, and may no longer be.
    pub const SW_DIRTY: u64 = 1 << 55;
    /// Software: not written since soft-dirty was cleared.
    pub const SW_TRACKED: u64 = 1 << 56;
    /// Software: write-protected by userfaultfd.
    pub const SW_UFFD: u64 = 1 << 57;
    /// Software: a leaf that hardware must not use (PROT_NONE); only looked at when `VALID` is
    /// clear.
    pub const SW_INVALID_LEAF: u64 = 1 << 58;
    /// `APTable[1]`, in an entry that points to a table: nothing below may be written, and hardware
    /// marks nothing there as dirty.
    pub const AP_TABLE_READ_ONLY: u64 = 1 << 62;
    /// The output address.
    pub const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
}
use bits::*;

/// Index of device memory (Device-nGnRE) in MAIR_EL1; that of normal write-back memory is 0.
pub const MAIR_DEVICE: u64 = 1;
/// MAIR_EL1 to go with the indices: byte 0 normal write-back read/write-allocate, byte 1
/// Device-nGnRE.
pub const MAIR: u64 = 0xff | 0x04 << 8;

/// Attributes that are a bit of software's, by how many places above the attribute's it stands.
const SOFTWARE: Attrs = Attrs::TRACKED.union(Attrs::UFFD_WP);
const ABOVE: u32 = 47;
const _: () = assert!(
    (Attrs::TRACKED.bits() as u64) << ABOVE == SW_TRACKED
        && (Attrs::UFFD_WP.bits() as u64) << ABOVE == SW_UFFD
);

/// The entry format.
pub struct Format;

impl PteFormat for Format {
    /// 48 bits (T0SZ = 16) less the last page, so that one past the last address is still a user
    /// address.
    const USER_END: VirtAddr = VirtAddr(0x0000_ffff_ffff_f000);
    const LARGEST_LEAF: Level = Level::Pud;
    const CONTIG_ORDER: Option<Order> = Some(Order(4));
    /// FEAT_S1POE's overlay indices are not used.
    const KEYS: u8 = 1;
    const BREAK_BEFORE_MAKE: bool = true;

    #[inline]
    fn loose_bits(raw: u64) -> u64 {
        // Of an entry that may be written, hardware clears AP[2] to say that it was.
        let dirty = if raw & DBM != 0 { AP_READ_ONLY } else { 0 };
        AF | SW_DIRTY | CONTIG | dirty
    }

    #[inline]
    fn thaw(raw: u64) -> u64 {
        if raw & SW_INVALID_LEAF == 0 {
            raw | VALID
        } else {
            raw
        }
    }

    #[inline]
    fn frame(raw: u64) -> Pfn {
        Pfn((raw & ADDRESS) >> 12)
    }

    #[inline]
    fn read_only(raw: u64) -> u64 {
        // DBM without AP[2]: hardware has seen a write. The mark moves to where it lasts.
        let dirty = if raw & (DBM | AP_READ_ONLY) == DBM {
            SW_DIRTY
        } else {
            0
        };
        (raw & !DBM) | AP_READ_ONLY | dirty
    }

    #[inline]
    fn writable(raw: u64) -> u64 {
        if raw & (VALID | SW_TRACKED | SW_UFFD | DBM) != VALID {
            return raw;
        }
        match raw & SW_DIRTY {
            0 => raw | DBM,
            _ => (raw & !(SW_DIRTY | AP_READ_ONLY)) | DBM,
        }
    }

    #[inline]
    fn is_still(raw: u64) -> bool {
        raw & AF != 0
    }

    #[inline]
    fn unused(raw: u64) -> u64 {
        raw & !AF
    }

    #[inline]
    fn is_settled(raw: u64) -> bool {
        raw & (AF | AP_READ_ONLY) == AF
    }

    #[inline]
    fn decode(raw: u64, level: Level) -> Entry {
        if raw & VALID == 0 {
            if raw & SW_INVALID_LEAF == 0 {
                return Entry::Absent;
            }
        } else if raw & TABLE_OR_PAGE != 0 && level != Level::Pte {
            let pfn = Pfn((raw & ADDRESS) >> 12);
            if level == Level::Pmd && raw & AP_TABLE_READ_ONLY != 0 {
                return Entry::Shared(pfn);
            }
            return Entry::Table(pfn);
        } else if raw & TABLE_OR_PAGE == 0 && level == Level::Pte {
            // 0b01 is reserved at the last level and faults as an invalid entry does.
            return Entry::Absent;
        }
        Entry::Leaf {
            pfn: Pfn((raw & ADDRESS) >> 12),
            attrs: attrs(raw),
        }
    }

    #[inline(always)]
    fn leaf(pfn: Pfn, attrs: Attrs, level: Level) -> u64 {
        let mut raw = pfn.start().0 & ADDRESS;
        let mut set = |on: bool, bit: u64| raw |= if on { bit } else { 0 };
        let has = |a: Attrs| attrs.contains(a);
        set(!has(Attrs::NO_ACCESS), VALID);
        set(has(Attrs::NO_ACCESS), SW_INVALID_LEAF);
        set(level == Level::Pte, TABLE_OR_PAGE);
        set(has(Attrs::USER), AP_USER);
        // Writable and clean is read-only with DBM, so that the first write can be seen.
        set(has(Attrs::WRITE), DBM);
        set(!attrs.contains(Attrs::WRITE | Attrs::DIRTY), AP_READ_ONLY);
        set(has(Attrs::DIRTY) && !has(Attrs::WRITE), SW_DIRTY);
        set(has(Attrs::ACCESSED), AF);
        set(!has(Attrs::GLOBAL), NOT_GLOBAL);
        set(has(Attrs::CONTIG), CONTIG);
        // Each side executes only its own pages.
        set(!has(Attrs::EXEC) || !has(Attrs::USER), UXN);
        set(!has(Attrs::EXEC) || has(Attrs::USER), PXN);
        raw |= u64::from((attrs & SOFTWARE).bits()) << ABOVE;
        // Device memory is outer shareable whatever SH says.
        raw | if has(Attrs::DEVICE) {
            ATTR_DEVICE
        } else {
            SH_INNER
        }
    }

    #[inline]
    fn add(raw: u64, bits: Attrs) -> u64 {
        let written = Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY;
        let page = VALID | TABLE_OR_PAGE;
        if bits == written && raw & page == page {
            return (raw | DBM | AF) & !(AP_READ_ONLY | SW_DIRTY);
        }
        match Self::decode(raw, Level::Pte) {
            Entry::Leaf { pfn, attrs } => Self::leaf(pfn, attrs | bits, Level::Pte),
            _ => raw,
        }
    }

    #[inline]
    fn table(pfn: Pfn) -> u64 {
        (pfn.start().0 & ADDRESS) | TABLE_OR_PAGE | VALID
    }

    #[inline]
    fn shared_table(pfn: Pfn) -> u64 {
        Self::table(pfn) | AP_TABLE_READ_ONLY
    }
}

#[inline]
fn attrs(raw: u64) -> Attrs {
    let has = |bit: u64| raw & bit != 0;
    let user = has(AP_USER);
    let mut attrs = Attrs::empty();
    attrs.set(Attrs::WRITE, has(DBM));
    attrs.set(
        Attrs::DIRTY,
        has(SW_DIRTY) || (has(DBM) && !has(AP_READ_ONLY)),
    );
    attrs.set(Attrs::EXEC, if user { !has(UXN) } else { !has(PXN) });
    attrs.set(Attrs::USER, user);
    attrs.set(Attrs::GLOBAL, !has(NOT_GLOBAL));
    attrs.set(Attrs::ACCESSED, has(AF));
    attrs.set(Attrs::CONTIG, has(CONTIG));
    attrs |= Attrs::from_bits_retain((raw >> ABOVE) as u16) & SOFTWARE;
    attrs.set(Attrs::DEVICE, raw & ATTR_INDEX == ATTR_DEVICE);
    attrs.set(Attrs::NO_ACCESS, !has(VALID));
    attrs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> impl Iterator<Item = Attrs> {
        let all = (0..=Attrs::all().bits()).filter_map(Attrs::from_bits);
        all.filter(|attrs| !attrs.intersects(Attrs::KEY))
    }

    #[test]
    fn every_leaf_reads_back() {
        for (level, pfn) in [
            (Level::Pte, 0xf_ffff_fff1),
            (Level::Pmd, 0x1200),
            (Level::Pud, 0x40_0000),
        ] {
            for a in every() {
                let raw = Format::leaf(Pfn(pfn), a, level);
                assert_eq!(
                    Format::decode(raw, level),
                    Entry::Leaf {
                        pfn: Pfn(pfn),
                        attrs: a
                    },
                    "{a:?} {raw:#x}"
                );
            }
        }
    }

    #[test]
    fn what_is_added_is_there_as_if_written_anew() {
        for (a, bits) in every().flat_map(|a| every().map(move |bits| (a, bits))) {
            let raw = Format::leaf(Pfn(5), a, Level::Pte);
            let new = Format::add(raw, bits);
            let whole = Entry::Leaf {
                pfn: Pfn(5),
                attrs: a | bits,
            };
            assert_eq!(Format::decode(new, Level::Pte), whole, "{a:?} {bits:?}");
            assert_eq!(
                new,
                Format::leaf(Pfn(5), a | bits, Level::Pte),
                "{a:?} {bits:?}"
            );
        }
        assert_eq!(Format::add(0, Attrs::all()), 0);
    }

    #[test]
    fn hardware_sees_no_access_as_invalid() {
        for a in every() {
            let raw = Format::leaf(Pfn(5), a | Attrs::NO_ACCESS, Level::Pte);
            assert_eq!(raw & 1, 0);
        }
        assert_eq!(Format::decode(0, Level::Pte), Entry::Absent);
        // Bits of an invalid entry that are not ours mean nothing.
        assert_eq!(
            Format::decode(!1 & !SW_INVALID_LEAF, Level::Pmd),
            Entry::Absent
        );
    }

    /// DDI 0487, D8.3.1, figure "VMSAv8-64 Table descriptor formats", 4 KiB granule: bits[1:0] =
    /// 0b11, address in [47:12].
    #[test]
    fn table_descriptor_as_in_the_manual() {
        assert_eq!(Format::table(Pfn(0x4_2000)), 0x4200_0003);
        assert_eq!(
            Format::decode(0x4200_0003, Level::Pgd),
            Entry::Table(Pfn(0x4_2000))
        );
        assert_eq!(
            Format::decode(0x4200_0003, Level::Pmd),
            Entry::Table(Pfn(0x4_2000))
        );
    }

    /// DDI 0487, D8.3.2, "VMSAv8-64 Block and Page descriptor formats" and D8.4 (AP, UXN, PXN):
    /// patterns put together by hand from the field positions there.
    #[test]
    fn leaf_descriptors_as_in_the_manual() {
        let user_rw = Attrs::USER | Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED;
        // AP = 0b01 (EL1 and EL0 read/write), nG, AF, SH = 0b11, page; UXN, PXN, DBM.
        assert_eq!(
            Format::leaf(Pfn(0x4_2345), user_rw, Level::Pte),
            0x0068_0000_4234_5f43
        );
        // Clean: AP = 0b11 (read-only at both) until DBM lets hardware clear AP[2] (D8.5.2).
        let clean = user_rw - Attrs::DIRTY;
        assert_eq!(
            Format::leaf(Pfn(0x4_2345), clean, Level::Pte),
            0x0068_0000_4234_5fc3
        );
        // User text: AP = 0b11, UXN = 0, PXN = 1.
        let text = Attrs::USER | Attrs::EXEC | Attrs::ACCESSED;
        assert_eq!(
            Format::leaf(Pfn(0x4_2345), text, Level::Pte),
            0x0020_0000_4234_5fc3
        );
        // Kernel text, a 2 MiB block: AP = 0b10, global, UXN = 1, PXN = 0, bits[1:0] = 0b01.
        let ktext = Attrs::EXEC | Attrs::GLOBAL | Attrs::ACCESSED;
        assert_eq!(
            Format::leaf(Pfn(0x4_0200), ktext, Level::Pmd),
            0x0040_0000_4020_0781
        );
        // Kernel data, a 1 GiB block: AP = 0b00.
        let kdata = Attrs::WRITE | Attrs::DIRTY | Attrs::GLOBAL | Attrs::ACCESSED;
        assert_eq!(
            Format::leaf(Pfn(0x4_0000), kdata, Level::Pud),
            0x0068_0000_4000_0701
        );
        // A device page: AttrIndx = 1, never executable.
        assert_eq!(
            Format::leaf(Pfn(0x9000), kdata | Attrs::DEVICE, Level::Pte),
            0x0068_0000_0900_0407
        );
        // Contiguous is bit 52.
        assert_eq!(
            Format::leaf(Pfn(0x4_2340), user_rw | Attrs::CONTIG, Level::Pte),
            0x0078_0000_4234_0f43
        );
    }

    /// D8.5.2: with DBM, hardware marks a page dirty by clearing AP[2] and nothing else.
    #[test]
    fn a_hardware_write_reads_as_dirty() {
        let clean = Format::leaf(
            Pfn(7),
            Attrs::USER | Attrs::WRITE | Attrs::ACCESSED,
            Level::Pte,
        );
        let Entry::Leaf { attrs, .. } = Format::decode(clean & !(1 << 7), Level::Pte) else {
            panic!("a leaf")
        };
        assert_eq!(
            attrs,
            Attrs::USER | Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY
        );
        // A read-only page has no DBM: hardware never writes it.
        assert_eq!(
            Format::leaf(Pfn(7), Attrs::USER | Attrs::DIRTY, Level::Pte) & (1 << 51 | 1 << 7),
            1 << 7
        );
    }

    /// The last level has no blocks: 0b01 there is reserved and faults (table "Descriptor type").
    #[test]
    fn reserved_encoding_is_absent() {
        assert_eq!(Format::decode(0x4234_5f41, Level::Pte), Entry::Absent);
    }
}
