//! Which TLBI instructions invalidate a range: pure arithmetic, compiled and tested on every host.
//!
//! Source: Arm ARM DDI 0487, C5.5 "A64 System instructions for TLB maintenance": the operands of
//! TLBI VAE1IS and of TLBI RVAE1IS (FEAT_TLBIRANGE).

use mm::addr::{PAGE_SHIFT, VirtRange};
use mm::arch::Asid;

/// One instruction, by its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalidate {
    /// By address, for one leaf: ASID in bits 63..48, page number in bits 43..0.
    Leaf(u64),
    /// By range: ASID in bits 63..48, TG = 4 KiB in 47..46, SCALE in 45..44, NUM in 43..39, TTL =
    /// any in 38..37, page number in 36..0. It reaches (NUM + 1) * 2^(5 * SCALE + 1) pages.
    Range(u64),
}

/// Pages that a series of ranges must stay below: NUM and SCALE reach no further.
pub const RANGE_PAGES: u64 = 1 << 21;

/// The operand for all of an address space.
#[inline]
pub fn whole(asid: Asid) -> u64 {
    operand(asid, 0)
}

/// The operand for one leaf.
#[inline]
pub fn operand(asid: Asid, page: u64) -> u64 {
    u64::from(asid.0) << 48 | page & 0xfff_ffff_ffff
}

/// The instruction for one leaf.
pub fn leaf(asid: Asid, page: u64) -> Invalidate {
    Invalidate::Leaf(operand(asid, page))
}

/// Calls `run` with few instructions for all pages of a range below [`RANGE_PAGES`], where the
/// hardware has FEAT_TLBIRANGE. Each interrupts every CPU, so the last one may reach past the end
/// of the range where that saves another: by a quarter of what it is for and a page at most.
#[inline(always)]
pub fn ranges(asid: Asid, range: VirtRange, mut run: impl FnMut(Invalidate)) {
    let mut page = range.start.0 >> PAGE_SHIFT;
    let mut left = range.pages();
    debug_assert!(left < RANGE_PAGES);
    while left > 1 {
        // The smallest unit of which 32 reach the end.
        let more = |than: u64| u64::from(left > than);
        let scale = more(1 << 6) + more(1 << 11) + more(1 << 16);
        let shift = 5 * scale + 1;
        let mut count = (left + (1 << shift) - 1) >> shift;
        if (count << shift) - left > left / 4 + 1 {
            count -= 1;
        }
        run(Invalidate::Range(
            u64::from(asid.0) << 48
                | 0b01 << 46
                | scale << 44
                | (count - 1) << 39
                | page & 0x1f_ffff_ffff,
        ));
        page += count << shift;
        left = left.saturating_sub(count << shift);
    }
    if left == 1 {
        run(leaf(asid, page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::addr::{PAGE_SIZE, VirtAddr};

    /// The pages that an instruction invalidates, as the manual says.
    fn pages(step: Invalidate) -> core::ops::Range<u64> {
        match step {
            Invalidate::Leaf(operand) => {
                let page = operand & 0xfff_ffff_ffff;
                page..page + 1
            }
            Invalidate::Range(operand) => {
                let (scale, num) = (operand >> 44 & 3, operand >> 39 & 0x1f);
                let base = operand & 0x1f_ffff_ffff;
                assert_eq!((operand >> 46 & 3, operand >> 37 & 3), (1, 0));
                base..base + ((num + 1) << (5 * scale + 1))
            }
        }
    }

    fn range(page: u64, pages: u64) -> VirtRange {
        let start = VirtAddr(page * PAGE_SIZE);
        VirtRange::new(start, start + pages * PAGE_SIZE)
    }

    /// The only instruction for a range; `None`: it takes several.
    fn only(asid: Asid, range: VirtRange) -> Option<Invalidate> {
        let (mut first, mut steps) = (None, 0);
        ranges(asid, range, |one| {
            first.get_or_insert(one);
            steps += 1;
        });
        first.filter(|_| steps == 1)
    }

    #[test]
    fn every_page_and_few_others() {
        let sizes = (1..2000).chain([4096, 0x1_0000, 0x1f_ffff, 0x10_0000, 0x12_3456]);
        for (i, n) in sizes.enumerate() {
            let first = 0x40_0000 + 7 * i as u64;
            let mut next = first;
            let mut steps = 0;
            ranges(Asid(3), range(first, n), |step| {
                let pages = pages(step);
                assert_eq!(pages.start, next, "{n} pages");
                let left = first + n - next;
                assert!(pages.end - pages.start <= left + left / 4 + 1, "{n} pages");
                next = pages.end;
                steps += 1;
            });
            assert!(next >= first + n, "{n} pages");
            assert!(steps <= 4, "{steps} instructions for {n} pages");
        }
        // What most unmapped ranges need.
        let one = (1..=600).filter(|&n| only(Asid(3), range(0, n)).is_some());
        assert_eq!(one.count(), 528);
    }

    #[test]
    fn operands_are_the_manuals() {
        assert_eq!(
            leaf(Asid(0x12), 0x4_0000),
            Invalidate::Leaf(0x0012_0000_0004_0000)
        );
        // A contiguous block: NUM = 7, SCALE = 0.
        let block = only(Asid(0x12), range(0x4_0010, 16));
        assert_eq!(block, Some(Invalidate::Range(0x0012_4380_0004_0010)));
        // 2 MiB: NUM = 7, SCALE = 1.
        let large = only(Asid(0), range(0x200, 512));
        assert_eq!(large, Some(Invalidate::Range(0x0000_5380_0000_0200)));
    }
}
