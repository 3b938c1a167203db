//! Cycles, estimated from counts and published latencies.
//!
//! ```text
//! base         instructions x base_mcpi / 1000
//! data, fetch  per level below the first: served there x (its latency - l1)
//! translation  served by the second-level TLB x tlb2
//!              + walks x tlb2 (it was looked up first)
//!              + per level: reads of walks served there x its latency
//! ```
//!
//! It is an estimate of a program whose misses never overlap, without prefetching, branch
//! misprediction, or queues that fill: too high where a core overlaps misses or prefetches a
//! stream, too low where dependencies keep it from its width. A store that misses counts as a load
//! does, although a store buffer hides it until it is full. Compare estimates of the same work with
//! each other; do not compare one with a measured time.

use crate::config::{Latencies, Preset};
use crate::figures::{Figures, Served};

/// An estimate, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    /// Instructions at the width of the core.
    pub base: u64,
    /// Loads and stores that miss.
    pub data: u64,
    /// Fetches that miss.
    pub fetch: u64,
    /// Translations that the first-level TLBs do not have.
    pub translation: u64,
}

impl Cycles {
    /// Their sum.
    pub fn total(&self) -> u64 {
        self.base + self.data + self.fetch + self.translation
    }
}

/// Estimates what a CPU takes for `instructions` with these counts.
pub fn cycles(preset: &Preset, instructions: u64, figures: &Figures) -> Cycles {
    let latencies = &preset.latencies;
    let tlb2 = u64::from(latencies.tlb2);
    let looked_up = figures.dtlb.l1_misses() + figures.itlb.l1_misses();
    let walk = &figures.walk;
    let all_reads = walk.all() * u64::from(latencies.l1);
    Cycles {
        base: instructions * u64::from(preset.base_mcpi) / 1000,
        data: beyond_first(latencies, &figures.data),
        fetch: beyond_first(latencies, &figures.fetch),
        translation: looked_up * tlb2 + all_reads + beyond_first(latencies, walk),
    }
}

/// What accesses take longer than hits in the first level.
fn beyond_first(latencies: &Latencies, served: &Served) -> u64 {
    let levels = [
        (served.l2, latencies.l2),
        (served.last, latencies.last),
        (served.remote, latencies.remote),
        (served.memory, latencies.memory),
    ];
    let longer =
        |(count, latency): (u64, u32)| count * u64::from(latency.saturating_sub(latencies.l1));
    levels.into_iter().map(longer).sum()
}
