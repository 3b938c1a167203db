//! The choice of the order of a fault: a pure function from facts.

use super::{Controls, ORDERS, PMD_ORDER, Permit};
use crate::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};

/// A set of orders, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Orders(pub u32);

impl Orders {
    /// No large order: single pages only.
    pub const NONE: Orders = Orders(0);
    /// Every order that anonymous memory may have.
    pub const ALL: Orders = Orders((1 << (*ORDERS.end() + 1)) - (1 << *ORDERS.start()));

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether `order` is in the set.
    #[inline]
    pub const fn contains(self, order: Order) -> bool {
        self.0 & (1 << order.0) != 0
    }
    /// The largest order of the set.
    #[inline]
    pub fn largest(self) -> Option<Order> {
        self.0.checked_ilog2().map(|o| Order(o as u8))
    }
    /// The intersection of two sets.
    #[inline]
    pub const fn and(self, other: Orders) -> Orders {
        Orders(self.0 & other.0)
    }
    /// The union of two sets.
    #[inline]
    pub const fn with(self, other: Orders) -> Orders {
        Orders(self.0 | other.0)
    }
    /// The large orders of the set, the smallest first.
    pub fn iter(self) -> impl Iterator<Item = Order> {
        ORDERS.map(Order).filter(move |order| self.contains(*order))
    }
    /// The orders of the set up to `order`.
    #[inline]
    pub const fn up_to(self, order: Order) -> Orders {
        Orders(self.0 & ((2 << order.0) - 1))
    }
    /// The orders of the set below `order`.
    #[inline]
    pub const fn below(self, order: Order) -> Orders {
        Orders(self.0 & ((1 << order.0) - 1))
    }
}

/// The sizes that an area may have: with or without MADV_HUGEPAGE (`advised`) and MADV_NOHUGEPAGE
/// (`no_huge`), in a process with this [`Permit`].
#[inline]
pub fn allowed(controls: &Controls, advised: bool, no_huge: bool, permit: Permit) -> Orders {
    if no_huge {
        Orders::NONE
    } else {
        controls.orders(advised).and(permit.orders_of(advised))
    }
}

/// The facts that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The page that is written.
    pub va: VirtAddr,
    /// The area it lies in.
    pub vma: VirtRange,
    /// Around `va`, within its PMD entry: where nothing is mapped, not even the zero page.
    pub hole: VirtRange,
    /// Whether the PMD entry itself is absent.
    pub pmd_absent: bool,
    /// The sizes that are allowed here.
    pub orders: Orders,
}

/// The naturally aligned range of 2^order pages around `va`.
#[inline]
pub fn block(va: VirtAddr, order: Order) -> VirtRange {
    let start = va.align_down(order.bytes());
    VirtRange::new(start, start + order.bytes())
}

/// Those of `orders` of which a naturally aligned block fits into the area.
pub fn fitting(vma: VirtRange, orders: Orders) -> Orders {
    let fits = |order: &u8| {
        let bytes = Order(*order).bytes();
        let first = vma
            .start
            .align_up(bytes)
            .map(|start| start.checked_add(bytes));
        matches!(first, Some(Some(end)) if end <= vma.end)
    };
    let fitting = ORDERS.filter(|order| orders.contains(Order(*order)));
    Orders(fitting.filter(fits).fold(0, |set, order| set | 1 << order))
}

/// The largest allowed order whose naturally aligned range lies in the area and in the hole; 0 when
/// none does. The PMD order also wants the PMD entry itself.
#[inline]
pub fn order(facts: &Facts) -> Order {
    let mut left = facts.orders;
    while let Some(order) = left.largest() {
        let range = block(facts.va.align_down(PAGE_SIZE), order);
        let entry = order < PMD_ORDER || facts.pmd_absent;
        if entry && facts.vma.covers(&range) && facts.hole.covers(&range) {
            return order;
        }
        left = left.below(order);
    }
    Order(0)
}
