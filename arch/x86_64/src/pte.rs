//! The entry format: pure bits (SDM Vol 3A, 4.5 "4-Level Paging", tables 4-15 to 4-20; APM Vol 2,
//! 5.3 "Long-Mode Page Translation").

use mm::addr::{Order, Pfn, VirtAddr};
use mm::arch::{Attrs, Entry, Level, PteFormat};

/// The entry format.
pub struct Format;

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const WRITE_THROUGH: u64 = 1 << 3;
const CACHE_DISABLE: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
/// In a PMD or PUD: maps a page. (In a PTE this bit chooses a memory type; it stays 0.)
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
/// Bit 9 is the software's: with [`PRESENT`] clear, the entry is a leaf that refuses every access.
/// The CPU ignores all other bits then.
const NO_ACCESS: u64 = 1 << 9;
/// Bit 10 is the software's: not written since soft-dirty was cleared.
const TRACKED: u64 = 1 << 10;
/// Bit 11 is the software's: write-protected by userfaultfd.
const UFFD_WP: u64 = 1 << 11;
/// Bits 62:59: the protection key (SDM Vol 3A, 4.6.2).
const KEY: u64 = 0xf << 59;
const NO_EXECUTE: u64 = 1 << 63;
/// Bits 51:12. A large leaf has its PAT bit at 12 and reserved zeros above; both stay 0, as the
/// frame is aligned to the level.
const FRAME: u64 = 0x000f_ffff_ffff_f000;

const DEVICE: u64 = WRITE_THROUGH | CACHE_DISABLE;

/// Attributes that are one bit set for "yes", each as many places above the attribute's.
const PLAIN: Attrs = Attrs::WRITE
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY)
    .union(Attrs::GLOBAL)
    .union(Attrs::NO_ACCESS)
    .union(Attrs::TRACKED)
    .union(Attrs::UFFD_WP);
const ABOVE: u32 = 1;
const KEY_ABOVE: u32 = 48;
#[inline(always)]
const fn place(attr: Attrs, above: u32) -> u64 {
    (attr.bits() as u64) << above
}
const _: () = assert!(
    place(Attrs::WRITE, ABOVE) == WRITABLE
        && place(Attrs::USER, ABOVE) == USER
        && place(Attrs::ACCESSED, ABOVE) == ACCESSED
        && place(Attrs::DIRTY, ABOVE) == DIRTY
        && place(Attrs::GLOBAL, ABOVE) == GLOBAL
        && place(Attrs::NO_ACCESS, ABOVE) == NO_ACCESS
        && place(Attrs::TRACKED, ABOVE) == TRACKED
        && place(Attrs::UFFD_WP, ABOVE) == UFFD_WP
        && place(Attrs::KEY, KEY_ABOVE) == KEY
);

impl PteFormat for Format {
    const USER_END: VirtAddr = VirtAddr(0x0000_7fff_ffff_f000);
    const LARGEST_LEAF: Level = Level::Pud;
    const CONTIG_ORDER: Option<Order> = None;
    const KEYS: u8 = 16;
    const BREAK_BEFORE_MAKE: bool = false;

    #[inline]
    fn loose_bits(_raw: u64) -> u64 {
        ACCESSED | DIRTY
    }

    #[inline]
    fn thaw(raw: u64) -> u64 {
        if raw & NO_ACCESS == 0 {
            raw | PRESENT
        } else {
            raw
        }
    }

    #[inline]
    fn frame(raw: u64) -> Pfn {
        Pfn((raw & FRAME) >> 12)
    }

    #[inline]
    fn read_only(raw: u64) -> u64 {
        raw & !WRITABLE
    }

    #[inline]
    fn writable(raw: u64) -> u64 {
        match raw & (PRESENT | TRACKED | UFFD_WP) {
            PRESENT => raw | WRITABLE,
            _ => raw,
        }
    }

    #[inline]
    fn is_still(raw: u64) -> bool {
        raw & ACCESSED != 0
    }

    #[inline]
    fn unused(raw: u64) -> u64 {
        raw & !ACCESSED
    }

    #[inline]
    fn is_settled(raw: u64) -> bool {
        raw & (ACCESSED | DIRTY) == ACCESSED | DIRTY
    }

