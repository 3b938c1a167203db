//! The two levels of TLB and the walk below them.

mod common;

use common::{
    ARM_PAGE, CR4, EFER, Memory, ROOT, SMALL, X86_LARGE, X86_PAGE, X86_TABLE, arm, holds, one, x86,
};
use models::config::{TlbArray, WalkCacheShape};
use models::{Access, Preset, Ram, Roots};

/// The reads of RAM that a machine asks for.
struct Watched<'a>(&'a Memory, std::cell::RefCell<Vec<u64>>);

impl Ram for Watched<'_> {
    fn read_u64(&self, physical: u64) -> Option<u64> {
        self.1.borrow_mut().push(physical);
        self.0.read_u64(physical)
    }
}

fn pages(memory: &mut Memory, count: u64) {
    for page in 1..=count {
        // Not contiguous: nothing coalesces.
        memory.map_x86(page << 12, 12, (page << 14) | X86_PAGE);
    }
}

#[test]
fn a_walk_reads_each_level_through_the_data_cache() {
    let mut memory = Memory::new(0x20000);
    pages(&mut memory, 1);
    let watched = Watched(&memory, Default::default());
    let mut machine = one(SMALL, x86(0));
    machine.access(0, Access::read(0x1000, 8), &watched);
    assert_eq!(*watched.1.borrow(), [0x1000, 0x2000, 0x3000, 0x4008]);
    let figures = machine.figures(0);
    assert_eq!((figures.walk.memory, figures.walk.all()), (4, 4));
    assert_eq!(figures.data.all(), 1);
    // The entries' lines are cached now: data that lies in one hits.
    machine.access(0, Access::read(0x9000, 8).at(0x4010), &memory);
    assert_eq!(machine.figures(0).data.l1, 1);
    assert_eq!(machine.figures(0).events.unresolved, 1);
}

/// 4 entries in the first level, 16 in the second, both LRU: what is read in a circle of 5 misses
/// the first always, of 17 both.
#[test]
fn levels() {
    let mut memory = Memory::new(0x20000);
    pages(&mut memory, 64);
    let circle = |count: u64| {
        let mut machine = one(SMALL, x86(0));
        for round in 0..11 {
            if round == 1 {
                machine.reset();
            }
            (1..=count).for_each(|page| machine.access(0, Access::read(page << 12, 1), &memory));
        }
        let dtlb = machine.figures(0).dtlb;
        (dtlb.l1, dtlb.l2, dtlb.walks)
    };
    assert_eq!(circle(4), (40, 0, 0));
    assert_eq!(circle(5), (0, 50, 0));
    assert_eq!(circle(16), (0, 160, 0));
    // The second level has 4 sets of 4 ways: page 17 shares a set with four others.
    assert_eq!(circle(17), (0, 120, 50));
    assert_eq!(circle(20), (0, 0, 200));
}

#[test]
fn fetches_have_a_first_level_of_their_own() {
    let mut memory = Memory::new(0x20000);
    pages(&mut memory, 1);
    let mut machine = one(SMALL, x86(0));
    machine.access(0, Access::read(0x1000, 4), &memory);
    machine.fetch(0, Access::read(0x1000, 4), &memory);
    machine.fetch(0, Access::read(0x1004, 4), &memory);
    let figures = machine.figures(0);
    let itlb = figures.itlb;
    assert_eq!((itlb.walks, itlb.l2, itlb.l1), (0, 1, 1));
    let apart = Preset {
        itlb2: Some(SMALL.tlb2),
        stlb: Some(SMALL.dtlb),
        ..SMALL
    };
    let mut machine = one(apart, x86(0));
    machine.access(0, Access::read(0x1000, 4), &memory);
    machine.fetch(0, Access::read(0x1000, 4), &memory);
    machine.access(0, Access::write(0x1000, 4), &memory);
    machine.access(0, Access::write(0x1000, 4), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.itlb.walks, figures.dtlb.walks), (1, 1));
    assert_eq!((figures.dtlb.l2, figures.dtlb.l1), (1, 1));
}

/// A write through an entry that was cached clean walks once more; what is still read-only then is
/// walked for each time, as each of those writes is.
#[test]
fn rights() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x1000 | X86_PAGE & !0x40);
    memory.map_x86(0x2000, 12, 0x8000 | X86_PAGE);
    let mut machine = one(SMALL, x86(0));
    let mut walks = |memory: &Memory, access| {
        machine.reset();
        machine.access(0, access, memory);
        let figures = machine.figures(0);
        (figures.dtlb.walks, figures.events.rewalks)
    };
    let (read, write) = (Access::read(0x1000, 1), Access::write(0x1000, 1));
    assert_eq!(
        [walks(&memory, read), walks(&memory, read)],
        [(1, 0), (0, 0)]
    );
    memory.map_x86(0x1000, 12, 0x1000 | X86_PAGE);
    assert_eq!(walks(&memory, write), (1, 1));
    assert_eq!([walks(&memory, write), walks(&memory, read)], [(0, 0); 2]);
    // What was written first needs nothing more.
    assert_eq!(walks(&memory, Access::write(0x2000, 1)), (1, 0));
    // Both levels have both.
    let (first, second) = machine.mmu(0).held();
    assert_eq!((first.len(), second.len()), (2, 2));
}

/// The table entry that a walk cache holds has the rights of the levels above it.
#[test]
fn rights_in_walk_caches() {
    let caches = |mib2| Preset {
        walk: WalkCacheShape::new(2, 2, mib2),
        coalesces: false,
        ..SMALL
    };
    for preset in [caches(None), caches(Some(2))] {
        let mut memory = Memory::new(0x20000);
        pages(&mut memory, 3);
        let at = memory.entry(0x1000, 30, X86_TABLE);
        let entry = memory.read(at);
        memory.write(at, entry & !2);
        let mut machine = one(preset, x86(0));
        machine.access(0, Access::read(0x1000, 1), &memory);
        machine.access(0, Access::read(0x2000, 1), &memory);
        assert_eq!(machine.figures(0).events.skipped, 3);
        assert!(machine.mmu(0).held().0.iter().all(|entry| !entry.writable));
    }
}

