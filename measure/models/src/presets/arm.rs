//! Cores by Arm.

use super::{KIB, MIB};
use crate::config::{CacheShape, Fill, Latencies, Preset, TlbArray, WalkCacheShape};

/// Arm Cortex-A72, in a cluster with 1 MiB of second-level cache (as in the BCM2711).
///
/// | figure | source |
/// |---|---|
/// | L1I 48 KiB, 3 ways; L1D 32 KiB, 2 ways | Cortex-A72 TRM (Arm 100095), 6.1 (second-hand) |
/// | L2 512 KiB to 4 MiB, 16 ways, shared by up to four cores, inclusive of L1D: here the last level | TRM, 7.1 "About the L2 memory system"; that it back-invalidates L1D is not modelled |
/// | L1 TLBs: 48 (instructions) and 32 (data) entries, fully associative, of 4 KiB, 64 KiB and 1 MiB | TRM, 5.2.1, 5.2.2 (second-hand) |
/// | L2 TLB: 1024 entries, 4 ways, of 4 KiB, 64 KiB, 1 MiB, 2 MiB, 1 GiB (AArch32's and other granules' sizes left out) | TRM, 5.2.3 |
/// | that runs by the contiguous bit use the entries of 64 KiB; none of 32 MiB | unverified |
/// | walk caches | unverified |
/// | latency of L1 4 cycles | Cortex-A72 Software Optimization Guide (Arm UAN 0016), 3.8 (second-hand) |
/// | latency of L2 21 cycles (measured, with 4 MiB) | Chips and Cheese, "Qualcomm's Centriq 2400 and the Falkor Architecture" |
/// | latencies of the L2 TLB (variable, TRM 5.2.3), of another CPU's line and of memory | unverified |
/// | width 3 | Software Optimization Guide, 2.1 (second-hand) |
pub const CORTEX_A72: Preset = Preset {
    name: "cortex-a72",
    l1i: CacheShape::new(48 * KIB, 3),
    l1d: CacheShape::new(32 * KIB, 2),
    l2: None,
    last: CacheShape::new(MIB, 16),
    fill: Fill::Misses,
    dtlb: &[TlbArray::new(32, 32, &[12, 16, 20])],
    stlb: None,
    itlb: &[TlbArray::new(48, 48, &[12, 16, 20])],
    tlb2: &[TlbArray::new(1024, 4, &[12, 16, 20, 21, 30])],
    itlb2: None,
    walk: WalkCacheShape::new(4, 16, Some(64)),
    coalesces: false,
    latencies: Latencies {
        l1: 4,
        l2: 21,
        last: 21,
        remote: 40,
        memory: 200,
        tlb2: 6,
    },
    base_mcpi: 333,
};

/// Arm Cortex-A76, with 512 KiB of second level and 2 MiB of third.
///
/// | figure | source |
/// |---|---|
/// | L1I and L1D 64 KiB, 4 ways, pseudo-LRU | Cortex-A76 TRM (Arm 100798), A6.1 |
/// | L2 128 to 512 KiB, 8 ways, inclusive of L1D | WikiChip, "Cortex-A76" |
/// | L3 of the DynamIQ Shared Unit 16 ways, 2 MiB | WikiChip, "Cortex-A76"; its size is the system's choice |
/// | that L3 is filled by misses | unverified |
/// | L1 TLBs: 48 entries each, fully associative, with their sizes (16 KiB, of another granule, left out; 512 MiB serves 1 GiB) | TRM, A5.2.1, A5.2.2 |
/// | L2 TLB: 1280 entries, 5 ways, of 4 KiB to 1 GiB, with intermediate results of walks | TRM, A5.2.3, table A5-3 |
/// | that the contiguous bit at level 2 uses the entries of 32 MiB | unverified |
/// | walk caches for entries above 2 MiB | unverified |
/// | latency of the L2 TLB 3 cycles ("usually") | TRM, A5.2.3 |
/// | latencies of L2 9, of L3 26 to 31 cycles | WikiChip, "Cortex-A76" |
/// | latency of L1 4 cycles | unverified |
/// | latencies of another CPU's line and of memory | unverified |
/// | width 4 instructions | Cortex-A76 Software Optimization Guide (Arm PJDOC-466751330-7215), 2.1 (second-hand) |
pub const CORTEX_A76: Preset = Preset {
    name: "cortex-a76",
    l1i: CacheShape::new(64 * KIB, 4),
    l1d: CacheShape::new(64 * KIB, 4),
    l2: Some(CacheShape::new(512 * KIB, 8)),
    last: CacheShape::new(2 * MIB, 16),
    fill: Fill::Misses,
    dtlb: &[TlbArray::new(48, 48, &[12, 16, 21, 29])],
    stlb: None,
    itlb: &[TlbArray::new(48, 48, &[12, 16, 21, 25])],
    tlb2: &[TlbArray::new(1280, 5, &[12, 16, 21, 25, 29, 30])],
    itlb2: None,
    walk: WalkCacheShape::new(4, 16, None),
    coalesces: false,
    latencies: Latencies {
        l1: 4,
        l2: 9,
        last: 31,
        remote: 60,
        memory: 250,
        tlb2: 3,
    },
    base_mcpi: 250,
};
