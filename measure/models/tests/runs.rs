//! Entries for runs of pages: arm64's contiguous bit, and AMD's coalescing.

mod common;

use common::{ARM_BLOCK, ARM_CONTIGUOUS, ARM_PAGE, Memory, SMALL, X86_PAGE, arm, holds, one, x86};
use models::{Access, Figures, Preset, Roots, presets};

/// Reads each of `pages` once, then each once more.
fn read(preset: Preset, roots: Roots, memory: &Memory, pages: &[u64]) -> Figures {
    let mut machine = one(preset, roots);
    for _ in 0..2 {
        for page in pages {
            machine.access(0, Access::read(page + 8, 8), memory);
        }
    }
    machine.figures(0)
}

/// 32 pages with the contiguous bit: two runs.
fn two_runs() -> (Memory, Vec<u64>) {
    let mut memory = Memory::new(0x20000);
    let pages: Vec<u64> = (0..32).map(|page| 0x10_0000 + page * 4096).collect();
    for &page in &pages {
        memory.map_arm(page, 12, page | 0x400_0000 | ARM_PAGE | ARM_CONTIGUOUS);
    }
    (memory, pages)
}

#[test]
fn the_contiguous_bit() {
    let (memory, pages) = two_runs();
    for preset in [presets::CORTEX_A72, presets::CORTEX_A76] {
        let of = read(preset, arm(0), &memory, &pages);
        let counts = (of.dtlb.walks, of.dtlb.l1, of.events.contiguous);
        assert_eq!(counts, (2, 62, 2));
    }
}

/// One entry without the bit is a page of its own; what hardware knows of the run it has from any
/// other entry.
#[test]
fn a_run_with_a_hole_in_its_bits() {
    let (mut memory, pages) = two_runs();
    memory.map_arm(pages[3], 12, pages[3] | 0x400_0000 | ARM_PAGE);
    let mut machine = one(presets::CORTEX_A76, arm(0));
    machine.access(0, Access::read(pages[3], 1), &memory);
    machine.access(0, Access::read(pages[4], 1), &memory);
    let figures = machine.figures(0);
    assert_eq!((figures.dtlb.walks, figures.events.contiguous), (2, 1));
}

/// Contiguous entries of 2 MiB: one of 32 MiB where the core has those, else single ones.
#[test]
fn contiguous_blocks() {
    let mut memory = Memory::new(0x20000);
    let pages: Vec<u64> = (0..16).map(|block| 0x8000_0000 + (block << 21)).collect();
    for &page in &pages {
        memory.map_arm(page, 21, page | ARM_BLOCK | ARM_CONTIGUOUS);
    }
    let read = |preset| read(preset, arm(0), &memory, &pages);
    let large = read(presets::CORTEX_A76);
    assert_eq!((large.dtlb.walks, large.events.contiguous), (1, 1));
    // The first level has none of 32 MiB: 15 pieces come from the second.
    assert_eq!((large.dtlb.l2, large.dtlb.l1), (15, 16));
    let single = read(presets::CORTEX_A72);
    assert_eq!((single.dtlb.walks, single.events.contiguous), (16, 0));
}

const FOUR: [u64; 4] = [0x4000, 0x5000, 0x6000, 0x7000];

/// Maps four pages; `change` changes the entry of the third.
fn four(physical: u64, change: impl Fn(u64) -> u64) -> Figures {
    let mut memory = Memory::new(0x20000);
    for (index, page) in FOUR.into_iter().enumerate() {
        let entry = (physical + index as u64 * 4096) | X86_PAGE;
        memory.map_x86(page, 12, if index == 2 { change(entry) } else { entry });
    }
    read(presets::ZEN4, x86(0), &memory, &FOUR)
}

#[test]
fn coalescing_wants_four_equal_neighbours() {
    let alike = four(0x40_4000, |entry| entry);
    assert_eq!((alike.dtlb.walks, alike.events.coalesced), (1, 1));
    // Contiguous, but not aligned in memory.
    let shifted = four(0x40_5000, |entry| entry);
    assert_eq!((shifted.dtlb.walks, shifted.events.coalesced), (4, 0));
    for (name, change) in [
        ("read-only", (|entry| entry & !2) as fn(u64) -> u64),
        ("clean", |entry| entry & !0x40),
        ("elsewhere", |entry| entry + 0x1000_0000),
        ("no execution", |entry| entry | 1 << 63),
    ] {
        let other = four(0x40_4000, change);
        assert_eq!((other.dtlb.walks, other.events.coalesced), (4, 0), "{name}");
    }
    let hole = four(0x40_4000, |_| 0);
    assert_eq!((hole.events.coalesced, hole.events.unresolved), (0, 2));
}

#[test]
fn not_every_core_coalesces() {
    let mut memory = Memory::new(0x20000);
    for page in FOUR {
        memory.map_x86(page, 12, page | X86_PAGE);
    }
    let walks = |preset| read(preset, x86(0), &memory, &FOUR).dtlb.walks;
    assert_eq!(walks(presets::ZEN4), 1);
    assert_eq!(walks(presets::GOLDEN_COVE), 4);
}

/// The physical address of each page of a run is its own.
#[test]
fn addresses_within_runs() {
    let (memory, pages) = two_runs();
    let mut machine = one(SMALL, arm(0));
    for &page in &pages {
        machine.access(0, Access::read(page, 1), &memory);
        assert!(holds(&machine, page | 0x400_0000), "{page:#x}");
    }
}
