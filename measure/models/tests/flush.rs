//! What flushes drop, and what they must leave: each case has a neighbour that a wider flush would
//! drop, and an entry that a narrower one would leave.

mod common;

use common::{
    ARM_BLOCK, ARM_CONTIGUOUS, ARM_NOT_GLOBAL, ARM_PAGE, Memory, SMALL, X86_GLOBAL, X86_LARGE,
    X86_PAGE, arm, one, x86,
};
use models::config::{TlbArray, WalkCacheShape};
use models::{Access, Figures, Flush, Machine, Preset, Tables, presets};

/// What a read of an address would count now.
fn read(machine: &Machine, memory: &Memory, address: u64) -> Figures {
    let mut copy = machine.clone();
    copy.reset();
    copy.access(0, Access::read(address, 1), memory);
    copy.figures(0)
}

/// Whether a read of each address under a tag needs a walk; the order of the reads matters only for
/// what they evict, and nothing here fills a set.
fn walks(machine: &Machine, memory: &Memory, spaces: &[(u64, &[u64])]) -> Vec<bool> {
    let mut walks = Vec::new();
    for &(pcid, addresses) in spaces {
        for &address in addresses {
            let mut copy = machine.clone();
            copy.set_roots(0, x86(pcid));
            walks.push(read(&copy, memory, address).dtlb.walks == 1);
        }
    }
    walks
}

const GLOBAL: u64 = 0x10_0000;
const GLOBAL_TOO: u64 = 0x10_1000;

/// Two spaces of the same tables, each with two pages; two global pages.
fn two_spaces() -> (Machine, Memory) {
    let mut memory = Memory::new(0x20000);
    for page in [0x1000, 0x2000] {
        memory.map_x86(page, 12, page | 0x40000 | X86_PAGE);
    }
    for page in [GLOBAL, GLOBAL_TOO] {
        memory.map_x86(page, 12, page | 0x400_0000 | X86_PAGE | X86_GLOBAL);
    }
    let mut machine = one(presets::ZEN4, x86(1));
    for (pcid, pages) in [
        (1, [0x1000, 0x2000]),
        (2, [0x1000, 0x2000]),
        (2, [GLOBAL, GLOBAL_TOO]),
    ] {
        machine.set_roots(0, x86(pcid));
        for page in pages {
            machine.access(0, Access::read(page, 1), &memory);
        }
    }
    (machine, memory)
}

/// Which of space 1's pages, space 2's pages, the global pages need a walk after a flush.
fn after(flush: Flush) -> [bool; 6] {
    let (mut machine, memory) = two_spaces();
    machine.set_roots(0, x86(1));
    machine.flush(0, &flush);
    let own: &[u64] = &[0x1000, 0x2000];
    let spaces = [(1, own), (2, own), (1, &[GLOBAL, GLOBAL_TOO])];
    walks(&machine, &memory, &spaces)
        .try_into()
        .expect("six pages")
}

const YES: bool = true;
const NO: bool = false;

#[test]
fn what_is_dropped_of_two_spaces() {
    let pages = |address, bytes, tag, globals| Flush::Pages {
        address,
        bytes,
        tag,
        globals,
        tables: Tables::Keep,
    };
    let page = |address, tag, globals| pages(address, 4096, tag, globals);
    let two_pages = pages(0x1fff, 2, Some(1), true);
    for (flush, expected) in [
        (page(0x5000, None, true), [NO, NO, NO, NO, NO, NO]),
        (Flush::All, [YES, YES, YES, YES, YES, YES]),
        (Flush::Tag(1), [YES, YES, NO, NO, NO, NO]),
        (Flush::Tag(2), [NO, NO, YES, YES, NO, NO]),
        (Flush::invlpg(0x1fff, 1), [YES, NO, NO, NO, NO, NO]),
        (Flush::invlpg(GLOBAL, 1), [NO, NO, NO, NO, YES, NO]),
        (page(0x2000, Some(2), true), [NO, NO, NO, YES, NO, NO]),
        (page(0x2000, None, true), [NO, YES, NO, YES, NO, NO]),
        (page(GLOBAL, Some(1), false), [NO, NO, NO, NO, NO, NO]),
        (two_pages, [YES, YES, NO, NO, NO, NO]),
    ] {
        assert_eq!(after(flush), expected, "{flush:?}");
    }
}

#[test]
fn figures_of_flushes() {
    let (mut machine, _) = two_spaces();
    machine.reset();
    machine.flush(0, &Flush::Tag(1));
    // Both pages, in both levels, and the entry that points to their table.
    let events = machine.figures(0).events;
    assert_eq!((events.flushes, events.flushed), (1, 5));
    machine.flush(0, &Flush::Tag(1));
    let events = machine.figures(0).events;
    assert_eq!((events.flushes, events.flushed), (2, 5));
}

#[test]
fn broadcast_reaches_each_cpu() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x4_1000 | X86_PAGE);
    let mut machine = Machine::new(SMALL, 3).expect("a preset that can be");
    for cpu in 0..3 {
        machine.set_roots(cpu, x86(0));
        machine.access(cpu, Access::read(0x1000, 1), &memory);
    }
    let walked = |machine: &mut Machine| {
        machine.reset();
        (0..3).for_each(|cpu| machine.access(cpu, Access::read(0x1000, 1), &memory));
        [0, 1, 2].map(|cpu| machine.figures(cpu).dtlb.walks)
    };
    machine.flush(1, &Flush::All);
    assert_eq!(walked(&mut machine), [0, 1, 0]);
    machine.flush_everywhere(&Flush::All);
    assert_eq!(walked(&mut machine), [1, 1, 1]);
}

