//! Cores by Intel.

use super::{KIB, MIB};
use crate::config::{CacheShape, Fill, Latencies, Preset, TlbArray, WalkCacheShape};

/// Intel Golden Cove (the performance core of Alder Lake), with 25 MiB of L3 (Core i7-12700K).
///
/// CPUID is what the processor says of itself: leaf 4 of caches, leaf 18h of TLBs, explained in the
/// SDM, volume 2A.
///
/// | figure | source |
/// |---|---|
/// | L1I 32 KiB, 8 ways; L1D 48 KiB, 12 ways; L2 1280 KiB, 10 ways; L3 25 MiB, 10 ways, 40960 sets, not inclusive | CPUID leaf 4 of a Core i7-12700K |
/// | that L3 is filled by misses, and L2 includes L1D | unverified |
/// | ITLB 256 entries, 8 ways, of 4 KiB; 32, 8 ways, of 2 MiB | CPUID leaf 18h |
/// | DTLB of loads: 32 entries, 4 ways, of 2 MiB; 8, fully associative, of 1 GiB | the same |
/// | DTLB of loads: 96 entries of 4 KiB | Intel Architecture Day 2021 (second-hand); 6 ways follow from 16 sets in CPUID, which says 4 ways, 64 entries |
/// | DTLB of stores: 16 entries, fully associative, of all sizes | CPUID leaf 18h |
/// | second level: 1024 entries, 8 ways, of 4 KiB and 2 MiB, and 1024, 8 ways, of 4 KiB and 1 GiB | CPUID leaf 18h |
/// | which of the two a 4 KiB page takes: here an address bit chooses | unverified |
/// | paging-structure caches (SDM volume 3A, 5.10.3, gives no sizes) | unverified |
/// | latencies of L1 5, of L2 15 cycles; of L3 13.7 ns (measured, 71 cycles at 5.2 GHz) | Chips and Cheese, "AMD's Zen 4, Part 2" (second-hand), and "Going Armchair Quarterback on Golden Cove's Caches" |
/// | latencies of the second-level TLB, of another CPU's line and of memory | unverified |
/// | width 6 | Optimization Reference Manual (248966), "Golden Cove Microarchitecture" (second-hand) |
pub const GOLDEN_COVE: Preset = Preset {
    name: "golden-cove",
    l1i: CacheShape::new(32 * KIB, 8),
    l1d: CacheShape::new(48 * KIB, 12),
    l2: Some(CacheShape::new(1280 * KIB, 10)),
    last: CacheShape::new(25 * MIB, 10),
    fill: Fill::Misses,
    dtlb: &[
        TlbArray::new(96, 6, &[12]),
        TlbArray::new(32, 4, &[21]),
        TlbArray::new(8, 8, &[30]),
    ],
    stlb: Some(&[TlbArray::new(16, 16, &[12, 21, 30])]),
    itlb: &[TlbArray::new(256, 8, &[12]), TlbArray::new(32, 8, &[21])],
    tlb2: &[
        TlbArray::new(1024, 8, &[12, 21]),
        TlbArray::new(1024, 8, &[12, 30]),
    ],
    itlb2: None,
    walk: WalkCacheShape::new(4, 4, Some(32)),
    coalesces: false,
    latencies: Latencies {
        l1: 5,
        l2: 15,
        last: 71,
        remote: 120,
        memory: 400,
        tlb2: 7,
    },
    base_mcpi: 167,
};
