//! Numbers as text, at the end of a vector of bytes. /proc's long files consist of them, so it is
//! done without `core::fmt`.

use alloc::vec::Vec;

/// Digits of the largest number.
const MOST: usize = 20;

/// Appends a number in hexadecimal, with zeros in front up to `width` digits (16 at most).
#[inline]
pub fn hex(out: &mut Vec<u8>, value: u64, width: usize) {
    let needed = (u64::BITS - value.leading_zeros()).div_ceil(4) as usize;
    let n = needed.max(width).max(1);
    // As many bytes are written as there are digits at the most: a copy of a known length is no
    // call.
    let len = out.len() + n;
    match u32::try_from(value) {
        Ok(low) if n <= 8 => {
            let digits = hex_digits(low) << (64 - 8 * n);
            out.extend_from_slice(&digits.to_be_bytes());
        }
        _ => {
            let high = u128::from(hex_digits((value >> 32) as u32)) << 64;
            let digits = (high | u128::from(hex_digits(value as u32))) << (128 - 8 * n);
            out.extend_from_slice(&digits.to_be_bytes());
        }
    }
    out.truncate(len);
}

/// All 8 digits, the first one in the highest byte: the nibbles are spread over the bytes of a word
/// and become ASCII together.
#[inline]
fn hex_digits(value: u32) -> u64 {
    let wide = u64::from(value);
    let wide = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
    let wide = (wide | wide << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (wide | wide << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte that is a letter: 10 and more carry into the upper nibble.
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let to_letter = u64::from(b'a' - b'9' - 1);
    nibbles + 0x3030_3030_3030_3030 + letters * to_letter
}

/// Appends a number in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let (digits, first) = decimal_digits(value);
    out.extend_from_slice(&digits[first..]);
}

/// The digits of a number, and where they begin.
#[inline]
pub(crate) fn decimal_digits(mut value: u64) -> ([u8; MOST], usize) {
    let (mut digits, mut first) = ([0; MOST], MOST);
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return (digits, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [u64; 10] = [
        0,
        9,
        10,
        15,
        16,
        0x9a,
        0x0123_4567_89ab_cdef,
        0xfedc_ba98_7654_3210,
        u64::MAX,
        0x7fff_f7ff_e000,
    ];

    #[test]
    fn numbers_are_as_the_standard_library_has_them() {
        for value in VALUES {
            for width in [0, 2, 8, 16] {
                let mut out = b"x".to_vec();
                hex(&mut out, value, width);
                assert_eq!(out, format!("x{value:0width$x}").as_bytes());
            }
            let mut out = b"x".to_vec();
            decimal(&mut out, value);
            assert_eq!(out, format!("x{value}").as_bytes());
        }
    }
}
