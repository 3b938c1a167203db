//! Multi-size THP's model: what programs write and read, what the command line says, and which
//! order a fault takes.

use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::thp::boot::{self, BadValue};
use mm::thp::controls::{Defrag, Enabled, SizeEnabled};
use mm::thp::khugepaged::Knob;
use mm::thp::policy::{self, block};
use mm::thp::words::{Choice, number};
use mm::thp::{
    CollapseLimits, Controls, Disable, Facts, Khugepaged, ORDERS, Orders, Permit, sizes,
};

/// The set of these orders.
fn set(orders: &[u8]) -> Orders {
    Orders(orders.iter().fold(0, |set, order| set | 1 << order))
}

fn both(controls: &Controls) -> (Orders, Orders) {
    (controls.orders(false), controls.orders(true))
}

#[test]
fn words_are_shown_in_brackets_and_read_with_what_programs_add() {
    assert_eq!(
        Enabled::Madvise.shown().to_string(),
        "always [madvise] never"
    );
    assert_eq!(
        SizeEnabled::Always.shown().to_string(),
        "[always] inherit madvise never"
    );
    assert_eq!(
        Defrag::DeferMadvise.shown().to_string(),
        "always defer [defer+madvise] madvise never"
    );
    for text in ["never", "never\n", "never\0", "never\n\0", " never "] {
        assert_eq!(Enabled::parse(text), Some(Enabled::Never), "{text:?}");
    }
    for text in [
        "",
        "nev",
        "nevers",
        "Never",
        "[never]",
        "inherit",
        "always never",
    ] {
        assert_eq!(Enabled::parse(text), None, "{text:?}");
    }
    assert_eq!(SizeEnabled::parse("inherit\0"), Some(SizeEnabled::Inherit));
}

#[test]
fn numbers_are_decimal_and_bounded() {
    assert_eq!(number("511\n", 511), Some(511));
    assert_eq!(number("0\0", 1), Some(0));
    for text in ["512", "-1", "+1", "", "0x10", "1 2", "99999999999999999999"] {
        assert_eq!(number(text, 511), None, "{text:?}");
    }
}

#[test]
fn the_default_is_the_pmd_size_where_it_is_asked_for() {
    assert_eq!(both(&Controls::default()), (Orders::NONE, set(&[9])));
}

/// Top-level setting, setting of 64 kB, and what follows without and with MADV_HUGEPAGE.
#[test]
fn what_a_size_inherits() {
    use {Enabled as E, SizeEnabled as S};
    for (top, size, plain, advised) in [
        (E::Always, S::Always, true, true),
        (E::Always, S::Inherit, true, true),
        (E::Always, S::Madvise, false, true),
        (E::Always, S::Never, false, false),
        (E::Madvise, S::Always, true, true),
        (E::Madvise, S::Inherit, false, true),
        (E::Madvise, S::Madvise, false, true),
        (E::Madvise, S::Never, false, false),
        (E::Never, S::Always, true, true),
        (E::Never, S::Inherit, false, false),
        (E::Never, S::Madvise, false, true),
        (E::Never, S::Never, false, false),
    ] {
        let controls = Controls::default();
        controls.set_size(Order(9), S::Never);
        controls.set_size(Order(4), size);
        controls.change(|settings| settings.enabled = top);
        let (got, got_advised) = both(&controls);
        let wanted = |yes: bool| if yes { set(&[4]) } else { Orders::NONE };
        assert_eq!(
            (got, got_advised),
            (wanted(plain), wanted(advised)),
            "{top:?} {size:?}"
        );
    }
}

