//! Lab 1: the student's choice of the order.

use super::Facts;
use crate::addr::{Order, PAGE_SIZE, VirtRange};
use crate::switch::Lab;
use core::ops::Range;
use labs::order::{Policy, Solution, wrong};

pub(crate) const LAB: Lab = Lab::named("order");

/// The student's answer to these facts. Panics, in words that a student can go on with, where it
/// is wrong: nothing is mapped then.
pub(crate) fn order(facts: &Facts) -> Order {
    let pages =
        |range: VirtRange| -> Range<u64> { range.start.0 / PAGE_SIZE..range.end.0 / PAGE_SIZE };
    let facts = labs::order::Facts {
        page: facts.va.0 / PAGE_SIZE,
        area: pages(facts.vma),
        hole: pages(facts.hole),
        pmd_absent: facts.pmd_absent,
        orders: facts.orders.0,
    };
    let order = Solution.order(&facts);
    if let Some(why) = wrong(&facts, order) {
        panic!("lab: {why}");
    }
    Order(order)
}
