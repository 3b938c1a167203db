//! khugepaged's settings and counts: `/sys/kernel/mm/transparent_hugepage/khugepaged`,
//! transhuge.rst.

use super::PMD_ORDER;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use core::ops::RangeInclusive;

/// How much of a range may be missing or shared for it to become one folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollapseLimits {
    /// Pages that are not there, or are the page of zeros.
    pub max_ptes_none: u32,
    /// Pages that others map, too.
    pub max_ptes_shared: u32,
}

impl CollapseLimits {
    /// The limits of MADV_COLLAPSE: none.
    pub const ANY: CollapseLimits = CollapseLimits {
        max_ptes_none: PMD_ORDER.pages() as u32,
        max_ptes_shared: PMD_ORDER.pages() as u32,
    };
}

macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $initial:expr, $range:expr;)*) => {
        /// A setting of khugepaged that is a number.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Knob { $($(#[$doc])* $name,)* }
        impl Knob {
            /// Every knob with the name of its file.
            pub const ALL: &'static [(Knob, &'static str)] = &[$((Knob::$name, $text)),*];
            const VALUES: &'static [(u32, RangeInclusive<u32>)] = &[$(($initial, $range)),*];
        }
    };
}

const PTES: u32 = PMD_ORDER.pages() as u32;

knobs! {
    /// 1: it has memory compacted for a folio.
    Defrag = "defrag", 1, 0..=1;
    /// Pages scanned in one round.
    PagesToScan = "pages_to_scan", 8 * PTES, 1..=u32::MAX;
    /// The pause between two rounds.
    ScanSleep = "scan_sleep_millisecs", 10_000, 0..=u32::MAX;
    /// The pause after a folio could not be allocated.
    AllocSleep = "alloc_sleep_millisecs", 60_000, 0..=u32::MAX;
    /// Pages of a range that may be missing.
    MaxPtesNone = "max_ptes_none", PTES - 1, 0..=PTES - 1;
    /// Pages of a range that may be in swap: there is none.
    MaxPtesSwap = "max_ptes_swap", PTES / 8, 0..=PTES - 1;
    /// Pages of a range that may be shared.
    MaxPtesShared = "max_ptes_shared", PTES / 2, 0..=PTES - 1;
}

/// khugepaged's settings and counts.
pub struct Khugepaged {
    knobs: [AtomicU32; Knob::ALL.len()],
    full_scans: AtomicU64,
    pages_collapsed: AtomicU64,
}

impl Default for Khugepaged {
    fn default() -> Self {
        Khugepaged {
            knobs: core::array::from_fn(|i| AtomicU32::new(Knob::VALUES[i].0)),
            full_scans: AtomicU64::new(0),
            pages_collapsed: AtomicU64::new(0),
        }
    }
}

impl Khugepaged {
    /// The value of a knob.
    pub fn get(&self, knob: Knob) -> u32 {
        self.knobs[knob as usize].load(Ordering::Relaxed)
    }
    /// Sets a knob; `false`, and nothing changes, when the value is out of range.
    pub fn set(&self, knob: Knob, value: u32) -> bool {
        let allowed = Knob::VALUES[knob as usize].1.contains(&value);
        if allowed {
            self.knobs[knob as usize].store(value, Ordering::Relaxed);
        }
        allowed
    }
    /// The limits for a range to be collapsed.
    pub fn limits(&self) -> CollapseLimits {
        CollapseLimits {
            max_ptes_none: self.get(Knob::MaxPtesNone),
            max_ptes_shared: self.get(Knob::MaxPtesShared),
        }
    }
    /// Counts a scan of every area of every process.
    pub fn count_full_scan(&self) {
        self.full_scans.fetch_add(1, Ordering::Relaxed);
    }
    /// Counts a range that became one folio.
    pub fn count_collapsed(&self) {
        self.pages_collapsed.fetch_add(1, Ordering::Relaxed);
    }
    /// `full_scans` and `pages_collapsed`.
    pub fn counts(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.full_scans), count(&self.pages_collapsed))
    }
}
