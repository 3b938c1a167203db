//! Lab 6: an answer.

use super::Word;

/// From the low bits up: the sums of the two halves of each id, of their squares, and the
/// references. 512 pages bring 512 * 15 to the first two and 512 * 450 to the third.
const UPPER: u32 = 13;
const SQUARES: u32 = 26;
const COUNT: u32 = 44;

/// What a reference by `mm` adds.
fn weight(mm: u8) -> u64 {
    let (low, high) = (u64::from(mm & 15), u64::from(mm >> 4));
    (1 << COUNT) + ((low * low + high * high) << SQUARES) + (high << UPPER) + low
}

/// All that is known is one sum, so no step can come between two of its parts.
pub fn add(word: &dyn Word, mm: u8, n: u64) {
    word.add(n.wrapping_mul(weight(mm)));
}

/// The one that takes the sum to 0 was the last.
pub fn remove(word: &dyn Word, mm: u8, n: u64) -> bool {
    let gone = n.wrapping_mul(weight(mm));
    word.add(gone.wrapping_neg()) == gone
}

/// `count` points whose sum is `count` times the point of `mm`, and whose squares are, too: they
/// are all there. With more references than pages the sums may have run over.
pub fn reuse(word: &dyn Word, pages: u64, mm: u8, pins: u64) -> bool {
    let rest = word.load().wrapping_sub(pins << COUNT);
    let count = rest >> COUNT;
    count <= pages && count > 0 && rest == count.wrapping_mul(weight(mm))
}