    #[inline]
    fn decode(raw: u64, level: Level) -> Entry {
        let pfn = Pfn((raw & FRAME) >> 12);
        // Two tests for one: walks need nothing else.
        if level != Level::Pte && raw & (PRESENT | WRITABLE | LARGE) == PRESENT | WRITABLE {
            return Entry::Table(pfn);
        }
        if raw & (PRESENT | NO_ACCESS) == 0 {
            return Entry::Absent;
        }
        if level != Level::Pte && raw & LARGE == 0 {
            return Entry::Shared(pfn);
        }
        let below = |above| Attrs::from_bits_retain((raw >> above) as u16);
        let mut attrs = below(ABOVE) & PLAIN | below(KEY_ABOVE) & Attrs::KEY;
        attrs.set(Attrs::EXEC, raw & NO_EXECUTE == 0);
        attrs.set(Attrs::DEVICE, raw & DEVICE == DEVICE);
        Entry::Leaf { pfn, attrs }
    }

    #[inline(always)]
    fn leaf(pfn: Pfn, attrs: Attrs, level: Level) -> u64 {
        debug_assert!(level <= Self::LARGEST_LEAF && pfn.0.is_multiple_of(level.order().pages()));
        let key = place(attrs & Attrs::KEY, KEY_ABOVE);
        let mut raw = pfn.0 << 12 | place(attrs & PLAIN, ABOVE) | key;
        if !attrs.contains(Attrs::NO_ACCESS) {
            raw |= PRESENT;
        }
        if !attrs.contains(Attrs::EXEC) {
            raw |= NO_EXECUTE;
        }
        if attrs.contains(Attrs::DEVICE) {
            raw |= DEVICE;
        }
        if level != Level::Pte {
            raw |= LARGE;
        }
        raw
    }

    #[inline]
    fn add(raw: u64, bits: Attrs) -> u64 {
        let simple = Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY | Attrs::USER;
        if raw & (PRESENT | NO_ACCESS) == 0 || !simple.contains(bits) {
            return match Self::decode(raw, Level::Pte) {
                Entry::Leaf { pfn, attrs } => Self::leaf(pfn, attrs | bits, Level::Pte),
                _ => raw,
            };
        }
        raw | place(bits, ABOVE)
    }

    #[inline]
    fn table(pfn: Pfn) -> u64 {
        // Rights are the AND over the levels, so the upper ones allow everything (SDM Vol 3A,
        // 4.6.1).
        pfn.0 << 12 | USER | WRITABLE | PRESENT
    }

