//! The page allocator on the machine: what a pair of calls costs, what the lists keep.

use crate::arch::timer;
use crate::machine::mm;
use mm::addr::{Order, Pfn};

const PAIRS: u64 = 10_000;

/// ns for a pair of one allocation and one free of an order that has a list; under -icount these are instructions.
fn pair(order: Order) -> Option<u64> {
    let round = |pairs: u64| {
        let start = timer::now();
        for _ in 0..pairs {
            let pfn = mm().alloc_kernel(order)?;
            mm().free_kernel(pfn, order);
        }
        Some(timer::now() - start)
    };
    // The first fills the list.
    round(10)?;
    Some(round(PAIRS)? / PAIRS)
}

ktest::ktest! {
    /// What was freed last is handed out next, without a way to the zone.
    fn frames_order_0_from_the_list(ctx) {
        let Some(ns) = pair(Order(0)) else { return Err(ktest::Failure::Skipped("no memory")) };
        ktest::diag!(ctx, "order 0: {ns} ns for an allocation and a free");
        let in_zones = || mm().allocator().zones().iter().map(|z| z.look(|b| b.free_frames())).sum::<u64>();
        let before = in_zones();
        let mut last = None;
        for _ in 0..100 {
            let Some(pfn) = mm().alloc_kernel(Order(0)) else { return Err(ktest::Failure::Skipped("no memory")) };
            mm().free_kernel(pfn, Order(0));
            ktest::check!(ctx, last.is_none_or(|last| last == pfn), "{last:?}, then {pfn:?}");
            last = Some(pfn);
        }
        ktest::check_eq!(ctx, in_zones(), before);
    }
}

ktest::ktest! {
    /// The zones' books are right after a burst of all orders, and the hook for reclaim empties the lists.
    fn frames_of_all_orders(ctx) {
        let blocks: alloc::vec::Vec<(Pfn, Order)> = (0..=10)
            .map(Order)
            .filter_map(|order| Some((mm().alloc_kernel(order)?, order)))
            .collect();
        for (pfn, order) in &blocks {
            ktest::check!(ctx, pfn.0.is_multiple_of(order.pages()), "{pfn:?} of order {}", order.0);
        }
        for (pfn, order) in blocks {
            mm().free_kernel(pfn, order);
        }
        mm().drain_pcp();
        ktest::check_eq!(ctx, mm().allocator().lists().map(|l| l.count).sum::<usize>(), 0);
        mm().allocator().validate(mm().frames());
    }
}