/// A walk cache holds as many entries as it has room for, and forgets the one used longest ago.
#[test]
fn room_of_walk_caches() {
    let preset = Preset {
        walk: WalkCacheShape::new(0, 0, Some(3)),
        coalesces: false,
        ..SMALL
    };
    let mut memory = Memory::new(0x40000);
    let mut machine = one(preset, x86(0));
    let mut next_page = 0;
    // Reads a new page of a block of 2 MiB: whether its table was known.
    let mut known = |block: u64, memory: &mut Memory| {
        next_page += 1;
        let address = (block << 21) + (next_page << 12);
        memory.map_x86(address, 12, (next_page << 14) | X86_PAGE);
        machine.reset();
        machine.access(0, Access::read(address, 1), memory);
        machine.figures(0).events.skipped == 3
    };
    for (block, expected) in [
        (1, false),
        (2, false),
        (3, false),
        (1, true),
        (4, false), // in the place of 2
        (3, true),
        (1, true),
        (2, false), // in the place of 4
        (3, true),
        (4, false),
    ] {
        assert_eq!(known(block, &mut memory), expected, "block {block}");
    }
}

/// The physical address that the caller knows counts for more than a stale entry.
#[test]
fn known_addresses() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x8000 | X86_PAGE);
    let mut machine = one(SMALL, x86(0));
    machine.access(0, Access::read(0x1000, 1).at(0xc000), &memory);
    assert!(holds(&machine, 0xc000) && !holds(&machine, 0x8000));
}

/// A stale entry translates until it is flushed, as in hardware.
#[test]
fn stale_entries() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x8000 | X86_PAGE);
    let mut machine = one(SMALL, x86(0));
    machine.access(0, Access::read(0x1000, 1), &memory);
    memory.map_x86(0x1000, 12, 0);
    machine.access(0, Access::read(0x1000, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.events.unresolved), (1, 0));
    machine.flush(0, &models::Flush::invlpg(0x1000, 0));
    machine.access(0, Access::read(0x1000, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.events.unresolved), (2, 1));
    // Without translation and without a known address nothing is cached.
    assert_eq!(machine.figures(0).data.all(), 2);
}

/// An access that goes on in the next page needs its translation, too, and its address.
#[test]
fn two_pages() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x8000 | X86_PAGE);
    memory.map_x86(0x2000, 12, 0xb000 | X86_PAGE);
    let mut machine = one(SMALL, x86(0));
    machine.access(0, Access::write(0x1ffc, 8).at(0x8ffc), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.data.all()), (2, 2));
    let held = machine.caches().held(0).into_iter();
    let modified = held.filter(|line| line.modified);
    let mut modified: Vec<u64> = modified.map(|line| line.number * 64).collect();
    modified.sort();
    assert_eq!(modified, [0x8fc0, 0xb000]);
}

/// A page of 1 GiB in a second level without entries of it: a piece there, all of it in the first.
#[test]
fn a_page_that_the_second_level_has_in_pieces() {
    let preset = Preset {
        tlb2: const { &[TlbArray::new(16, 4, &[12, 21])] },
        ..SMALL
    };
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x4000_0000, 30, 0x8000_0000 | X86_PAGE | X86_LARGE);
    pages(&mut memory, 4);
    let mut machine = one(preset, x86(0));
    machine.access(0, Access::read(0x4000_0000, 1), &memory);
    machine.access(0, Access::read(0x7fff_f000, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.dtlb.l1), (1, 1));
    // Out of the first level, then back in from the piece: as a whole again.
    (1..=4).for_each(|page| machine.access(0, Access::read(page << 12, 1), &memory));
    machine.reset();
    machine.access(0, Access::read(0x4000_0008, 1), &memory);
    machine.access(0, Access::read(0x7fff_f000, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.l2, figures.dtlb.l1), (1, 1));
}

/// The top byte is no part of an address that is translated.
#[test]
fn top_byte() {
    let mut memory = Memory::new(0x20000);
    memory.map_arm(0x1000, 12, 0x8000 | ARM_PAGE);
    let mut machine = one(SMALL, arm(1));
    machine.access(0, Access::read(0xab00_0000_0000_1000, 1), &memory);
    machine.access(0, Access::read(0x1000, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.dtlb.l1), (1, 1));
}

/// With five levels of tables, addresses of x86_64 have their sign in bit 56.
#[test]
fn five_levels() {
    const LA57: u64 = 1 << 12;
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x8000 | X86_PAGE);
    // Another root, whose entry for the address has the tables for its lower bits.
    let (root, high) = (0x1_f000, 0xff11_0000_0000_1000_u64);
    memory.write(root + (high >> 48 & 0x1ff) * 8, ROOT | X86_TABLE);
    let roots = Roots::X86_64 {
        cr3: root,
        cr4: CR4 | LA57,
        efer: EFER,
    };
    let mut machine = one(SMALL, roots);
    machine.access(0, Access::read(high, 1), &memory);
    machine.access(0, Access::read(high, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.dtlb.l1), (1, 1));
    assert_eq!(figures.events.unresolved, 0);
}

#[test]
fn off() {
    let memory = Memory::new(0x3000);
    let mut machine = one(SMALL, Roots::Off);
    machine.access(0, Access::read(0x1000, 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.all(), figures.data.memory), (0, 1));
}
