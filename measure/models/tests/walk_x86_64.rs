//! Walks of tables of x86_64 that are built by hand.

mod common;

use common::{
    CR4, EFER, Memory, ROOT, X86_GLOBAL, X86_LARGE, X86_PAGE, X86_TABLE, levels, page, x86,
};
use models::walk::walk;
use models::{Fault, Roots};

const NO_EXECUTE: u64 = 1 << 63;

fn fault(memory: &Memory, address: u64) -> Fault {
    walk(&x86(0), address, memory)
        .found
        .expect_err("no translation")
}

#[test]
fn pages_and_blocks() {
    let mut memory = Memory::new(0x20000);
    let low = 0x1234_5678_9000;
    let high = 0xffff_8000_0020_0000;
    memory.map_x86(low, 12, 0x4_5000 | X86_PAGE);
    memory.map_x86(high, 21, 0x4000_0000 | X86_PAGE | X86_LARGE | X86_GLOBAL);
    let block = X86_PAGE | X86_LARGE;
    memory.map_x86(0x40_0000_0000, 30, 0x8000_0000 | block | NO_EXECUTE);

    let found = walk(&x86(0), low + 0x123, &memory);
    assert_eq!(page(&found), (0x4_5000, 12, false));
    assert_eq!(levels(&found), [39, 30, 21, 12]);
    // Where the entries are, by hand: index 36 of the root is the first table that was made.
    assert_eq!(found.steps()[0].at, ROOT + 36 * 8);
    assert_eq!(found.steps()[1].at, 0x2000 + (low >> 30 & 0x1ff) * 8);
    assert_eq!(found.steps()[3].at, 0x4000 + (low >> 12 & 0x1ff) * 8);

    let found = walk(&x86(0), high + 0x1f_ffff, &memory);
    assert_eq!(page(&found), (0x4000_0000, 21, true));
    assert_eq!(levels(&found), [39, 30, 21]);

    let found = walk(&x86(0), 0x40_3fff_ffff, &memory);
    assert_eq!(page(&found), (0x8000_0000, 30, false));
    assert_eq!(levels(&found), [39, 30]);
}

#[test]
fn holes_at_each_level() {
    let mut memory = Memory::new(0x20000);
    assert_eq!(fault(&memory, 0x1000), Fault::Absent { level: 39 });
    memory.map_x86(0x1000, 12, 0x4000 | X86_PAGE);
    assert_eq!(fault(&memory, 0x4000_0000), Fault::Absent { level: 30 });
    assert_eq!(fault(&memory, 0x20_0000), Fault::Absent { level: 21 });
    assert_eq!(fault(&memory, 0x2000), Fault::Absent { level: 12 });
    // Not present, whatever else it says.
    memory.map_x86(0x2000, 12, !1);
    assert_eq!(fault(&memory, 0x2000), Fault::Absent { level: 12 });
}

#[test]
fn malformed_entries() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0, 12, 0);
    let entry = |memory: &mut Memory, level| memory.entry(0, level, X86_TABLE);
    for (level, wrong) in [
        (39, X86_TABLE | X86_LARGE),
        (30, 0x8000_2000 | X86_PAGE | X86_LARGE),
        (21, 0x10_0000 | X86_PAGE | X86_LARGE),
    ] {
        let at = entry(&mut memory, level);
        let right = memory.read(at);
        memory.write(at, right & 0xffff_ffff_f000 | wrong);
        assert_eq!(fault(&memory, 0), Fault::Malformed { level: level as u8 });
        memory.write(at, right);
    }
    // Bit 12 of a block is PAT, and no part of its address.
    let at = entry(&mut memory, 21);
    memory.write(at, 0x20_0000 | 1 << 12 | X86_PAGE | X86_LARGE);
    let block = walk(&x86(0), 0, &memory).found.expect("mapped");
    assert_eq!(block.physical, 0x20_0000);
    // XD is reserved while IA32_EFER.NXE is clear.
    memory.write(at, 0x20_0000 | X86_PAGE | X86_LARGE | NO_EXECUTE);
    let (cr3, cr4, efer) = (ROOT, CR4, EFER & !(1 << 11));
    let found = walk(&Roots::X86_64 { cr3, cr4, efer }, 0, &memory).found;
    assert_eq!(found, Err(Fault::Malformed { level: 21 }));
    assert!(walk(&x86(0), 0, &memory).found.is_ok());
}

#[test]
fn tables_outside_of_ram() {
    let mut memory = Memory::new(0x20000);
    memory.write(ROOT, 0x7000_0000 | X86_TABLE);
    let physical = 0x7000_0040;
    assert_eq!(fault(&memory, 8 << 30), Fault::NoRam { physical });
}

#[test]
fn addresses_that_are_not_canonical() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0xffff_8000_0000_0000, 12, 0x4000 | X86_PAGE);
    assert_eq!(fault(&memory, 0x8000_0000_0000), Fault::Address);
    assert_eq!(fault(&memory, 0x00ff_8000_0000_0000), Fault::Address);
    assert!(walk(&x86(0), 0xffff_8000_0000_0000, &memory).found.is_ok());
}

#[test]
fn five_levels() {
    let mut memory = Memory::new(0x20000);
    // The tables of four levels hang from entry 3 of another root, for addresses from 3 << 48 on.
    let (root, low) = (0x1_f000, 0x1234_5678_9000);
    memory.map_x86(low, 12, 0x4_5000 | X86_PAGE);
    memory.write(root + 3 * 8, ROOT | X86_TABLE);
    let (cr3, cr4, efer) = (root, CR4 | 1 << 12, EFER);
    let roots = Roots::X86_64 { cr3, cr4, efer };
    let found = walk(&roots, 3 << 48 | low, &memory);
    assert_eq!(found.found.map(|page| page.physical), Ok(0x4_5000));
    assert_eq!(levels(&found), [48, 39, 30, 21, 12]);
    assert_eq!(found.steps()[0].at, root + 3 * 8);
    let fault = |address| walk(&roots, address, &memory).found.expect_err("none");
    assert_eq!(fault(low), Fault::Absent { level: 48 });
    assert_eq!(fault(1 << 56), Fault::Address);
    // No block is that large.
    memory.write(root + 3 * 8, ROOT | X86_TABLE | X86_LARGE);
    let found = walk(&roots, 3 << 48 | low, &memory).found;
    assert_eq!(found, Err(Fault::Malformed { level: 48 }));
}

#[test]
fn paging_outside_of_long_mode_is_refused() {
    let memory = Memory::new(0x20000);
    let (cr3, cr4, efer) = (ROOT, CR4, 0);
    let refused = walk(&Roots::X86_64 { cr3, cr4, efer }, 0, &memory);
    let unsupported = matches!(refused.found, Err(Fault::Unsupported(_)));
    assert!(unsupported, "{refused:?}");
    assert_eq!(refused.steps(), []);
}
