//! Lists of physical memory as loaders give them: in any order, with overlaps, holes and reserved
//! islands.

use arrayvec::ArrayVec;
use core::ops::Deref;
use mm::addr::{PAGE_SIZE, PhysAddr, PhysRange};

/// Sorted, page-aligned, neither overlapping nor touching each other. Firmware of PCs names some
/// dozens.
pub type Ranges = ArrayVec<PhysRange, 128>;

/// RAM as the kernel will use it. Ranges beyond the capacity, or out of the tables' reach, are left
/// out and counted.
#[derive(Debug)]
pub struct Ram {
    ranges: Ranges,
    limit: u64,
    left_out: u64,
}

impl Ram {
    /// An empty list; memory at or above `limit` will be left out.
    pub const fn new(limit: u64) -> Self {
        Ram {
            ranges: Ranges::new_const(),
            limit,
            left_out: 0,
        }
    }

    /// Bytes that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Adds the whole pages of `range`. In a full list the smallest range makes room.
    pub fn add(&mut self, range: PhysRange) {
        let end = range
            .end
            .0
            .min(self.limit)
            .max(range.start.0.min(self.limit));
        let below = PhysRange::new(PhysAddr(range.start.0.min(end)), PhysAddr(end));
        self.left_out += range.len() - below.len();
        self.keep(below);
    }

    fn keep(&mut self, range: PhysRange) {
        if add(&mut self.ranges, range) {
            return;
        }
        let sizes = self.ranges.iter().map(PhysRange::len).enumerate();
        let smallest = sizes.min_by_key(|(_, bytes)| *bytes);
        let Some((at, bytes)) = smallest.filter(|(_, bytes)| *bytes < range.len()) else {
            self.left_out += range.len();
            return;
        };
        self.ranges.remove(at);
        self.left_out += bytes;
        let _has_room = add(&mut self.ranges, range);
    }

    /// Takes every page that `hole` touches out of it.
    pub fn remove(&mut self, hole: PhysRange) {
        let hole = whole_pages_around(hole);
        for range in core::mem::take(&mut self.ranges) {
            for part in without(range, hole) {
                self.keep(part);
            }
        }
    }
}

impl Deref for Ram {
    type Target = Ranges;
    fn deref(&self) -> &Ranges {
        &self.ranges
    }
}

/// Adds the whole pages of `range`, joined with what it touches. False: it stands alone and the
/// list is full.
#[must_use]
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

/// Adds the pages that `range` touches. Panics when the list is full.
pub fn reserve(ranges: &mut Ranges, range: PhysRange) {
    let kept = add(ranges, whole_pages_around(range));
    assert!(kept, "too many separate ranges of memory are in use");
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

    fn ram(ranges: &[(u64, u64)]) -> Ram {
        let mut out = Ram::new(u64::MAX);
        for (start, end) in ranges {
            out.add(pages(*start, *end));
        }
        out
    }

    fn shown(ranges: &Ranges) -> ArrayVec<(u64, u64), 128> {
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
        let mut ram = ram(&[(0, 100)]);
        ram.remove(pages(10, 20));
        ram.remove(PhysRange::new(
            PhysAddr(50 * PAGE_SIZE + 1),
            PhysAddr(50 * PAGE_SIZE + 2),
        ));
        ram.remove(pages(95, 200));
        ram.remove(pages(300, 400));
        assert_eq!(shown(&ram)[..], [(0, 10), (20, 50), (51, 95)]);
        ram.remove(pages(0, 1000));
        assert!(ram.is_empty());
        assert_eq!(ram.left_out(), 0);
    }

    /// The last entry of a PC's map is the largest: all RAM above 4 GiB.
    #[test]
    fn of_too_many_pieces_the_smallest_are_left_out_and_counted() {
        let mut ram = Ram::new(1 << 40);
        for n in 0..150 {
            ram.add(pages(4 * n, 4 * n + 2 - n % 2));
        }
        assert_eq!((ram.len(), ram.left_out()), (128, 22 * PAGE_SIZE));
        let high = pages(1 << 20, 1 << 22);
        ram.add(high);
        assert!(covers(&ram, high));
        assert_eq!((ram.len(), ram.left_out()), (128, 23 * PAGE_SIZE));
        // Where something joins, nothing has to go.
        ram.add(pages(1 << 22, 1 << 23));
        ram.remove(pages((1 << 20) + 5, (1 << 20) + 6));
        assert!(covers(&ram, pages((1 << 20) + 6, 1 << 23)));
        assert_eq!((ram.len(), ram.left_out()), (128, 24 * PAGE_SIZE));
    }

    #[test]
    fn what_no_table_reaches_is_left_out_and_counted() {
        let mut ram = Ram::new(10 * PAGE_SIZE);
        for (start, end) in [(1, 3), (8, 14), (20, 25)] {
            ram.add(pages(start, end));
        }
        assert_eq!(shown(&ram)[..], [(1, 3), (8, 10)]);
        assert_eq!(ram.left_out(), 9 * PAGE_SIZE);
    }

    #[test]
    fn a_full_list_still_grows_at_its_edges() {
        let mut ranges = Ranges::new();
        for n in 0..128 {
            assert!(add(&mut ranges, pages(4 * n, 4 * n + 1)));
        }
        assert!(!add(&mut ranges, pages(1000, 1001)));
        assert!(add(&mut ranges, pages(1, 4)));
        assert_eq!(ranges.len(), 127);
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
