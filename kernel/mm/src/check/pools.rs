//! The pools of huge pages against the frames and the reservations that were found.

use super::Tally;
use crate::arch::Machine;
use crate::frame::Kind;
use crate::hugetlb::sizes;

impl<M: Machine> Tally<'_, M> {
    /// Checks that each pool has its free pages and those in use, and that what it holds back was
    /// reserved.
    pub(super) fn pools(&self) {
        for &order in sizes::<M::Pte>() {
            let figures = self.mm.hugetlb(order);
            for page in self.mm.free_huge_pages(order) {
                let meta = self.mm.frames().get(page);
                let free = meta.is(Kind::Hugetlb, order) && !meta.is_hugetlb() && meta.refs() == 0;
                assert!(free, "{page:?} is free in a pool, and {meta:?}");
            }
            let frames = self.mm.frames().iter();
            let used = frames.filter(|(_, meta)| meta.is_hugetlb() && meta.order() == order);
            let used = used.count() as u64;
            assert_eq!(
                figures.total,
                figures.free + used,
                "huge pages of order {}: {figures:?}, {used} are used",
                order.0
            );
            assert!(
                figures.reserved <= figures.free && figures.surplus <= figures.total,
                "{figures:?}"
            );
            let claims = self.claims[usize::from(order.0)];
            assert!(
                claims == figures.reserved || claims < figures.reserved && !self.all_objects,
                "{} huge pages of order {} are reserved, {claims} claims were found",
                figures.reserved,
                order.0
            );
        }
    }
}
