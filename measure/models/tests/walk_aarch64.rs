//! Walks of tables of aarch64 that are built by hand.

mod common;

use common::{
    ARM_BLOCK, ARM_CONTIGUOUS, ARM_NOT_GLOBAL, ARM_PAGE, ARM_TABLE, Memory, ROOT, TCR, arm, levels,
    page,
};
use models::walk::walk;
use models::{Fault, Roots};

fn fault(memory: &Memory, address: u64) -> Fault {
    walk(&arm(0), address, memory)
        .found
        .expect_err("no translation")
}

fn roots(ttbr0: u64, ttbr1: u64, tcr: u64) -> Roots {
    Roots::Aarch64 { ttbr0, ttbr1, tcr }
}

fn with(tcr: u64) -> Roots {
    roots(ROOT | 7 << 48, ROOT | 0x109 << 48, tcr)
}

#[test]
fn pages_and_blocks() {
    let mut memory = Memory::new(0x20000);
    let low = 0x1234_5678_9000;
    let high = 0xffff_8000_0020_0000;
    memory.map_arm(low, 12, 0x4_5000 | ARM_PAGE);
    memory.map_arm(high, 21, 0x4020_0000 | ARM_BLOCK & !ARM_NOT_GLOBAL);
    memory.map_arm(0x40_0000_0000, 30, 0x8000_0000 | ARM_BLOCK);

    let found = walk(&arm(0), low + 0x123, &memory);
    assert_eq!(page(&found), (0x4_5000, 12, false));
    assert_eq!(levels(&found), [39, 30, 21, 12]);
    assert_eq!(found.steps()[0].at, ROOT + 36 * 8);

    let found = walk(&arm(0), high + 0x1f_ffff, &memory);
    assert_eq!(page(&found), (0x4020_0000, 21, true));

    let found = walk(&arm(0), 0x40_3fff_ffff, &memory);
    assert_eq!(page(&found), (0x8000_0000, 30, false));
}

#[test]
fn holes_and_malformed_entries() {
    let mut memory = Memory::new(0x20000);
    assert_eq!(fault(&memory, 0x1000), Fault::Absent { level: 39 });
    memory.map_arm(0x1000, 12, 0x4000 | ARM_PAGE);
    assert_eq!(fault(&memory, 0x2000), Fault::Absent { level: 12 });
    // Valid, but no page: reserved at the last level.
    memory.map_arm(0x2000, 12, 0x4000 | ARM_BLOCK);
    assert_eq!(fault(&memory, 0x2000), Fault::Malformed { level: 12 });
    memory.map_arm(0x3000, 12, 0x4000 | ARM_PAGE & !(1 << 10));
    assert_eq!(fault(&memory, 0x3000), Fault::Unused { level: 12 });
    // A block whose address is not aligned, and one where there can be none.
    memory.map_arm(0x20_0000, 21, 0x1000 | ARM_BLOCK);
    assert_eq!(fault(&memory, 0x20_0000), Fault::Malformed { level: 21 });
    memory.write(ROOT + 8, ARM_BLOCK);
    assert_eq!(fault(&memory, 1 << 39), Fault::Malformed { level: 39 });
    memory.write(ROOT + 16, 0x7000_0000 | ARM_TABLE);
    let physical = 0x7000_0000;
    assert_eq!(fault(&memory, 2 << 39), Fault::NoRam { physical });
}

/// The contiguous bit counts where the entry is at the place that its address has.
#[test]
fn contiguous() {
    let mut memory = Memory::new(0x20000);
    memory.map_arm(0x1_3000, 12, 0x8_3000 | ARM_PAGE | ARM_CONTIGUOUS);
    memory.map_arm(0x2_3000, 12, 0x8_4000 | ARM_PAGE | ARM_CONTIGUOUS);
    memory.map_arm(0x3_3000, 12, 0x8_3000 | ARM_PAGE);
    memory.map_arm(0x620_0000, 21, 0x4220_0000 | ARM_BLOCK | ARM_CONTIGUOUS);
    let found = |address| walk(&arm(0), address, &memory).found;
    let contiguous = |address| found(address).expect("mapped").contiguous;
    assert!(contiguous(0x1_3000));
    assert!(!contiguous(0x2_3000), "misprogrammed");
    assert!(!contiguous(0x3_3000));
    assert!(contiguous(0x620_0000));
}

#[test]
fn rights_are_those_of_all_levels() {
    let mut memory = Memory::new(0x20000);
    memory.map_arm(0, 12, 0x4000 | ARM_PAGE);
    let writable = |memory: &Memory| walk(&arm(0), 0, memory).found.expect("mapped").writable;
    assert!(writable(&memory));
    for level in [39, 30, 21] {
        let at = memory.entry(0, level, ARM_TABLE);
        let right = memory.read(at);
        memory.write(at, right | 1 << 62);
        assert!(!writable(&memory), "APTable at {level}");
        memory.write(at, right);
    }
    // AP[2]: read-only, or clean with DBM.
    for bits in [1 << 7, 1 << 7 | 1 << 51] {
        memory.map_arm(0, 12, 0x4000 | ARM_PAGE | bits);
        assert!(!writable(&memory));
    }
}

