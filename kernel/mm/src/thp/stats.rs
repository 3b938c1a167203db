//! Statistics by size: `hugepages-<size>kB/stats`.

use crate::addr::Order;
use crate::sync::{AtomicU64, Ordering};

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
}

/// A counter for each size and statistic.
pub struct ThpStats([[AtomicU64; Stat::ALL.len()]; super::SIZES]);

impl Default for ThpStats {
    fn default() -> Self {
        ThpStats(core::array::from_fn(|_| {
            core::array::from_fn(|_| AtomicU64::new(0))
        }))
    }
}

impl ThpStats {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, order: Order, stat: Stat, n: u64) {
        self.0[order.0 as usize][stat as usize].fetch_add(n, Ordering::Relaxed);
    }
    /// Takes `n` off.
    #[inline]
    pub fn sub(&self, order: Order, stat: Stat, n: u64) {
        self.0[order.0 as usize][stat as usize].fetch_sub(n, Ordering::Relaxed);
    }
    /// The count.
    pub fn get(&self, order: Order, stat: Stat) -> u64 {
        self.0[order.0 as usize][stat as usize].load(Ordering::Relaxed)
    }
}
