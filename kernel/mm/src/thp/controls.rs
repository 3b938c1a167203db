//! The model behind `/sys/kernel/mm/transparent_hugepage`.

use super::policy::Orders;
use crate::sync::{AtomicU32, Ordering};

/// What is allowed, as two sets that a fault reads with one load each.
#[derive(Default)]
pub struct Controls {
    /// Sizes for every area.
    always: AtomicU32,
    /// Sizes for areas with MADV_HUGEPAGE.
    advised: AtomicU32,
}

impl Controls {
    /// The sizes allowed in an area, with or without MADV_HUGEPAGE.
    #[inline]
    pub fn orders(&self, advised: bool) -> Orders {
        let set = if advised { &self.advised } else { &self.always };
        Orders(set.load(Ordering::Relaxed))
    }
}
