//! Forms: texts of which only some numbers change, like an entry of /proc/PID/smaps. The text is
//! copied as it stands, and numbers other than 0, which most of them are, are written into it.

use crate::text::Text;

/// Columns of a number; a longer one moves what stands behind it.
const WIDTH: usize = 8;
/// The first number that is longer.
const LONG: u64 = 100_000_000;
/// Most digits that a number has more than there are columns.
const MORE: usize = 12;
/// What stands for a number.
const SLOT: &[u8; WIDTH] = b"@@@@@@@@";

/// A text of `LEN` bytes with `ROWS` times `N` numbers. A row is looked at as one: all of it may
/// be 0.
pub struct Form<const LEN: usize, const ROWS: usize, const N: usize> {
    text: [u8; LEN],
    /// Where the numbers end.
    slots: [[usize; N]; ROWS],
}

impl<const LEN: usize, const ROWS: usize, const N: usize> Form<LEN, ROWS, N> {
    /// Bytes that it has at most.
    pub const ROOM: usize = LEN + ROWS * N * MORE;

    /// The form of a text in which `@@@@@@@@` stands for a number. Panics unless there are `ROWS`
    /// times `N` of them.
    pub const fn new(template: &str) -> Self {
        let bytes = template.as_bytes();
        assert!(bytes.len() == LEN);
        let (mut text, mut slots) = ([0; LEN], [[0; N]; ROWS]);
        let (mut at, mut found) = (0, 0);
        while at < LEN {
            if bytes[at] != SLOT[0] {
                text[at] = bytes[at];
                at += 1;
                continue;
            }
            let end = at + WIDTH;
            slots[found / N][found % N] = end;
            found += 1;
            while at < end {
                assert!(bytes[at] == SLOT[0]);
                text[at] = if at + 1 < end { b' ' } else { b'0' };
                at += 1;
            }
        }
        assert!(found == ROWS * N);
        Form { text, slots }
    }

    /// Appends the text with the numbers of these rows, for which [`Self::ROOM`] was made.
    #[inline]
    pub fn fill(&self, out: &mut Text, rows: impl Iterator<Item = [u64; N]> + Clone) {
        let start = out.len();
        out.bytes(&self.text);
        for (slots, numbers) in self.slots.iter().zip(rows.clone()) {
            if numbers.iter().fold(0, |all, number| all | number) == 0 {
                continue;
            }
            if numbers.iter().any(|number| *number >= LONG) {
                out.truncate(start);
                return self.fill_slowly(out, &mut rows.flatten());
            }
            for (end, number) in slots.iter().zip(numbers) {
                out.decimal_before(start + end, number);
            }
        }
    }

    /// The same with numbers that move what stands behind them.
    #[cold]
    fn fill_slowly(&self, out: &mut Text, numbers: &mut dyn Iterator<Item = u64>) {
        let mut from = 0;
        for (end, number) in self.slots.iter().flatten().zip(numbers) {
            out.bytes(&self.text[from..end - WIDTH]);
            let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
            out.pad(out.len(), WIDTH.saturating_sub(digits));
            out.decimal(number);
            from = *end;
        }
        out.bytes(&self.text[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Size: @@@@@@@@ kB\nUsed: @@@@@@@@\nFolios: @@@@@@@@ @@@@@@@@\n";

    #[test]
    fn numbers_are_written_into_the_text() {
        const FORM: Form<{ TEXT.len() }, 2, 2> = Form::new(TEXT);
        for numbers in [
            [0, 0, 0, 0],
            [0, 5, 0, 0],
            [1, 0, 23, 12_345_678],
            [u64::MAX, u64::MAX, u64::MAX, u64::MAX],
            [0, 123_456_789, u64::MAX, 1],
            [3, 99_999_999, 100_000_000, 0],
        ] {
            let [a, b, c, d] = numbers;
            let mut out = Text::new();
            out.make_room(7 + Form::<{ TEXT.len() }, 2, 2>::ROOM)
                .unwrap();
            out.bytes(b"before\n");
            FORM.fill(&mut out, [[a, b], [c, d]].into_iter());
            let wanted = format!("before\nSize: {a:>8} kB\nUsed: {b:>8}\nFolios: {c:>8} {d:>8}\n");
            assert_eq!(str::from_utf8(out.as_bytes()).unwrap(), wanted);
        }
    }
}
