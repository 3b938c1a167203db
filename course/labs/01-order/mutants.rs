//! Lab 1: broken solutions. Each asks a right one about other facts than there are, or changes its
//! answer: so they hold nothing of the answer themselves.

use super::{Broken, Facts, PMD_ORDER, Policy, block};
use crate::Mutant;

pub const ALL: &[Mutant] = &[
    ("BeyondTheEnd", "does not see where the area ends"),
    (
        "BeforeTheStart",
        "does not see where the area begins, if that is more than 16 pages away",
    ),
    (
        "OverMapped",
        "maps over pages that are there, if they lie behind the page",
    ),
    (
        "OverTable",
        "asks for a PMD leaf though there is a page table",
    ),
    (
        "NotAllowed",
        "takes order 7 or 8, which is not allowed, when the next smaller one is",
    ),
    (
        "OneSmaller",
        "takes the second largest order, if more than three are allowed",
    ),
    ("NeverPmd", "never takes the PMD order"),
    (
        "TouchesTheEnd",
        "keeps a page free at the end of an area of more than 2 MiB",
    ),
    (
        "Rare",
        "is wrong about one page of 64 in a block, which the seed picks",
    ),
];

impl Policy for Broken {
    fn order(&self, facts: &Facts) -> u8 {
        let right = self.right;
        let mut other = facts.clone();
        match self.name {
            "BeyondTheEnd" => other.area.end = u64::MAX,
            "BeforeTheStart" if facts.page - facts.area.start > 16 => other.area.start = 0,
            "OverMapped" => other.hole.end = block(facts.page, PMD_ORDER).end,
            "OverTable" => other.pmd_absent = true,
            "NotAllowed" => other.orders |= (facts.orders << 1) & 0b1_1000_0000,
            "OneSmaller" if facts.orders.count_ones() > 3 => {
                let largest = right.order(facts);
                other.orders &= !(1 << largest);
            }
            "NeverPmd" => other.orders &= !(1 << PMD_ORDER),
            "TouchesTheEnd" if facts.area.end - facts.area.start > 512 => other.area.end -= 1,
            "Rare" if facts.page % 64 == self.seed % 64 => other.orders = 0,
            _ => {}
        }
        right.order(&other)
    }
}