/// A flush of any address of a run or of a block drops all of it, also where it is cached in
/// pieces.
#[test]
fn runs_blocks_and_pieces() {
    let mut memory = Memory::new(0x40000);
    for page in 0..16 {
        let bits = ARM_PAGE | ARM_CONTIGUOUS;
        let offset = page * 0x1000;
        memory.map_arm(0x1_0000 + offset, 12, (0x9_0000 + offset) | bits);
    }
    memory.map_arm(0x2_0000, 12, 0x3_0000 | ARM_PAGE);
    memory.map_arm(0x20_0000, 21, 0x4020_0000 | ARM_BLOCK);
    let pages = [0x1_0000, 0x1_f000, 0x2_0000, 0x20_0000, 0x3f_f000];
    let flushed = |address| {
        // The first level of the A72 has pieces of 1 MiB of the block.
        let mut machine = one(presets::CORTEX_A72, arm(3));
        for page in pages {
            machine.access(0, Access::read(page, 1), &memory);
        }
        let flush = Flush::Pages {
            address,
            bytes: 4096,
            tag: Some(3),
            globals: true,
            tables: Tables::Keep,
        };
        machine.flush(0, &flush);
        pages.map(|page| read(&machine, &memory, page).dtlb.walks == 1)
    };
    assert_eq!(flushed(0x1_5000), [YES, YES, NO, NO, NO]);
    assert_eq!(flushed(0x30_0000), [NO, NO, NO, YES, YES]);
    assert_eq!(flushed(0x2_0000), [NO, NO, YES, NO, NO]);
}

/// A piece is dropped with its block even when the second level has forgotten the block.
#[test]
fn pieces_of_a_block_in_the_first_level() {
    let tiny = Preset {
        dtlb: const { &[TlbArray::new(8, 8, &[12, 20])] },
        tlb2: const { &[TlbArray::new(1, 1, &[12, 21])] },
        ..SMALL
    };
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x20_0000, 21, 0x20_0000 | X86_PAGE | X86_LARGE);
    memory.map_x86(0x1000, 12, 0x1000 | X86_PAGE);
    let mut machine = one(tiny, x86(0));
    for page in [0x20_0000, 0x30_0000, 0x1000] {
        machine.access(0, Access::read(page, 1), &memory);
    }
    assert_eq!(machine.mmu(0).held().0.len(), 3);
    machine.flush(0, &Flush::invlpg(0x3f_ffff, 0));
    assert_eq!(machine.mmu(0).held().0.len(), 1);
}

/// Which flushes drop what walk caches know: seen by how many entries the next walk reads.
#[test]
fn walk_caches() {
    let with_caches = |mib2| Preset {
        walk: WalkCacheShape::new(4, 4, mib2),
        ..SMALL
    };
    let mut memory = Memory::new(0x20000);
    for page in [0x1000, 0x2000, 0x20_1000, 0x20_2000] {
        memory.map_x86(page, 12, page | X86_PAGE);
    }
    let pages = |address, tables| Flush::Pages {
        address,
        bytes: 1,
        tag: Some(1),
        globals: true,
        tables,
    };
    // One cache of its own for entries of 2 MiB, or those of the second-level TLB.
    for preset in [with_caches(Some(4)), with_caches(None)] {
        let reads = |flush: Option<Flush>| {
            let mut machine = one(preset, x86(1));
            machine.access(0, Access::read(0x1000, 1), &memory);
            machine.access(0, Access::read(0x20_1000, 1), &memory);
            assert_eq!(machine.figures(0).walk.all(), 4 + 2);
            flush.iter().for_each(|flush| machine.flush(0, flush));
            [0x2000, 0x20_2000].map(|page| {
                let figures = read(&machine, &memory, page);
                assert_eq!(figures.walk.all() + figures.events.skipped, 4);
                figures.walk.all()
            })
        };
        assert_eq!(reads(None), [1, 1]);
        assert_eq!(reads(Some(Flush::All)), [4, 4]);
        assert_eq!(reads(Some(Flush::Tag(1))), [4, 4]);
        assert_eq!(reads(Some(Flush::Tag(2))), [1, 1]);
        assert_eq!(reads(Some(Flush::invlpg(0x1000, 1))), [4, 4]);
        assert_eq!(reads(Some(Flush::invlpg(0x7000_0000, 1))), [4, 4]);
        assert_eq!(reads(Some(Flush::invlpg(0x1000, 2))), [1, 1]);
        assert_eq!(reads(Some(pages(0x1000, Tables::Keep))), [1, 1]);
        // The entry of 2 MiB, and those above it, but not its neighbour.
        assert_eq!(reads(Some(pages(0x1000, Tables::OfPages))), [4, 1]);
        assert_eq!(reads(Some(pages(0x8000_0000, Tables::OfPages))), [1, 1]);
    }
}

/// A global page of aarch64 (nG clear) stays through a flush of its ASID.
#[test]
fn globals_of_aarch64() {
    let mut memory = Memory::new(0x20000);
    memory.map_arm(0x1000, 12, 0x1000 | ARM_PAGE & !ARM_NOT_GLOBAL);
    memory.map_arm(0x2000, 12, 0x2000 | ARM_PAGE);
    let mut machine = one(presets::CORTEX_A76, arm(3));
    let read = |machine: &mut Machine| {
        machine.reset();
        machine.access(0, Access::read(0x1000, 1), &memory);
        machine.access(0, Access::read(0x2000, 1), &memory);
        machine.figures(0).dtlb.walks
    };
    assert_eq!(read(&mut machine), 2);
    machine.flush(0, &Flush::Tag(3));
    assert_eq!(read(&mut machine), 1);
    machine.set_roots(0, arm(4));
    assert_eq!(read(&mut machine), 1, "another tag");
    machine.set_roots(0, arm(3));
    assert_eq!(read(&mut machine), 0);
}
