//! Folio sizes of shared memory, by `shmem_enabled` and `hugepages-<size>kB/shmem_enabled`, and the
//! choice of the order of a fault at a hole of an object: pure functions (transhuge.rst).

use super::policy::{Orders, block};
use super::words::{Choice, words};
use super::{ORDERS, Permit, SIZES};
use crate::addr::{Order, PAGE_SHIFT, VirtAddr, VirtRange};
use core::ops::Range;

words! {
    /// `shmem_enabled`: which areas of shared memory may have what a size inherits.
    ShmemEnabled {
        /// Every area.
        Always = "always",
        /// Every area, before the object's end.
        WithinSize = "within_size",
        /// Areas with MADV_HUGEPAGE.
        Advise = "advise",
        /// None.
        Never = "never",
        /// None, whatever the sizes say.
        Deny = "deny",
        /// Every area, files of mounts included; sizes that do not inherit have none.
        Force = "force",
    }
}
words! {
    /// `hugepages-<size>kB/shmem_enabled`: which areas of shared memory may have folios of this
    /// size.
    ShmemSize {
        /// Every area.
        Always = "always",
        /// Those that the top-level `shmem_enabled` allows.
        Inherit = "inherit",
        /// Every area, before the object's end.
        WithinSize = "within_size",
        /// Areas with MADV_HUGEPAGE.
        Advise = "advise",
        /// None.
        Never = "never",
    }
}

/// Four sets of orders in one word, which a fault reads with one load. 0: single pages only.
///
/// ```text
///  63           48 47           32 31           16 15            0
/// +---------------+---------------+---------------+---------------+
/// |    forced     |    advised    |  within size  |    always     |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShmemOrders(pub(super) u64);

const WITHIN: u32 = 16;
const ADVISED: u32 = 32;
const FORCED: u32 = 48;

impl ShmemOrders {
    /// The sets that follow from the files.
    pub(super) fn of(top: ShmemEnabled, sizes: &[ShmemSize; SIZES]) -> Self {
        let sets = ORDERS.map(|order| {
            let size = sizes[usize::from(order)];
            top.shift(size)
                .map_or(0, |shift| 1 << (shift + u32::from(order)))
        });
        ShmemOrders(sets.fold(0, |all, one| all | one))
    }
    /// Whether shared memory is in single pages, whatever object and area.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    fn set(self, shift: u32) -> Orders {
        Orders((self.0 >> shift) as u32 & 0xffff)
    }
    /// What some area may allow, of an object of the internal mount or of a file.
    pub fn of_any_area(self, internal: bool) -> Orders {
        let forced = self.set(FORCED);
        match internal {
            true => [0, WITHIN, ADVISED]
                .into_iter()
                .fold(forced, |all, shift| all.with(self.set(shift))),
            false => forced,
        }
    }
    /// What an area allows: with or without MADV_HUGEPAGE, of an object of the internal mount
    /// (shared anonymous memory, memfds, System V) or of a file, in a process with this permit.
    pub fn allowed(self, advised: bool, internal: bool, permit: Permit) -> Allowed {
        let always = self.set(FORCED).with(match (internal, advised) {
            (true, true) => self.set(0).with(self.set(ADVISED)),
            (true, false) => self.set(0),
            (false, _) => Orders::NONE,
        });
        let within = match internal {
            true => self.set(WITHIN),
            false => Orders::NONE,
        };
        let permitted = permit.orders_of(advised);
        Allowed {
            always: always.and(permitted),
            within: within.and(permitted),
        }
    }
}

impl ShmemEnabled {
    /// The set that a size with this word belongs to.
    fn shift(self, size: ShmemSize) -> Option<u32> {
        match (self, size) {
            (ShmemEnabled::Deny, _) | (_, ShmemSize::Never) => None,
            // Only what inherits follows `force`.
            (ShmemEnabled::Force, size) => (size == ShmemSize::Inherit).then_some(FORCED),
            (_, ShmemSize::Always) => Some(0),
            (_, ShmemSize::WithinSize) => Some(WITHIN),
            (_, ShmemSize::Advise) => Some(ADVISED),
            (ShmemEnabled::Always, ShmemSize::Inherit) => Some(0),
            (ShmemEnabled::WithinSize, ShmemSize::Inherit) => Some(WITHIN),
            (ShmemEnabled::Advise, ShmemSize::Inherit) => Some(ADVISED),
            (ShmemEnabled::Never, ShmemSize::Inherit) => None,
        }
    }
}

/// The orders that an area allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Wherever they fit into the area.
    pub always: Orders,
    /// Only before the object's end.
    pub within: Orders,
}

/// Where a fault is at a hole of an object.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The page.
    pub va: VirtAddr,
    /// Its area.
    pub vma: VirtRange,
    /// Its index in the object.
    pub index: u64,
    /// The orders to choose from.
    pub allowed: Allowed,
}

/// The naturally aligned range of 2^order indices around one.
pub fn indices(index: u64, order: Order) -> Range<u64> {
    let start = index >> order.0 << order.0;
    start..start + order.pages()
}

impl Place {
    /// The largest order below `below` that is allowed, whose naturally aligned range of the object
    /// is one of addresses, too, in the area, and holds nothing by `is_hole`. `len` is the object's
    /// length in pages.
    pub fn order(
        &self,
        below: Order,
        len: u64,
        is_hole: impl Fn(Range<u64>) -> bool,
    ) -> Option<Order> {
        let Allowed { always, within } = self.allowed;
        // Up to what a fold of the two numbers has in common.
        let alike = ((self.va.0 >> PAGE_SHIFT) ^ self.index).trailing_zeros() as u8;
        let mut left = always.with(within).below(below);
        while let Some(order) = left.largest() {
            let range = indices(self.index, order);
            if order.0 <= alike
                && (always.contains(order) || range.end <= len)
                && self.vma.covers(&block(self.va, order))
                && is_hole(range)
            {
                return Some(order);
            }
            left = left.below(order);
        }
        None
    }
}
