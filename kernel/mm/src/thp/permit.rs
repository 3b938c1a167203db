//! The limits that a process sets itself: prctl(PR_SET_THP_DISABLE), and the set of orders in
//! `/proc/PID/thp_orders`.

use super::policy::Orders;

/// The attribute that prctl(PR_SET_THP_DISABLE) sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Disable {
    /// Nothing.
    #[default]
    No = 0,
    /// Large folios, everywhere.
    Yes = 1,
    /// Large folios where there is no MADV_HUGEPAGE (PR_THP_DISABLE_EXCEPT_ADVISED).
    ExceptAdvised = 3,
}

impl Disable {
    /// From the number that prctl(PR_GET_THP_DISABLE) returns.
    #[inline]
    pub const fn from_number(number: u32) -> Option<Disable> {
        match number {
            0 => Some(Disable::No),
            1 => Some(Disable::Yes),
            3 => Some(Disable::ExceptAdvised),
            _ => None,
        }
    }
    /// Whether it forbids an area, with or without MADV_HUGEPAGE, everything but single pages.
    #[inline]
    pub const fn forbids(self, advised: bool) -> bool {
        match self {
            Disable::No => false,
            Disable::Yes => true,
            Disable::ExceptAdvised => !advised,
        }
    }
}

/// The attribute and the set of orders in one word, which a fault reads with one load.
///
/// ```text
///  25        18 17        10 9          2 1       0
/// +------------+------------+------------+---------+
/// | in advised |  the set   |  in other  | Disable |
/// |   areas    |            |   areas    |         |
/// +------------+------------+------------+---------+
/// ```
///
/// The orders that follow from both are kept beside them, so that a fault only extracts bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permit(pub(crate) u32);

/// The bits of a [`Disable`]'s number, below those of any order.
const DISABLE: u32 = 3;
/// How far the sets are shifted.
const SET: u32 = 8;
const ADVISED: u32 = 16;
const _: () = assert!(Orders::ALL.0 & DISABLE == 0 && Orders::ALL.0 >> (2 + SET) == 0);

impl Permit {
    /// The initial value of a process: nothing is forbidden.
    pub const ALL: Permit = Permit::new(Disable::No, Orders::ALL);

    /// This attribute, and these of the large orders.
    pub const fn new(disable: Disable, orders: Orders) -> Permit {
        let set = orders.and(Orders::ALL).0;
        let other = if disable.forbids(false) { 0 } else { set };
        let advised = if disable.forbids(true) { 0 } else { set };
        Permit(disable as u32 | other | set << SET | advised << ADVISED)
    }
    /// The attribute.
    pub fn disable(self) -> Disable {
        Disable::from_number(self.0 & DISABLE).unwrap_or_default()
    }
    /// The set, regardless of the attribute.
    pub const fn orders(self) -> Orders {
        Orders(self.0 >> SET).and(Orders::ALL)
    }
    /// The orders that an area may have, with or without MADV_HUGEPAGE, as far as the process is
    /// concerned.
    #[inline]
    pub const fn orders_of(self, advised: bool) -> Orders {
        Orders(self.0 >> (advised as u32 * ADVISED)).and(Orders::ALL)
    }
    /// Whether no area may have a large folio (proc(5), `THP_enabled`).
    pub const fn is_none(self) -> bool {
        self.orders_of(true).is_empty()
    }
}
