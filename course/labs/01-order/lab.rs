//! Lab 1: which order a fault takes. A solution is one pure function of [`Facts`].

use alloc::format;
use alloc::string::String;
use core::ops::Range;

include!(concat!(env!("OUT_DIR"), "/order.rs"));
#[cfg(feature = "answer")]
#[path = "answer/solution.rs"]
mod answer_key;
#[path = "mutants.rs"]
mod broken_solutions;
#[cfg(feature = "answer")]
#[path = "answer/held_back.rs"]
mod held_back;
mod public;

/// The order of a PMD leaf: 512 pages, one whole page table.
pub const PMD_ORDER: u8 = 9;

/// What is known at a fault. All places are numbers of pages of 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The page that is written.
    pub page: u64,
    /// The area (VMA) it lies in.
    pub area: Range<u64>,
    /// Around `page`, within its 512 pages: where nothing is mapped.
    pub hole: Range<u64>,
    /// Whether there is no page table for these 512 pages.
    pub pmd_absent: bool,
    /// The large orders that the administrator and the program allow here: bit n is order n.
    pub orders: u32,
}

lab! {
    /// A solution.
    pub trait Policy {
        /// The order of the folio for this fault: 0 is a single page.
        fn order(&self, facts: &Facts) -> u8;
    }
}

/// The naturally aligned range of 2^order pages around `page`.
pub fn block(page: u64, order: u8) -> Range<u64> {
    let start = page >> order << order;
    start..start + (1 << order)
}

/// What is wrong with an answer, in words; nothing where the kernel can do it. A smaller order than
/// there could be is not wrong, only slow.
pub fn wrong(facts: &Facts, order: u8) -> Option<String> {
    if order == 0 {
        return None;
    }
    let of = |why: String| {
        let at = facts.page << 12;
        Some(format!("order {order} for the fault at {at:#x}: {why}"))
    };
    if order > PMD_ORDER || facts.orders & 1 << order == 0 {
        return of(format!("not among the allowed orders {:#b}", facts.orders));
    }
    let block = block(facts.page, order);
    let outside = |range: &Range<u64>| block.start < range.start || block.end > range.end;
    let bytes = |range: &Range<u64>| format!("{:#x}-{:#x}", range.start << 12, range.end << 12);
    if outside(&facts.area) {
        let (block, area) = (bytes(&block), bytes(&facts.area));
        return of(format!("the folio {block} reaches out of the area {area}"));
    }
    if outside(&facts.hole) {
        let (block, hole) = (bytes(&block), bytes(&facts.hole));
        return of(format!(
            "the folio {block} lies over pages that are mapped; free is {hole}"
        ));
    }
    if order == PMD_ORDER && !facts.pmd_absent {
        return of("a PMD leaf, but there is a page table in its place".into());
    }
    None
}
