//! Where in the tables something far up goes: pure arithmetic, compiled and tested on every host.

use core::ops::Range;
use mm::addr::PhysRange;

/// Of the top table's entries so many, from the first of the direct map on, are the direct map's.
const SLOTS: u64 = 128;

/// Which entry of the direct map's in the top table (512 GiB each) has `range`, and which gigabytes
/// of memory it touches. None: it takes more than one, or lies behind the direct map.
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