#[test]
fn what_a_process_forbids_itself() {
    let controls = Controls::default();
    controls.set_size(Order(9), SizeEnabled::Always);
    controls.set_size(Order(4), SizeEnabled::Madvise);
    let (plain, advised) = (set(&[9]), set(&[4, 9]));
    for (advice, no_huge, disable, wanted) in [
        (false, false, Disable::No, plain),
        (true, false, Disable::No, advised),
        (false, true, Disable::No, Orders::NONE),
        (true, true, Disable::No, Orders::NONE),
        (false, false, Disable::Yes, Orders::NONE),
        (true, false, Disable::Yes, Orders::NONE),
        (false, false, Disable::ExceptAdvised, Orders::NONE),
        (true, false, Disable::ExceptAdvised, advised),
        (true, true, Disable::ExceptAdvised, Orders::NONE),
    ] {
        for orders in [Orders::ALL, Orders::NONE, set(&[4]), set(&[2, 9])] {
            let permit = Permit::new(disable, orders);
            assert_eq!((permit.disable(), permit.orders()), (disable, orders));
            let got = policy::allowed(&controls, advice, no_huge, permit);
            let wanted = wanted.and(orders);
            assert_eq!(got, wanted, "{advice} {no_huge} {permit:?}");
        }
    }
    let none = |disable, orders| Permit::new(disable, orders).is_none();
    assert!(none(Disable::Yes, Orders::ALL) && none(Disable::No, Orders::NONE));
    assert!(!none(Disable::ExceptAdvised, set(&[2])) && !Permit::ALL.is_none());
    for number in 0..8 {
        let known = [0, 1, 3].contains(&number);
        let disable = Disable::from_number(number);
        assert_eq!(disable.map(|d| d as u32), known.then_some(number));
    }
}

#[test]
fn the_command_line_names_sizes() {
    let controls = Controls::default();
    boot::transparent_hugepage(&controls, "madvise").unwrap();
    assert_eq!(both(&controls), (Orders::NONE, set(&[9])));
    let words = "16K-64K:always;128K,512K:inherit;256K:madvise";
    boot::thp_anon(&controls, words, true).unwrap();
    assert_eq!(both(&controls), (set(&[2, 3, 4]), set(&[2, 3, 4, 5, 6, 7])));
    // A second one adds to the first; a size in bytes is a size, too.
    boot::thp_anon(&controls, "2M:always;32768:never", false).unwrap();
    assert_eq!(both(&controls), (set(&[2, 4, 9]), set(&[2, 4, 5, 6, 7, 9])));
}

#[test]
fn a_bad_value_changes_nothing() {
    let controls = Controls::default();
    for (value, why) in [
        ("", BadValue::Shape),
        ("64K", BadValue::Shape),
        ("64K:always;", BadValue::Shape),
        ("64K:sometimes", BadValue::Word),
        ("64K:always;128K:", BadValue::Word),
        ("8K:always", BadValue::Size),
        ("4M:always", BadValue::Size),
        ("48K:always", BadValue::Size),
        ("K:always", BadValue::Size),
        (":always", BadValue::Size),
        ("64K,:always", BadValue::Size),
        ("+64K:always", BadValue::Size),
        ("64G:always", BadValue::Size),
        ("99999999999999999M:always", BadValue::Size),
        ("64K-:always", BadValue::Size),
        ("64K-16K:always", BadValue::Range),
    ] {
        let got = boot::thp_anon(&controls, value, true);
        assert_eq!(got, Err(why), "{value:?}");
    }
    let got = boot::transparent_hugepage(&controls, "inherit");
    assert_eq!(got, Err(BadValue::Word));
    assert_eq!(both(&controls), both(&Controls::default()));
}

#[test]
fn a_set_of_sizes_is_read_back_as_it_is_shown() {
    for word in 0..1 << ORDERS.count() {
        let orders = Orders(word << ORDERS.start());
        let text = sizes::shown(orders).to_string();
        assert_eq!(sizes::parse(&text), Ok(orders), "{text:?}");
    }
    let shown = |orders: &[u8]| sizes::shown(set(orders)).to_string();
    assert_eq!(shown(&[2, 4, 9]), "16kB 64kB 2048kB");
    for (text, orders) in [
        ("all\n", Orders::ALL),
        ("none\0", Orders::NONE),
        ("16kB-64kB", set(&[2, 3, 4])),
        ("16kB-32K,2M", set(&[2, 3, 9])),
        (" 64K  128kB\n", set(&[4, 5])),
        ("1024kB-2MB", set(&[8, 9])),
        ("65536", set(&[4])),
    ] {
        assert_eq!(sizes::parse(text), Ok(orders), "{text:?}");
    }
}

