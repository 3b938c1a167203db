//! Slots of the top-level table for a framebuffer beyond the early direct map: pure arithmetic,
//! compiled and tested on every host.

use core::ops::Range;
use mm::addr::PhysRange;

/// Number of entries of the top-level table that belong to the direct map.
const SLOTS: u64 = 128;

/// The entry of the top-level table (512 GiB each), counted from the direct map's first, that
/// covers `range`, and the gigabytes of memory that `range` touches. `None` when it needs more than
/// one entry, or lies beyond the direct map.
pub fn place(range: PhysRange) -> Option<(usize, Range<u64>)> {
    let (first, end) = (range.start.0 >> 30, range.end.0.div_ceil(1 << 30));
    let slot = first / 512;
    (slot < SLOTS && end <= (slot + 1) * 512).then_some((slot as usize, first..end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::addr::PhysAddr;

    #[test]
    fn places() {
        let place = |start: u64, bytes| {
            let start = PhysAddr(start);
            place(PhysRange::new(start, start + bytes))
        };
        assert_eq!(place(0x8000_0000, 1), Some((0, 2..3)));
        // 8 MiB at 1008 GiB, where a Ryzen's firmware puts graphics cards.
        assert_eq!(place(0xfc_0000_0000, 8 << 20), Some((1, 1008..1009)));
        assert_eq!(place(0xfc_3fff_f000, 0x2000), Some((1, 1008..1010)));
        assert_eq!(place(0xff_ffff_f000, 0x1000), Some((1, 1023..1024)));
        assert_eq!(place(0xff_ffff_f000, 0x2000), None);
        assert_eq!(place((1 << 46) - 1, 1), Some((127, 65535..65536)));
        assert_eq!(place(1 << 46, 1), None);
    }
}
