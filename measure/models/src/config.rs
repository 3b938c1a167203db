//! The shape of a core: what a [`Preset`] says of it.

use std::fmt;

/// A set-associative cache with lines of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Its size in bytes.
    pub bytes: u64,
    /// Lines that compete for a place.
    pub ways: u32,
}

impl CacheShape {
    /// So many bytes in sets of so many ways.
    pub const fn new(bytes: u64, ways: u32) -> CacheShape {
        CacheShape { bytes, ways }
    }
}

/// How the last level is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// With each line that is read from memory.
    Misses,
    /// With the lines that a private cache evicts; a line that is read leaves it, unless another
    /// CPU has it, too (AMD).
    Victims,
}

/// One array of TLB entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbArray {
    /// Entries in all.
    pub entries: u32,
    /// Entries that compete for a place; `entries` of them: fully associative.
    pub ways: u32,
    /// The sizes of its entries as powers of two: 12 for 4 KiB, 16 for 64 KiB, 21 for 2 MiB.
    pub sizes: &'static [u8],
}

impl TlbArray {
    /// So many entries in sets of so many ways, of these sizes.
    pub const fn new(entries: u32, ways: u32, sizes: &'static [u8]) -> TlbArray {
        TlbArray {
            entries,
            ways,
            sizes,
        }
    }
}

/// One level of a TLB: arrays that are looked up together. A page that is larger than the entries
/// of the level is cached in pieces of the largest size that it has.
pub type TlbShape = &'static [TlbArray];

/// Entries of walk caches (x86: paging-structure caches), each fully associative, by what one of
/// their entries spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkCacheShape {
    /// For entries that span 512 GiB (PML4E; level 0).
    pub gib512: u32,
    /// For entries that span 1 GiB (PDPTE; level 1).
    pub gib1: u32,
    /// For entries that span 2 MiB (PDE; level 2), if they have a place of their own: else they are
    /// among the entries of 2 MiB in the second-level TLB of data.
    pub mib2: Option<u32>,
}

impl WalkCacheShape {
    /// So many entries of each level.
    pub const fn new(gib512: u32, gib1: u32, mib2: Option<u32>) -> WalkCacheShape {
        WalkCacheShape { gib512, gib1, mib2 }
    }
}

/// Latencies from an access to the use of what it reads, in cycles of the core, of accesses that do
/// not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// A hit in the first level.
    pub l1: u32,
    /// A hit in the private second level.
    pub l2: u32,
    /// A hit in the last level.
    pub last: u32,
    /// A line that another CPU has modified.
    pub remote: u32,
    /// Memory.
    pub memory: u32,
    /// What a hit in the second-level TLB costs over one in the first.
    pub tlb2: u32,
}

/// A core and what it shares with others of its kind. [`crate::presets`] has real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name on a command line: `cortex-a76`.
    pub name: &'static str,
    /// Instruction cache.
    pub l1i: CacheShape,
    /// Data cache.
    pub l1d: CacheShape,
    /// Private second level, if there is one; it holds all that `l1d` holds.
    pub l2: Option<CacheShape>,
    /// Last level, shared by all CPUs.
    pub last: CacheShape,
    /// How the last level is filled.
    pub fill: Fill,
    /// First-level data TLB; that of loads, if stores have one of their own.
    pub dtlb: TlbShape,
    /// First-level TLB of stores, where they have one of their own.
    pub stlb: Option<TlbShape>,
    /// First-level instruction TLB.
    pub itlb: TlbShape,
    /// Second-level TLB for data; for instructions, too, unless `itlb2` says otherwise.
    pub tlb2: TlbShape,
    /// Second-level TLB of instructions, where they have one of their own.
    pub itlb2: Option<TlbShape>,
    /// Walk caches.
    pub walk: WalkCacheShape,
    /// Whether a walk merges four aligned single pages that are contiguous in memory and equal in
    /// everything else to an entry of 16 KiB (AMD).
    pub coalesces: bool,
    /// Published latencies.
    pub latencies: Latencies,
    /// Cycles per 1000 instructions when nothing misses: 1000 / width of dispatch.
    pub base_mcpi: u32,
}

/// A preset that describes no possible core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPreset(pub(crate) String);

impl fmt::Display for BadPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no such core can be modelled: {}", self.0)
    }
}

impl std::error::Error for BadPreset {}

/// The sets of an array of `places` with `ways`.
pub(crate) fn sets(what: &str, places: u64, ways: u32) -> Result<usize, BadPreset> {
    let ways = u64::from(ways);
    if ways == 0 || places == 0 || !places.is_multiple_of(ways) || places > 1 << 32 {
        let text = format!("{what}: {places} places in sets of {ways}");
        return Err(BadPreset(text));
    }
    Ok((places / ways) as usize)
}
