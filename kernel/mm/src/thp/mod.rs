//! Multi-size THP: which sizes of folio anonymous memory may have ([`controls`]) and a process
//! permits itself ([`permit`]), which one a fault takes ([`policy`]), and what became of it
//! ([`stats`]). [`words`] and [`sizes`] read and print what programs see of it, [`boot`] what the
//! command line says. Names and meanings are those of Linux's transhuge.rst and of seed 002.

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
/// The order that a PMD entry maps.
pub const PMD_ORDER: crate::addr::Order = crate::addr::Order(9);

/// What `/sys/kernel/mm/transparent_hugepage` shows and sets.
#[derive(Default)]
pub struct Thp {
    /// What is allowed.
    pub controls: Controls,
    /// What happened, by size.
    pub stats: ThpStats,
    /// What khugepaged goes by, and what it did.
    pub khugepaged: Khugepaged,
    /// Folios that a PMD leaf maps, once for each leaf.
    pmd_mapped: AtomicU64,
}

impl Thp {
    /// How many PMD leaves map a folio (AnonHugePages counts 2 MiB for each).
    pub fn pmd_mappings(&self) -> u64 {
        self.pmd_mapped.load(Ordering::Relaxed)
    }
    /// One more leaf.
    pub(crate) fn pmd_mapped(&self) {
        self.pmd_mapped.fetch_add(1, Ordering::Relaxed);
    }
    /// One leaf less.
    pub(crate) fn pmd_unmapped(&self) {
        self.pmd_mapped.fetch_sub(1, Ordering::Relaxed);
    }
}
