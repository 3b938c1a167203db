//! Random reads over 64 MiB: misses of the TLB as arithmetic predicts them.

mod common;

use common::{
    ARM_BLOCK, ARM_CONTIGUOUS, ARM_PAGE, ARM_TABLE, Memory, Random, X86_PAGE, X86_TABLE, arm, one,
    x86,
};
use models::{Access, Figures, Preset, Roots, presets};

const BASE: u64 = 0x4000_0000;
const BYTES: u64 = 64 << 20;
const READS: u64 = 100_000;

/// 64 MiB at 1 GiB, physical addresses the same; pages or blocks with these bits.
fn mapped(size: u32, bits: u64, table_bits: u64) -> Memory {
    let mut memory = Memory::new(0x40_0000);
    for page in 0..BYTES >> size {
        let address = BASE + (page << size);
        let at = memory.entry(address, size, table_bits);
        memory.write(at, address | bits);
    }
    memory
}

/// What random reads count, after as many to warm up.
fn read(preset: Preset, roots: Roots, memory: &Memory) -> Figures {
    let mut machine = one(preset, roots);
    let mut random = Random(42);
    for read in 0..READS * 2 {
        if read == READS {
            machine.reset();
        }
        let address = BASE + random.below(BYTES / 8) * 8;
        machine.access(0, Access::read(address, 8), memory);
    }
    machine.figures(0)
}

/// With more pages than entries, a random page is found as often as entries cover the pages.
fn assert_rate(walks: u64, entries: u64, pages: u64) {
    let expected = 1.0 - entries as f64 / pages as f64;
    let rate = walks as f64 / READS as f64;
    assert!(
        (rate - expected).abs() < 0.01,
        "{rate} of the reads walk, {expected} expected"
    );
}

#[test]
fn pages_of_4_kib() {
    let memory = mapped(12, ARM_PAGE, ARM_TABLE);
    // The second level holds the 32 entries that point to tables, too.
    let figures = read(presets::CORTEX_A76, arm(1), &memory);
    assert_rate(figures.dtlb.walks, 1280 - 32, 16384);
    assert_eq!(figures.dtlb.all(), READS);
    let figures = read(presets::CORTEX_A72, arm(1), &memory);
    assert_rate(figures.dtlb.walks, 1024, 16384);
    // Walk caches have the upper levels: a walk reads one entry.
    assert_eq!(figures.walk.all(), figures.dtlb.walks);
}

#[test]
fn runs_of_64_kib() {
    let memory = mapped(12, ARM_PAGE | ARM_CONTIGUOUS, ARM_TABLE);
    // 1024 runs: all of them fit.
    for preset in [presets::CORTEX_A76, presets::CORTEX_A72] {
        let figures = read(preset, arm(1), &memory);
        let first = u64::from(preset.dtlb[0].entries);
        let few = figures.dtlb.walks < READS / 100;
        assert!(few, "{} {:?}", preset.name, figures.dtlb);
        assert_rate(figures.dtlb.l1_misses(), first, 1024);
    }
}

#[test]
fn blocks_of_2_mib() {
    let memory = mapped(21, ARM_BLOCK, ARM_TABLE);
    // 32 blocks: the first level of the A76 has them all; that of the A72 has pieces of 1 MiB.
    let figures = read(presets::CORTEX_A76, arm(1), &memory);
    assert_eq!((figures.dtlb.l1, figures.dtlb.walks), (READS, 0));
    let figures = read(presets::CORTEX_A72, arm(1), &memory);
    assert_eq!(figures.dtlb.walks, 0);
    assert_rate(figures.dtlb.l2, 32, 64);
}

#[test]
fn x86_64() {
    let memory = mapped(12, X86_PAGE, X86_TABLE);
    let figures = read(presets::GOLDEN_COVE, x86(1), &memory);
    assert_rate(figures.dtlb.walks, 2048, 16384);
    let single = Preset {
        coalesces: false,
        ..presets::ZEN4
    };
    let figures = read(single, x86(1), &memory);
    assert_rate(figures.dtlb.walks, 3072 - 32, 16384);
    // Coalesced: 4096 entries of 16 KiB.
    let figures = read(presets::ZEN4, x86(1), &memory);
    assert_rate(figures.dtlb.walks, 3072 - 32, 4096);
}
