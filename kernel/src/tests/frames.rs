//! The page allocator on the machine: what a pair of calls costs, what the lists keep.

use crate::arch::timer;
use crate::base::machine::mm;
use mm::addr::{Order, Pfn};

/// Fewer than a list holds, so that the zone has no part in it.
const BLOCKS: usize = 200;

/// ns for an allocation and for a free of order 0 through a warm list; under -icount these are
/// instructions. The loop around them is taken off.
fn cost() -> Option<(u64, u64)> {
    let mm = mm();
    let mut best = (u64::MAX, u64::MAX);
    let mut empty = u64::MAX;
    let mut blocks = [Pfn(0); BLOCKS];
    // The first round fills the list.
    for _ in 0..10 {
        let start = timer::now();
        for block in &mut blocks {
            *block = mm.alloc_kernel(Order(0))?;
        }
        let middle = timer::now();
        for block in &blocks {
            mm.free_kernel(*block, Order(0));
        }
        best.0 = best.0.min(middle - start);
        best.1 = best.1.min(timer::now() - middle);
    }
    for _ in 0..10 {
        let start = timer::now();
        for block in &blocks {
            core::hint::black_box(block);
        }
        empty = empty.min(timer::now() - start);
    }
    let each = |ns: u64| ns.saturating_sub(empty) / BLOCKS as u64;
    Some((each(best.0), each(best.1)))
}

ktest::ktest! {
    /// What was freed last is handed out next, without a way to the zone.
    fn frames_order_0_from_the_list(ctx) {
        let Some((alloc, free)) = cost() else { return Err(ktest::Failure::Skipped("no memory")) };
        ktest::diag!(ctx, "order 0: {alloc} ns for an allocation, {free} ns for a free");
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
    /// The zones' books are right after a burst of all orders, and the hook for reclaim empties the
    /// lists.
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
        ktest::check_eq!(ctx, mm().allocator().lists().map(|(_, l)| l.len()).sum::<usize>(), 0);
        mm().allocator().validate();
    }
}
