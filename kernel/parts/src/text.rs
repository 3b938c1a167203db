//! A text of the kernel's while it is written: names and numbers, without `core::fmt`. /proc's long
//! files consist of them, and what an area costs there may count 60,000 times.

use alloc::vec::Vec;
use fallible::OutOfMemory;

/// Bytes behind the room: a number is written as a whole word, of which only the first bytes stay.
const SLACK: usize = 16;
/// Digits of the largest number in decimal.
const MOST: usize = 20;

/// A text with room behind it. Panics when more is appended than room was made for.
#[derive(Default)]
pub struct Text {
    /// The text, and the room behind it.
    bytes: Vec<u8>,
    len: usize,
}

impl Text {
    /// An empty text without room.
    pub const fn new() -> Text {
        Text {
            bytes: Vec::new(),
            len: 0,
        }
    }

    /// Makes room for `more` bytes.
    #[inline]
    pub fn make_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let wanted = self.len.saturating_add(more).saturating_add(SLACK);
        if wanted <= self.bytes.len() {
            return Ok(());
        }
        self.grow(wanted)
    }
    #[cold]
    fn grow(&mut self, wanted: usize) -> Result<(), OutOfMemory> {
        let more = wanted - self.bytes.len();
        fallible::reserve(&mut self.bytes, more)?;
        // All that there is, so that it is rare.
        self.bytes.resize(self.bytes.capacity(), 0);
        Ok(())
    }

    /// The text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// How long it is.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Takes back what was written after the first `len` bytes. The room stays.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
    /// Appends a byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
    /// Appends the first `len` of some bytes, at most 16: a copy of a known length is no call.
    #[inline]
    pub fn first<const N: usize>(&mut self, len: usize, bytes: [u8; N]) {
        const { assert!(N <= SLACK) };
        self.bytes[self.len..][..N].copy_from_slice(&bytes);
        self.len += len;
    }
    /// Appends blanks up to a column, of which the first is that of the byte `start`.
    pub fn pad(&mut self, start: usize, column: usize) {
        let end = self.len.max(start + column);
        self.bytes[self.len..end].fill(b' ');
        self.len = end;
    }

    /// Appends a number in hexadecimal, with zeros in front up to `width` digits (16 at most).
    #[inline]
    pub fn hex(&mut self, value: u64, width: usize) {
        let needed = (u64::BITS - (value | 1).leading_zeros()).div_ceil(4) as usize;
        let digits = needed.max(width);
        // Zeros behind the digits: copies of one length are no calls.
        let mut wide = [[0; 2]; HEX_MOST];
        for (pair, byte) in wide.iter_mut().zip(value.to_be_bytes()) {
            *pair = HEX[usize::from(byte)];
        }
        let shown = &wide.as_flattened()[HEX_MOST - digits..][..HEX_MOST];
        self.bytes[self.len..][..HEX_MOST].copy_from_slice(shown);
        self.len += digits;
    }
    /// Appends a number in decimal.
    #[inline]
    pub fn decimal(&mut self, value: u64) {
        if value < 10 {
            return self.byte(b'0' + value as u8);
        }
        let (digits, first) = decimal_digits(value);
        self.bytes(&digits[first..]);
    }

    /// Writes a number other than 0 over the bytes up to `end`, which is in the text.
    #[inline]
    pub(crate) fn decimal_before(&mut self, end: usize, mut value: u64) {
        let mut at = end;
        while value != 0 {
            at -= 1;
            self.bytes[at] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
}

/// Digits of the largest number in hexadecimal.
const HEX_MOST: usize = 16;

/// Each byte in hexadecimal.
static HEX: [[u8; 2]; 256] = {
    let (digits, mut table, mut byte) = (b"0123456789abcdef", [[0; 2]; 256], 0);
    while byte < table.len() {
        table[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    table
};

/// The digits of a number, and where they begin.
fn decimal_digits(mut value: u64) -> ([u8; MOST], usize) {
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

    const VALUES: [u64; 12] = [
        0,
        9,
        10,
        15,
        16,
        0x9a,
        0xffff_ffff,
        0x1_0000_0000,
        0x0123_4567_89ab_cdef,
        0xfedc_ba98_7654_3210,
        u64::MAX,
        0x7fff_f7ff_e000,
    ];

    fn text(write: impl FnOnce(&mut Text)) -> String {
        let mut text = Text::new();
        text.make_room(64).unwrap();
        text.byte(b'x');
        write(&mut text);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn numbers_are_as_the_standard_library_has_them() {
        for value in VALUES {
            for width in [0, 2, 8, 11, 16] {
                let hex = text(|text| text.hex(value, width));
                assert_eq!(hex, format!("x{value:0width$x}"));
            }
            assert_eq!(text(|text| text.decimal(value)), format!("x{value}"));
        }
    }

    #[test]
    fn bytes_and_columns() {
        let columns = text(|text| {
            text.bytes(b"name");
            text.pad(1, 6);
            text.first(2, *b"abcd");
            text.pad(0, 4);
            text.byte(b'.');
        });
        assert_eq!(columns, "xname  ab.");
    }

    #[test]
    fn room_is_kept_and_what_is_taken_back_is_gone() {
        let mut text = Text::new();
        assert!(text.is_empty());
        for _ in 0..1000 {
            text.make_room(100).unwrap();
            text.bytes(&[b'y'; 100]);
        }
        text.truncate(3);
        assert_eq!(text.as_bytes(), b"yyy");
        text.truncate(5);
        assert_eq!(text.len(), 3);
        assert_eq!(text.make_room(usize::MAX), Err(OutOfMemory));
    }
}