#[test]
fn what_is_no_set_of_sizes() {
    for text in [
        "",
        " ",
        "4kB",
        "8kB",
        "4096kB",
        "48kB",
        "kB",
        "B",
        "64B",
        "64kb",
        "64kBB",
        "64 kB",
        "-64kB",
        "16kB-",
        "64kB,",
        "64kB, 128kB",
        "16kB;64kB",
        "all none",
        "all,64kB",
        "none 64kB",
        "All",
        "-",
        "16kB-64kB-2M",
        "9999999999999999999999kB",
        "18446744073709551615M",
    ] {
        assert_eq!(sizes::parse(text), Err(BadValue::Size), "{text:?}");
    }
    assert_eq!(sizes::parse("64kB-16kB"), Err(BadValue::Range));
}

#[test]
fn khugepaged_has_linux_defaults_and_bounds() {
    let khugepaged = Khugepaged::default();
    let defaults: Vec<(&str, u32)> = Knob::ALL
        .iter()
        .map(|(knob, name)| (*name, khugepaged.get(*knob)))
        .collect();
    assert_eq!(
        defaults,
        [
            ("defrag", 1),
            ("pages_to_scan", 4096),
            ("scan_sleep_millisecs", 10000),
            ("alloc_sleep_millisecs", 60000),
            ("max_ptes_none", 511),
            ("max_ptes_swap", 64),
            ("max_ptes_shared", 256),
        ]
    );
    for (knob, value) in [
        (Knob::MaxPtesNone, 512),
        (Knob::MaxPtesShared, 512),
        (Knob::PagesToScan, 0),
        (Knob::Defrag, 2),
    ] {
        let before = khugepaged.get(knob);
        assert!(!khugepaged.set(knob, value), "{knob:?}");
        assert_eq!(khugepaged.get(knob), before);
    }
    assert!(khugepaged.set(Knob::MaxPtesNone, 0));
    let limits = CollapseLimits {
        max_ptes_none: 0,
        max_ptes_shared: 256,
    };
    assert_eq!(khugepaged.limits(), limits);
}

const MIB: u64 = 1 << 20;

fn range(start: u64, end: u64) -> VirtRange {
    VirtRange::new(VirtAddr(start), VirtAddr(end))
}

/// Which page is written, the area, the hole around the page, whether the PMD entry is absent, the
/// sizes allowed, and the order that the fault takes.
#[test]
fn the_order_of_a_fault() {
    let (all, kb64) = (Orders::ALL, set(&[4]));
    let wide = range(0, 8 * MIB);
    let pmd = range(2 * MIB, 4 * MIB);
    let at = 2 * MIB + 0x1_2345;
    for (name, va, vma, hole, pmd_absent, orders, wanted) in [
        ("everything fits", at, wide, pmd, true, all, 9),
        ("a table is there", at, wide, pmd, false, all, 8),
        ("nothing allowed", at, wide, pmd, true, Orders::NONE, 0),
        ("one size allowed", at, wide, pmd, true, kb64, 4),
        (
            "two sizes, the larger first",
            at,
            wide,
            pmd,
            true,
            set(&[2, 5]),
            5,
        ),
        (
            "the area starts inside",
            at,
            range(2 * MIB + 0x1_0000, 8 * MIB),
            pmd,
            true,
            all,
            4,
        ),
        (
            "the area ends inside",
            at,
            range(0, 2 * MIB + 0x8_0000),
            pmd,
            true,
            all,
            7,
        ),
        (
            "the area is smaller than any",
            at,
            range(2 * MIB + 0x1_2000, 2 * MIB + 0x1_4000),
            pmd,
            true,
            all,
            0,
        ),
        (
            "a page near by",
            at,
            wide,
            range(2 * MIB + 0x1_0000, 2 * MIB + 0x1_4000),
            false,
            all,
            2,
        ),
        (
            "a page before the block",
            at,
            wide,
            range(2 * MIB + 0x1_0000, 4 * MIB),
            false,
            all,
            4,
        ),
        (
            "a page right beside",
            at,
            wide,
            range(at & !0xfff, 4 * MIB),
            false,
            all,
            0,
        ),
        (
            "no room for the only size",
            at,
            wide,
            range(2 * MIB + 0x1_1000, 4 * MIB),
            false,
            kb64,
            0,
        ),
        ("the last page", 4 * MIB - 1, wide, pmd, true, all, 9),
        ("the first page", 2 * MIB, wide, pmd, true, all, 9),
    ] {
        let facts = Facts {
            va: VirtAddr(va),
            vma,
            hole,
            pmd_absent,
            orders,
        };
        assert_eq!(policy::order(&facts), Order(wanted), "{name}");
    }
}

