//! A screen of pixels in memory.

use crate::DIRECT_MAP;
use mm::addr::PhysRange;

/// A screen: rows of pixels in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framebuffer {
    /// Where the pixels are.
    pub window: PhysRange,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Bytes of a pixel: 2, 3 or 4.
    pub bytes_per_pixel: u8,
    /// Red, green and blue in a pixel, as (bits, lowest bit).
    pub colours: [(u8, u8); 3],
}

impl Framebuffer {
    /// What a pixel of this grey holds; `intensity` from 0, black, to 255.
    fn grey(&self, intensity: u8) -> u32 {
        let scaled = |(bits, shift): (u8, u8)| (u32::from(intensity) << bits >> 8) << shift;
        self.colours
            .map(scaled)
            .iter()
            .fold(0, |all, part| all | part)
    }

    /// Makes the pixel in column `x` of row `y`, below `width` and `height`, this grey. The direct
    /// map must have the window.
    pub fn put(&self, x: usize, y: usize, intensity: u8) {
        let pixel = self.grey(intensity);
        let bytes = usize::from(self.bytes_per_pixel);
        let at = DIRECT_MAP
            + self.window.start.0
            + u64::from(self.pitch) * y as u64
            + (x * bytes) as u64;
        // SAFETY: the pixel lies in the screen's window, which only the console writes. A row may
        // begin anywhere, so only whole aligned words are written at once.
        unsafe {
            match bytes {
                4 if at.is_multiple_of(4) => (at as *mut u32).write_volatile(pixel),
                _ => {
                    for (n, byte) in pixel.to_le_bytes().into_iter().take(bytes).enumerate() {
                        (at as *mut u8).add(n).write_volatile(byte);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::addr::PhysAddr;

    #[test]
    fn greys() {
        let screen = |colours| Framebuffer {
            window: PhysRange::new(PhysAddr(0), PhysAddr(0)),
            width: 0,
            height: 0,
            pitch: 0,
            bytes_per_pixel: 4,
            colours,
        };
        let words = screen([(8, 16), (8, 8), (8, 0)]);
        assert_eq!(
            [0, 0x80, 0xff].map(|i| words.grey(i)),
            [0, 0x80_8080, 0xff_ffff]
        );
        let halves = screen([(5, 11), (6, 5), (5, 0)]);
        assert_eq!([0, 0x80, 0xff].map(|i| halves.grey(i)), [0, 0x8410, 0xffff]);
    }
}
