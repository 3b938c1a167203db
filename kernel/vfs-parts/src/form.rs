//! Forms: texts of which only some numbers change, like an entry of /proc/PID/smaps. The text is
//! copied as it stands, and numbers other than 0, which most of them are, are written into it.

use crate::digits::decimal_digits;
use alloc::vec::Vec;

/// Columns of a number; a longer one moves what stands behind it.
const WIDTH: usize = 8;
/// Numbers that are looked at together.
const GROUP: usize = 6;
/// What stands for a number.
const SLOT: &[u8; WIDTH] = b"@@@@@@@@";

/// A text of `LEN` bytes with `SLOTS` numbers.
pub struct Form<const LEN: usize, const SLOTS: usize> {
    text: [u8; LEN],
    /// Where the numbers stand.
    slots: [usize; SLOTS],
}

impl<const LEN: usize, const SLOTS: usize> Form<LEN, SLOTS> {
    /// The form of a text in which `@@@@@@@@` stands for a number. Panics unless there are `SLOTS`
    /// of them.
    pub const fn new(template: &str) -> Self {
        let bytes = template.as_bytes();
        assert!(bytes.len() == LEN);
        let (mut text, mut slots) = ([0; LEN], [0; SLOTS]);
        let (mut at, mut found) = (0, 0);
        while at < LEN {
            if bytes[at] != SLOT[0] {
                text[at] = bytes[at];
                at += 1;
                continue;
            }
            slots[found] = at;
            found += 1;
            let end = at + WIDTH;
            while at < end {
                assert!(bytes[at] == SLOT[0]);
                text[at] = if at + 1 < end { b' ' } else { b'0' };
                at += 1;
            }
        }
        assert!(found == SLOTS);
        Form { text, slots }
    }

    /// Appends the text with these numbers.
    pub fn fill(&self, out: &mut Vec<u8>, numbers: &[u64; SLOTS]) {
        let start = out.len();
        out.extend_from_slice(&self.text);
        // The last one first: a number that is too long moves those that are in place. Most are 0,
        // and many at once.
        let groups = self.slots.chunks(GROUP).zip(numbers.chunks(GROUP));
        for (slots, numbers) in groups.rev() {
            if numbers.iter().fold(0, |all, number| all | number) == 0 {
                continue;
            }
            for (slot, number) in slots.iter().zip(numbers).rev() {
                match number {
                    0 => {}
                    1..10 => out[start + slot + WIDTH - 1] = b'0' + *number as u8,
                    _ => put(out, start + slot, *number),
                }
            }
        }
    }
}

/// Replaces the number at `at`.
fn put(out: &mut Vec<u8>, at: usize, number: u64) {
    let (digits, first) = decimal_digits(number);
    let digits = &digits[first..];
    if digits.len() <= WIDTH {
        let end = at + WIDTH;
        out[end - digits.len()..end].copy_from_slice(digits);
    } else {
        out.splice(at..at + WIDTH, digits.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Size: @@@@@@@@ kB\nKernelPageSize: 4 kB\nFolios: @@@@@@@@ @@@@@@@@\n";

    #[test]
    fn numbers_are_written_into_the_text() {
        static FORM: Form<{ TEXT.len() }, 3> = Form::new(TEXT);
        for numbers in [
            [0, 0, 0],
            [1, 23, 12_345_678],
            [123_456_789, u64::MAX, 1],
            [99_999_999, 100_000_000, 0],
        ] {
            let [a, b, c] = numbers;
            let mut out = b"before\n".to_vec();
            FORM.fill(&mut out, &numbers);
            let wanted =
                format!("before\nSize: {a:>8} kB\nKernelPageSize: 4 kB\nFolios: {b:>8} {c:>8}\n");
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
