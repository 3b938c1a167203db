//! Multi-size THP: which sizes of folio anonymous memory may have ([`controls`]), which one a fault takes ([`policy`]), and
//! what became of it ([`stats`]). Names and meanings are those of Linux's transhuge.rst and of seed 002.

pub mod controls;
pub mod policy;
pub mod stats;

pub use controls::Controls;
pub use policy::{Facts, Orders};
pub use stats::{Stat, ThpStats};

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
}
