//! Multi-size THP: the folio sizes that anonymous memory may have ([`controls`]) and that a process
//! permits itself ([`permit`]), the size that a fault takes ([`policy`]; of shared memory
//! [`shmem`]), statistics ([`stats`]).
//! [`words`] and [`sizes`] parse and print the files of sysfs, [`boot`] parses the command line.
//! Names and meanings are those of Linux's transhuge.rst and of seed 002.

pub mod boot;
pub mod controls;
pub mod khugepaged;
pub mod permit;
pub mod policy;
pub mod shmem;
pub mod sizes;
pub mod stats;
pub mod words;

pub use controls::Controls;
pub use khugepaged::{CollapseLimits, Khugepaged};
pub use permit::{Disable, Permit};
pub use policy::{Facts, Orders};
pub(crate) use stats::Huge;
pub use stats::{Stat, ThpStats};

/// The orders that anonymous folios larger than a page may have: 16 kB to 2 MiB.
pub const ORDERS: core::ops::RangeInclusive<u8> = 2..=9;
/// The length of a table by order.
pub(crate) const SIZES: usize = *ORDERS.end() as usize + 1;
/// The order that a PMD entry maps.
pub const PMD_ORDER: crate::addr::Order = crate::addr::Order(9);

/// The state behind `/sys/kernel/mm/transparent_hugepage`.
pub struct Thp {
    /// The settings.
    pub controls: Controls,
    /// Statistics by size.
    pub stats: ThpStats,
    /// khugepaged's settings and counts.
    pub khugepaged: Khugepaged,
}

impl Thp {
    /// Linux's defaults, for so many CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        Thp {
            controls: Controls::default(),
            stats: ThpStats::new(cpus),
            khugepaged: Khugepaged::default(),
        }
    }
    /// Folios of PMD size that objects have, and PMD leaves that map one (ShmemHugePages and
    /// ShmemPmdMapped, in 2 MiB each).
    pub fn shmem(&self) -> (u64, u64) {
        let get = |count| self.stats.huge(count);
        (get(Huge::Shmem), get(Huge::ShmemMapped))
    }
    /// How many PMD leaves map a folio (AnonHugePages counts 2 MiB for each).
    pub fn pmd_mappings(&self) -> u64 {
        self.stats.huge(Huge::AnonMapped)
    }
}