/// TnSZ gives the size of the addresses, and with it the level of the first table.
#[test]
fn sizes_of_addresses() {
    let mut memory = Memory::new(0x20000);
    let sizes = |t0sz: u64, t1sz: u64| with(TCR & !0x3f_003f | t0sz | t1sz << 16);
    // 39 bits: the root is a table of level 1.
    memory.write(ROOT + 5 * 8, 0x4000_0000 | ARM_BLOCK);
    memory.write(ROOT + 511 * 8, 0x8000_0000 | ARM_BLOCK);
    let found = walk(&sizes(25, 25), 5 << 30, &memory);
    assert_eq!((levels(&found), found.found.is_ok()), (vec![30], true));
    let found = walk(&sizes(25, 25), 0xffff_ffff_c000_0000, &memory);
    assert_eq!(found.found.map(|block| block.physical), Ok(0x8000_0000));
    for outside in [1 << 39, u64::MAX << 40] {
        let found = walk(&sizes(25, 25), outside, &memory).found;
        assert_eq!(found, Err(Fault::Address));
    }
    let first = |roots: &Roots, address| walk(roots, address, &memory).steps()[0].at;
    // 42 bits: level 0, of which 8 entries are used, also by the upper half.
    assert_eq!(first(&sizes(22, 22), u64::MAX << 42), ROOT);
    assert_eq!(first(&sizes(22, 22), u64::MAX << 39), ROOT + 7 * 8);
    // That table of 64 bytes is aligned to its size, and no more.
    let small = roots(0x1040, 0, TCR & !0x3f | 22);
    assert_eq!(first(&small, 2 << 39), 0x1050);
    // 31 bits: level 1, two entries; 30: level 2.
    assert_eq!(first(&sizes(33, 16), 0x4000_0000), ROOT + 8);
    assert_eq!(levels(&walk(&sizes(34, 16), 0, &memory)), [21]);
}

#[test]
fn the_two_ranges() {
    let mut memory = Memory::new(0x20000);
    memory.write(ROOT, 0x4000_0000 | ARM_TABLE);
    let two = roots(ROOT, 0x3000, TCR);
    let first = |roots: &Roots, address| walk(roots, address, &memory).steps()[0].at;
    assert_eq!(first(&two, 0), ROOT);
    assert_eq!(first(&two, 0xffff_0000_0000_0000), 0x3000);
    let between = walk(&two, 0x0001_0000_0000_0000, &memory).found;
    assert_eq!(between, Err(Fault::Address));
    // CnP is no part of the address.
    assert_eq!(first(&roots(ROOT | 1, 0, TCR), 0), ROOT);
    // Disabled walks, each for its own range.
    for (bit, disabled, enabled) in [(7, 0, u64::MAX << 47), (23, u64::MAX << 47, 0)] {
        let roots = with(TCR | 1 << bit);
        let found = walk(&roots, disabled, &memory);
        assert_eq!(found.found, Err(Fault::Absent { level: 39 }));
        assert_eq!(found.steps(), []);
        assert_ne!(walk(&roots, enabled, &memory).steps(), []);
    }
}

#[test]
fn top_byte() {
    let mut memory = Memory::new(0x20000);
    memory.map_arm(0x1000, 12, 0x4000 | ARM_PAGE);
    let tagged = 0xab00_0000_0000_1000;
    let found = |tcr| walk(&with(tcr), tagged, &memory).found;
    assert_eq!(found(TCR), Err(Fault::Address));
    assert!(found(TCR | 1 << 37).is_ok());
    assert_eq!(found(TCR | 1 << 38), Err(Fault::Address));
}

#[test]
fn tags() {
    assert_eq!(with(TCR).tag(), 7);
    assert_eq!(with(TCR | 1 << 22).tag(), 0x109);
    assert_eq!(with((TCR | 1 << 22) & !(1 << 36)).tag(), 9, "8 bits");
}

#[test]
fn other_formats_are_refused() {
    let memory = Memory::new(0x20000);
    let refused = |tcr, address| {
        let found = walk(&with(tcr), address, &memory).found;
        assert!(matches!(found, Err(Fault::Unsupported(_))), "{found:?}");
    };
    let high = u64::MAX << 47;
    refused(TCR | 0b01 << 14, 0);
    refused(TCR | 0b10 << 14, 0);
    // TG1 has other codes than TG0: 0b10 is 4 KiB.
    refused(TCR & !(0b11 << 30), high);
    refused(TCR | 0b11 << 30, high);
    refused(TCR & !0x3f | 12, 0);
    refused(TCR & !0x3f | 40, 0);
    refused(TCR & !0x3f | 1 << 59 | 11, 0);
}

#[test]
fn addresses_of_52_bits() {
    let tcr = TCR & !0x3f | 1 << 59 | 12;
    let mut memory = Memory::new(0x20000);
    // The tables of four levels hang from entry 3 of a first table with 16.
    let (root, low) = (0x1_f000, 0x1234_5678_9000);
    // Bits 50 and 51 of the page's address are bits 8 and 9.
    memory.map_arm(low, 12, 0x4_5000 | ARM_PAGE & !0x300 | 0b11 << 8);
    memory.map_arm(low + 0x1000, 12, 1 << 49 | ARM_PAGE & !0x300);
    memory.map_arm(5 << 39, 39, 1 << 39 | ARM_BLOCK & !0x300);
    memory.write(root + 3 * 8, ROOT | ARM_TABLE);
    let roots = roots(root, 0, tcr);
    let walked = |address: u64| walk(&roots, 3 << 48 | address, &memory);
    let found = walked(low);
    let physical = |address| walked(address).found.map(|page| page.physical);
    assert_eq!(physical(low), Ok(3 << 50 | 0x4_5000));
    assert_eq!(physical(low + 0x1000), Ok(1 << 49));
    assert_eq!(physical(5 << 39 | 0x1234), Ok(1 << 39));
    assert_eq!(levels(&found), [48, 39, 30, 21, 12]);
    assert_eq!(found.steps()[0].at, root + 3 * 8);
    let none = walk(&roots, low, &memory).found;
    assert_eq!(none, Err(Fault::Absent { level: 48 }));
    // Without them a block of 512 GiB is malformed.
    let found = walk(&with(TCR), 5 << 39, &memory).found;
    assert_eq!(found, Err(Fault::Malformed { level: 39 }));
}
