//! Cores by AMD.

use super::{KIB, MIB};
use crate::config::{CacheShape, Fill, Latencies, Preset, TlbArray, WalkCacheShape};

/// AMD Zen 4 (family 19h, models 10h and 60h), one core complex with 32 MiB of L3.
///
/// | figure | source |
/// |---|---|
/// | L1I and L1D 32 KiB, 8 ways; L2 1 MiB; L3 32 MiB per complex | AMD EPYC 9004 Architecture Overview (58015) (second-hand) |
/// | L2 8 ways, inclusive of L1; L3 16 ways, filled by victims of L2 | Software Optimization Guide for the AMD Zen4 Microarchitecture (57647), 2.6 (second-hand) |
/// | L1 ITLB 64 entries, fully associative, of all sizes; L1 DTLB 72, fully associative, of 4 KiB, 16 KiB, 2 MiB, 1 GiB | Software Optimization Guide (57647), 2.7 (second-hand) |
/// | L2 ITLB 512 entries, 8 ways, of 4 KiB and 2 MiB; L2 DTLB 3072 entries, 24 ways, of 4 KiB, 16 KiB, 2 MiB and of page-directory entries | the same |
/// | page-directory cache of 64 entries for PML4 and PDP entries | the same |
/// | how the 64 entries are shared by both levels: here 16 and 48 | unverified |
/// | coalescing of 16 KiB that are aligned, contiguous, with identical attributes, in L1 and L2 TLBs | the same; that equal accessed and dirty bits are required is unverified |
/// | 1 GiB in the L2 DTLB as pieces of 2 MiB | WikiChip, "Zen 2"; unverified for Zen 4 |
/// | latencies of L1 4, of L2 14 cycles; of L3 8 to 9 ns, of memory 73 ns at 5.7 GHz (measured) | Chips and Cheese, "AMD's Zen 4, Part 2: Memory Subsystem and Conclusion" (second-hand) |
/// | latency of the L2 DTLB 7 cycles | the same (second-hand) |
/// | latency of another CPU's line | unverified |
/// | width 6 | Software Optimization Guide (57647) (second-hand) |
pub const ZEN4: Preset = Preset {
    name: "zen4",
    l1i: CacheShape::new(32 * KIB, 8),
    l1d: CacheShape::new(32 * KIB, 8),
    l2: Some(CacheShape::new(MIB, 8)),
    last: CacheShape::new(32 * MIB, 16),
    fill: Fill::Victims,
    dtlb: &[TlbArray::new(72, 72, &[12, 14, 21, 30])],
    stlb: None,
    itlb: &[TlbArray::new(64, 64, &[12, 14, 21, 30])],
    tlb2: &[TlbArray::new(3072, 24, &[12, 14, 21])],
    itlb2: Some(&[TlbArray::new(512, 8, &[12, 14, 21])]),
    walk: WalkCacheShape::new(16, 48, None),
    coalesces: true,
    latencies: Latencies {
        l1: 4,
        l2: 14,
        last: 50,
        remote: 100,
        memory: 418,
        tlb2: 7,
    },
    base_mcpi: 167,
};
