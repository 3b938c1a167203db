//! Multi-size THP: the folio sizes that anonymous memory may have ([`controls`]) and that a process
//! permits itself ([`permit`]), the size that a fault takes ([`policy`]), statistics ([`stats`]).
//! [`words`] and [`sizes`] parse and print the files of sysfs, [`boot`] parses the command line.
//! Names and meanings are those of Linux's transhuge.rst and of seed 002.

pub mod boot;
pub mod controls;
pub mod khugepaged;
pub mod permit;
pub mod policy;
pub mod sizes;
pub mod stats;
pub mod words;

pub use controls::Controls;
pub use khugepaged::{CollapseLimits, Khugepaged};
pub use permit::{Disable, Permit};
pub use policy::{Facts, Orders};
pub use stats::{Stat, ThpStats};

use crate::sync::{AtomicU64, Ordering};

/// The orders that anonymous folios larger than a page may have: 16 kB to 2 MiB.
pub const ORDERS: core::ops::RangeInclusive<u8> = 2..=9;
/// The length of a table by order.
pub(crate) const SIZES: usize = *ORDERS.end() as usize + 1;
/// The order that a PMD entry maps.
pub const PMD_ORDER: crate::addr::Order = crate::addr::Order(9);

/// The state behind `/sys/kernel/mm/transparent_hugepage`.
#[derive(Default)]
pub struct Thp {
    /// The settings.
    pub controls: Controls,
    /// Statistics by size.
    pub stats: ThpStats,
    /// khugepaged's settings and counts.
    pub khugepaged: Khugepaged,
    /// Folios that a PMD leaf maps, once for each leaf.
    pmd_mapped: AtomicU64,
}

impl Thp {
    /// How many PMD leaves map a folio (AnonHugePages counts 2 MiB for each).
    pub fn pmd_mappings(&self) -> u64 {
        self.pmd_mapped.load(Ordering::Relaxed)
    }
    /// Counts a leaf that was installed.
    pub(crate) fn pmd_mapped(&self) {
        self.pmd_mapped.fetch_add(1, Ordering::Relaxed);
    }
    /// Counts a leaf that is gone.
    pub(crate) fn pmd_unmapped(&self) {
        self.pmd_mapped.fetch_sub(1, Ordering::Relaxed);
    }
}
