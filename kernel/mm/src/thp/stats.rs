//! Statistics by size, `hugepages-<size>kB/stats`: per CPU, summed when they are read.

use crate::addr::Order;
use crate::sync::{AtomicU64, Ordering, add_own};
use alloc::boxed::Box;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A statistic of each size; its file has the name in quotes.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Stat { $($(#[$doc])* $name,)* }
        impl Stat {
            /// Every statistic with the name of its file.
            pub const ALL: &'static [(Stat, &'static str)] = &[$((Stat::$name, $text)),*];
        }
    };
}

stats! {
    /// Folios allocated by faults.
    AnonFaultAlloc = "anon_fault_alloc",
    /// Faults that found none free and took the next lower size.
    AnonFaultFallback = "anon_fault_fallback",
    /// Folios split into smaller ones.
    Split = "split",
    /// Folios that could not be split.
    SplitFailed = "split_failed",
    /// Folios that were put on the queue of deferred splits.
    SplitDeferred = "split_deferred",
    /// Folios that were stored.
    SwpOut = "swpout",
    /// Folios that were split since there were no slots for them side by side.
    SwpOutFallback = "swpout_fallback",
    /// Folios that came back whole.
    SwpIn = "swpin",
    /// Folios in use.
    NrAnon = "nr_anon",
    /// Folios of which a part is not mapped any more.
    NrAnonPartiallyMapped = "nr_anon_partially_mapped",
    /// Folios allocated to collapse smaller ones into.
    CollapseAlloc = "collapse_alloc",
    /// Failed allocations of a folio to collapse into.
    CollapseAllocFailed = "collapse_alloc_failed",
    /// Ranges not collapsed: too much of them is not mapped.
    CollapseExceedNonePte = "collapse_exceed_none_pte",
    /// Ranges not collapsed: too much of them is shared.
    CollapseExceedSharedPte = "collapse_exceed_shared_pte",
    /// Folios allocated for shared memory.
    ShmemAlloc = "shmem_alloc",
    /// Faults in shared memory that took the next lower size.
    ShmemFallback = "shmem_fallback",
    /// Of them, those where the object's limit was reached.
    ShmemFallbackCharge = "shmem_fallback_charge",
}

/// Counts of what has PMD size.
#[derive(Clone, Copy)]
pub(crate) enum Huge {
    /// PMD leaves that map a private folio.
    AnonMapped,
    /// Folios of objects.
    Shmem,
    /// PMD leaves that map one of those.
    ShmemMapped,
}

/// Counters of a size: a power of two, so that a place is found by shifts.
const ROW: usize = 32;
const _: () = assert!(Stat::ALL.len() <= ROW);

/// One CPU's counters, on cache lines of their own. Only the CPU itself writes them, and nothing
/// interrupts it: no read-modify-write is needed. What one CPU adds another may take off, so only
/// the sum over all means anything.
#[repr(align(64))]
struct PerCpu {
    by_size: [[AtomicU64; ROW]; super::SIZES],
    huge: [AtomicU64; 3],
}

impl PerCpu {
    fn new() -> Self {
        let zeros = || core::array::from_fn(|_| AtomicU64::new(0));
        PerCpu {
            by_size: core::array::from_fn(|_| zeros()),
            huge: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// The sum of a word over all CPUs. While others count, it may be short of what is taken off on one
/// CPU and not yet added on another: then it is 0, not below.
fn sum<'a>(words: impl Iterator<Item = &'a AtomicU64>) -> u64 {
    let sum = words
        .map(|word| word.load(Ordering::Relaxed))
        .fold(0, u64::wrapping_add);
    sum.cast_signed().max(0).cast_unsigned()
}

/// A counter for each size and statistic.
pub struct ThpStats(Box<[PerCpu]>);

impl ThpStats {
    /// All zero.
    pub(crate) fn new(cpus: usize) -> Self {
        ThpStats((0..cpus.max(1)).map(|_| PerCpu::new()).collect())
    }
    /// Adds `n` on the CPU that runs; wraps around, for subtraction.
    #[inline]
    pub(crate) fn add(&self, cpu: usize, order: Order, stat: Stat, n: u64) {
        if let Some(cpu) = self.0.get(cpu) {
            add_own(&cpu.by_size[order.0 as usize][stat as usize], n);
        }
    }
    /// Adds to a count of what has PMD size.
    #[inline]
    pub(crate) fn add_huge(&self, cpu: usize, count: Huge, n: u64) {
        if let Some(cpu) = self.0.get(cpu) {
            add_own(&cpu.huge[count as usize], n);
        }
    }
    /// The count.
    pub fn get(&self, order: Order, stat: Stat) -> u64 {
        sum(self
            .0
            .iter()
            .map(|cpu| &cpu.by_size[order.0 as usize][stat as usize]))
    }
    /// A count of what has PMD size.
    pub(crate) fn huge(&self, count: Huge) -> u64 {
        sum(self.0.iter().map(|cpu| &cpu.huge[count as usize]))
    }
}