#[test]
fn blocks_are_naturally_aligned() {
    for order in (0..=9).map(Order) {
        let block = block(VirtAddr(0x1234_5678), order);
        assert_eq!(block.len(), order.pages() * PAGE_SIZE);
        assert!(block.start.is_aligned(order.bytes()));
        assert!(block.contains(VirtAddr(0x1234_5678)));
    }
}

#[test]
fn orders_that_fit_an_area() {
    for (start, end, wanted) in [
        (0, 2 * MIB, Orders::ALL),
        (4096, 4 * MIB, Orders::ALL),
        (4096, 4 * MIB - 4096, Orders::ALL.below(Order(9))),
        (4096, 5 * 4096, Orders::NONE),
        (4 * 4096, 8 * 4096, set(&[2])),
        (4096, 4096, Orders::NONE),
        (u64::MAX - 0xfff, u64::MAX, Orders::NONE),
    ] {
        let got = policy::fitting(range(start, end), Orders::ALL);
        assert_eq!(got, wanted, "{start:#x} {end:#x}");
    }
    let got = policy::fitting(range(0, 2 * MIB), set(&[4]));
    assert_eq!(got, set(&[4]));
}

#[test]
fn the_order_at_a_hole_of_an_object() {
    use mm::thp::shmem::{Allowed, Place};
    let base = 0x4000_0000 / PAGE_SIZE;
    let order = |page: u64, index, first: u64, end: u64, always: &[u8], within: &[u8]| {
        let at = |page: u64| VirtAddr((base + page) * PAGE_SIZE);
        let place = Place {
            va: at(page),
            vma: VirtRange::new(at(first), at(end)),
            index,
            allowed: Allowed {
                always: set(always),
                within: set(within),
            },
        };
        // Pages 40 and 41 are there, and the object has 100.
        let order = place.order(Order(10), 100, |range| {
            !range.contains(&40) && !range.contains(&41)
        });
        order.map(|order| order.0)
    };
    for (page, index, first, end, always, within, wanted) in [
        (5, 5, 0, 64, &[2, 4][..], &[][..], Some(4)),
        // The area begins, or ends, within the larger one.
        (5, 5, 1, 64, &[2, 4], &[], Some(2)),
        (5, 5, 0, 15, &[2, 4], &[], Some(2)),
        (5, 5, 5, 6, &[2, 4], &[], None),
        // What is there already.
        (45, 45, 0, 64, &[2, 4], &[], Some(2)),
        (42, 42, 0, 64, &[2, 4], &[], None),
        // Addresses and indices that differ by a multiple of 4 pages, and by one page.
        (8, 20, 0, 64, &[2, 3, 4], &[], Some(2)),
        (8, 9, 0, 64, &[2, 3, 4], &[], None),
        // Behind the end.
        (99, 99, 0, 512, &[3], &[2, 4], Some(3)),
        (99, 99, 0, 512, &[], &[2, 3], Some(2)),
        (99, 99, 0, 512, &[], &[3], None),
        (99, 99, 0, 512, &[], &[], None),
    ] {
        let found = order(page, index, first, end, always, within);
        assert_eq!(
            found, wanted,
            "{page} {index} {first}..{end} {always:?} {within:?}"
        );
    }
}
