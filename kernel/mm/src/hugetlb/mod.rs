//! hugetlb: pools of huge pages, which are folios of one size that are set aside for those who ask
//! for them by name: MAP_HUGETLB, hugetlbfs, memfd_create(2) (hugetlbpage.rst).
//!
//! ```text
//!  buddy --- grow, surplus ---> pool: Kind::Hugetlb --- take ---> in use: Kind::Anon or Kind::Object, marked
//!    ^                           |        ^                                          |
//!    +------ shrink, surplus ----+        +------------- the last reference ---------+
//! ```
//! A huge page in use is a folio as any other: a private one has its account, an object's a plain
//! count, and each has a reference for every 4 KiB that a space maps. It is never split, and mapped
//! whole: by one PMD leaf, or by 16 leaves in a row where the format has a contiguous bit.
//!
//! [`pool`] is the account of one pool, as a value. `manager::hugetlb` moves frames between the
//! pools and the allocator. [`crate::object`] knows which of its pages are reserved.

pub(crate) mod pool;

pub use pool::Figures;

use crate::addr::Order;
use crate::arch::{Level, PteFormat};
use crate::own::By;
use crate::sync::{Lock, rank};
use alloc::boxed::Box;
use core::marker::PhantomData;
use pool::Account;

/// The size of those who name none: what a PMD entry maps, on every machine.
pub const DEFAULT: Order = Level::Pmd.order();

struct Of<F>(PhantomData<F>);

impl<F: PteFormat> Of<F> {
    /// What a contiguous block of PTEs maps, and one of PMD leaves.
    const BLOCKS: [Order; 2] = match F::CONTIG_ORDER {
        Some(block) => [block, Order(DEFAULT.0 + block.0)],
        None => [DEFAULT; 2],
    };
    const SIZES: &'static [Order] = match F::CONTIG_ORDER {
        Some(_) => &[Self::BLOCKS[0], DEFAULT, Self::BLOCKS[1]],
        None => &[DEFAULT],
    };
}

/// The sizes that tables of this format map, as in Linux: what a PMD entry maps, and on arm64 also
/// what 16 PTEs map (64 KiB) and what 16 PMD entries map (32 MiB).
pub const fn sizes<F: PteFormat>() -> &'static [Order] {
    Of::<F>::SIZES
}

/// The level of the leaves that map a huge page of this order.
#[inline]
pub(crate) fn level_of(order: Order) -> Level {
    match order < DEFAULT {
        true => Level::Pte,
        false => Level::Pmd,
    }
}

/// What the account takes these leaves for: a PMD leaf for a leaf only if it maps all of the page.
#[inline]
pub(crate) fn mapped_by(order: Order) -> By {
    match order == DEFAULT {
        true => By::Leaf,
        false => By::Ptes,
    }
}

/// The pools, by size.
pub(crate) struct Pools(Box<[Pool]>);

/// One pool under its lock.
pub(crate) type Pool = Lock<Account, { rank::HUGETLB }>;

impl Pools {
    /// Empty pools.
    pub fn new<F: PteFormat>() -> Self {
        let empty = |_: &Order| Lock::new(Account::default());
        Pools(sizes::<F>().iter().map(empty).collect())
    }
    /// The pool of a size.
    pub fn of<F: PteFormat>(&self, order: Order) -> &Pool {
        let place = sizes::<F>().iter().position(|size| *size == order);
        &self.0[place.expect("a size of huge pages")]
    }
}