    #[inline]
    fn shared_table(pfn: Pfn) -> u64 {
        pfn.0 << 12 | USER | PRESENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::arch::Key;

    const LEVELS: [Level; 3] = [Level::Pte, Level::Pmd, Level::Pud];

    #[test]
    fn every_leaf_reads_back_as_written() {
        let all = Attrs::all() - Attrs::CONTIG;
        for attrs in (0..=Attrs::all().bits()).filter_map(Attrs::from_bits) {
            if !all.contains(attrs) {
                continue;
            }
            for level in LEVELS {
                let pfn = Pfn(0x9_2345_6780_0000 >> 12 & !(level.order().pages() - 1));
                let raw = Format::leaf(pfn, attrs, level);
                assert_eq!(
                    Format::decode(raw, level),
                    Entry::Leaf { pfn, attrs },
                    "{attrs:?} at {level:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_added_is_there_as_if_written_anew() {
        let every = || (0..=Attrs::all().bits()).filter_map(Attrs::from_bits);
        let keyless = || every().filter(|bits| !bits.intersects(Attrs::KEY));
        let some = |a: &Attrs| (*a & Attrs::KEY == Attrs::KEY) || !a.intersects(Attrs::KEY);
        let all = every().filter(some);
        for (a, bits) in all.flat_map(|a| keyless().map(move |bits| (a, bits))) {
            let raw = Format::leaf(Pfn(5), a, Level::Pte);
            let whole = Format::leaf(Pfn(5), a | bits, Level::Pte);
            assert_eq!(Format::add(raw, bits), whole, "{a:?} {bits:?}");
        }
        assert_eq!(Format::add(0, Attrs::all()), 0);
    }

    #[test]
    fn the_contiguous_bit_is_ignored() {
        let with = Format::leaf(Pfn(16), Attrs::WRITE | Attrs::CONTIG, Level::Pte);
        assert_eq!(with, Format::leaf(Pfn(16), Attrs::WRITE, Level::Pte));
    }

    /// SDM Vol 3A, table 4-20 (4-KByte page): P 0, R/W 1, U/S 2, PWT 3, PCD 4, A 5, D 6, PAT 7, G
    /// 8, XD 63; frame in 51:12.
    #[test]
    fn a_page_table_entry_is_the_manuals() {
        let user_data = Attrs::USER | Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY;
        assert_eq!(
            Format::leaf(Pfn(0x12345), user_data, Level::Pte),
            0x8000_0000_1234_5067
        );
        let user_text = Attrs::USER | Attrs::EXEC | Attrs::ACCESSED;
        assert_eq!(
            Format::leaf(Pfn(0x12345), user_text, Level::Pte),
            0x0000_0000_1234_5025
        );
        let kernel_data = Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
        assert_eq!(
            Format::leaf(Pfn(0x1), kernel_data, Level::Pte),
            0x8000_0000_0000_1163
        );
    }

    /// SDM Vol 3A, table 4-20: the protection key is in 62:59.
    #[test]
    fn a_key_is_the_manuals() {
        let attrs = Attrs::USER | Attrs::WRITE | Attrs::ACCESSED | Key(5).attrs();
        assert_eq!(
            Format::leaf(Pfn(0x12345), attrs, Level::Pte),
            0xa800_0000_1234_5027
        );
        let none = Format::leaf(Pfn(0x200), Key(15).attrs() | Attrs::EXEC, Level::Pmd);
        assert_eq!(none, 0x7800_0000_0020_0081);
    }

    /// PWT and PCD select entry 3 of the reset PAT, "UC" (SDM Vol 3A, tables 12-11 and 12-12).
    #[test]
    fn device_memory_is_uncached() {
        let raw = Format::leaf(Pfn(0xfee00), Attrs::WRITE | Attrs::DEVICE, Level::Pte);
        assert_eq!(raw, 0x8000_0000_fee0_001b);
    }

    /// SDM Vol 3A, table 4-18 (2-MByte page): PS 7 is 1, PAT is bit 12; table 4-16 (1-GByte page)
    /// the same. APM Vol 2, figure 5-22.
    #[test]
    fn large_leaves_have_the_page_size_bit() {
        let attrs = Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
        assert_eq!(
            Format::leaf(Pfn(0x200), attrs, Level::Pmd),
            0x8000_0000_0020_01e3
        );
        assert_eq!(
            Format::leaf(Pfn(0x40000), attrs, Level::Pud),
            0x8000_0000_4000_01e3
        );
    }

    /// SDM Vol 3A, tables 4-15, 4-17, 4-19: an entry that references a table has P 0, R/W 1, U/S 2
    /// and PS 7 clear.
    #[test]
    fn a_table_entry_allows_everything() {
        assert_eq!(Format::table(Pfn(0x777)), 0x0000_0000_0077_7007);
        for level in [Level::Pmd, Level::Pud, Level::Pgd] {
            assert_eq!(
                Format::decode(0x0000_0000_0077_7007, level),
                Entry::Table(Pfn(0x777))
            );
            // The walker sets A in it (SDM Vol 3A, 4.8).
            assert_eq!(
                Format::decode(0x0000_0000_0077_7027, level),
                Entry::Table(Pfn(0x777))
            );
        }
    }

    /// SDM Vol 3A, 4.8: the CPU sets A (bit 5) and D (bit 6) by itself.
    #[test]
    fn what_the_walker_sets_is_seen() {
        let clean = Format::leaf(Pfn(5), Attrs::USER | Attrs::WRITE, Level::Pte);
        let used = Format::decode(clean | 0x60, Level::Pte);
        let attrs = Attrs::USER | Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY;
        assert_eq!(used, Entry::Leaf { pfn: Pfn(5), attrs });
    }

    /// SDM Vol 3A, 4.5: with P clear the CPU uses no other bit.
    #[test]
    fn no_access_is_absent_to_the_cpu_and_known_to_us() {
        let attrs = Attrs::USER | Attrs::WRITE | Attrs::NO_ACCESS;
        for level in LEVELS {
            let raw = Format::leaf(Pfn(1 << 18), attrs, level);
            assert_eq!(raw & 1, 0);
            assert_eq!(
                Format::decode(raw, level),
                Entry::Leaf {
                    pfn: Pfn(1 << 18),
                    attrs
                }
            );
        }
        assert_eq!(Format::decode(0, Level::Pte), Entry::Absent);
        assert_eq!(
            Format::decode(0x8000_0000_1234_5066, Level::Pte),
            Entry::Absent
        );
    }
}
