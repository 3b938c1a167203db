//! hugetlb: pools of huge pages, which are folios of one size that are set aside for those who ask
//! for them by name: MAP_HUGETLB, hugetlbfs, memfd_create(2) (hugetlbpage.rst).
//!
//! ```text
//!  buddy --- grow, surplus ---> pool: Kind::Hugetlb --- take ---> in use: Kind::Anon or Kind::Object, marked
//!    ^                           |        ^                                          |
//!    +------ shrink, surplus ----+        +------------- the last reference ---------+
//! ```
//! A huge page in use is a folio as any other: a private one has its account, an object's a plain
//! count. It is mapped by one leaf above the PTE level and never split.
//!
//! [`pool`] is the account of one pool, as a value. `manager::hugetlb` moves frames between the
//! pools and the allocator. [`crate::object`] knows which of its pages are reserved.

pub(crate) mod pool;

pub use pool::Figures;

use crate::addr::Order;
use crate::arch::Level;
use crate::sync::{Lock, rank};
use pool::Account;

/// The sizes: what a PMD entry maps, on every machine.
pub const SIZES: [Order; 1] = [Level::Pmd.order()];
/// The size of those who name none.
pub const DEFAULT: Order = SIZES[0];

/// References that a leaf has to a huge page of whatever size: as many as a PMD leaf has to any
/// folio.
pub(crate) const LEAF_REFERENCES: u64 = Level::Pmd.order().pages();

/// The level whose leaf maps a huge page of this order.
#[inline]
pub(crate) fn level_of(order: Order) -> Level {
    match order == DEFAULT {
        true => Level::Pmd,
        false => Level::Pud,
    }
}

/// The pools, by size.
pub(crate) struct Pools([Pool; SIZES.len()]);

/// One pool under its lock.
pub(crate) type Pool = Lock<Account, { rank::HUGETLB }>;

impl Pools {
    /// Empty pools.
    pub fn new() -> Self {
        Pools([(); SIZES.len()].map(|()| Lock::new(Account::default())))
    }
    /// The pool of a size.
    pub fn of(&self, order: Order) -> &Pool {
        let place = SIZES.iter().position(|size| *size == order);
        &self.0[place.expect("a size of huge pages")]
    }
}
