//! Lists of physical memory as loaders give them: in any order, with overlaps, holes and reserved islands.

use arrayvec::ArrayVec;
use mm::addr::{PAGE_SIZE, PhysAddr, PhysRange};

/// Sorted, page-aligned, neither overlapping nor touching each other.
pub type Ranges = ArrayVec<PhysRange, 64>;

/// Adds the whole pages of `range`, joined with what it touches. False: it stands alone and the list is
/// full, so it is left out, which loses RAM but harms nothing.
pub fn add(ranges: &mut Ranges, range: PhysRange) -> bool {
    let frames = range.whole_frames();
    if frames.is_empty() {
        return true;
    }
    let mut range = PhysRange::new(frames.start.start(), frames.end.start());
    ranges.retain(|other| {
        let joins = other.start <= range.end && range.start <= other.end;
        if joins {
            range = PhysRange::new(range.start.min(other.start), range.end.max(other.end));
        }
        !joins
    });
    let at = ranges.partition_point(|other| other.start < range.start);
    ranges.try_insert(at, range).is_ok()
}

/// Takes every page that `hole` touches out of the list.
pub fn remove(ranges: &mut Ranges, hole: PhysRange) {
    let hole = whole_pages_around(hole);
    for range in core::mem::take(ranges) {
        for part in without(range, hole) {
            add(ranges, part);
        }
    }
}

/// Whether all of `range` lies in the list.
pub fn covers(ranges: &Ranges, range: PhysRange) -> bool {
    let whole = |one: &PhysRange| one.start <= range.start && range.end <= one.end;
    range.start <= range.end && ranges.iter().any(whole)
}

/// The pages that `range` touches.
pub fn whole_pages_around(range: PhysRange) -> PhysRange {
    PhysRange::new(
        PhysAddr(range.start.0 & !(PAGE_SIZE - 1)),
        PhysAddr(range.end.0.next_multiple_of(PAGE_SIZE)),
    )
}

/// `range` without `hole`: what is before and after it, either of them perhaps empty.
pub fn without(range: PhysRange, hole: PhysRange) -> [PhysRange; 2] {
    if !range.overlaps(&hole) {
        return [range, PhysRange::new(range.end, range.end)];
    }
    [
        PhysRange::new(range.start, hole.start.clamp(range.start, range.end)),
        PhysRange::new(hole.end.clamp(range.start, range.end), range.end),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(start: u64, end: u64) -> PhysRange {
        PhysRange::new(PhysAddr(start * PAGE_SIZE), PhysAddr(end * PAGE_SIZE))
    }

    fn list(ranges: &[(u64, u64)]) -> Ranges {
        let mut out = Ranges::new();
        for (start, end) in ranges {
            assert!(add(&mut out, pages(*start, *end)));
        }
        out
    }

    fn shown(ranges: &Ranges) -> ArrayVec<(u64, u64), 64> {
        let page = |at: PhysAddr| at.0 / PAGE_SIZE;
        ranges
            .iter()
            .map(|r| (page(r.start), page(r.end)))
            .collect()
    }

    #[test]
    fn any_order_overlaps_and_neighbours() {
        let ranges = list(&[(20, 30), (0, 5), (5, 8), (28, 40), (22, 24), (50, 50)]);
        assert_eq!(shown(&ranges)[..], [(0, 8), (20, 40)]);
        let joined = list(&[(0, 10), (20, 30), (8, 22)]);
        assert_eq!(shown(&joined)[..], [(0, 30)]);
    }

    #[test]
    fn parts_of_pages_are_no_ram() {
        let mut ranges = Ranges::new();
        assert!(add(
            &mut ranges,
            PhysRange::new(PhysAddr(1), PhysAddr(PAGE_SIZE - 1))
        ));
        assert!(add(
            &mut ranges,
            PhysRange::new(PhysAddr(1), PhysAddr(2 * PAGE_SIZE + 1))
        ));
        assert_eq!(shown(&ranges)[..], [(1, 2)]);
    }

    #[test]
    fn reserved_islands() {
        let mut ranges = list(&[(0, 100)]);
        remove(&mut ranges, pages(10, 20));
        remove(
            &mut ranges,
            PhysRange::new(PhysAddr(50 * PAGE_SIZE + 1), PhysAddr(50 * PAGE_SIZE + 2)),
        );
        remove(&mut ranges, pages(95, 200));
        remove(&mut ranges, pages(300, 400));
        assert_eq!(shown(&ranges)[..], [(0, 10), (20, 50), (51, 95)]);
        remove(&mut ranges, pages(0, 1000));
        assert!(ranges.is_empty());
    }

    #[test]
    fn a_full_list_still_grows_at_its_edges() {
        let mut ranges = Ranges::new();
        for n in 0..64 {
            assert!(add(&mut ranges, pages(4 * n, 4 * n + 1)));
        }
        assert!(!add(&mut ranges, pages(1000, 1001)));
        assert!(add(&mut ranges, pages(1, 4)));
        assert_eq!(ranges.len(), 63);
    }

    #[test]
    fn what_a_list_covers() {
        let ranges = list(&[(1, 3), (5, 9)]);
        let bytes = |start, end| PhysRange::new(PhysAddr(start), PhysAddr(end));
        assert!(covers(&ranges, pages(1, 3)) && covers(&ranges, pages(6, 7)));
        assert!(covers(&ranges, bytes(PAGE_SIZE + 5, 3 * PAGE_SIZE - 1)));
        for (start, end) in [(0, 2), (2, 4), (2, 6), (8, 10), (20, 21)] {
            assert!(!covers(&ranges, pages(start, end)), "{start} to {end}");
        }
    }
}
