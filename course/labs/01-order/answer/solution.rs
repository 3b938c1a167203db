//! Lab 1: an answer.

use super::{Facts, PMD_ORDER, block};
use core::ops::Range;

/// The largest order that is allowed and fits: from the largest on, until one does.
pub fn order(facts: &Facts) -> u8 {
    let mut left = facts.orders;
    while let Some(order) = left.checked_ilog2() {
        if fits(facts, order as u8) {
            return order as u8;
        }
        left &= !(1 << order);
    }
    0
}

fn fits(facts: &Facts, order: u8) -> bool {
    let block = block(facts.page, order);
    let within = |range: &Range<u64>| range.start <= block.start && block.end <= range.end;
    let entry = order < PMD_ORDER || facts.pmd_absent;
    entry && within(&facts.area) && within(&facts.hole)
}
