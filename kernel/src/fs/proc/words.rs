//! Files of one 64-bit word for each page or frame, by its number: pagemap.rst.

use crate::errno::{Errno, Result};
use crate::fs::file::At;
use crate::fs::io::Sink;

/// Bytes of a word.
pub const WORD: u64 = 8;

/// Reads words from a position on, up to number `end`, where the file ends. EINVAL unless position and length are multiples
/// of a word.
pub fn read(at: At, sink: &mut Sink<'_>, end: u64, word: impl Fn(u64) -> u64) -> Result<usize> {
    if !at.position.is_multiple_of(WORD) || !(sink.left() as u64).is_multiple_of(WORD) {
        return Err(Errno::EINVAL);
    }
    sink.fill(|done, buffer| {
        let first = (at.position + done as u64) / WORD;
        let n = end.saturating_sub(first).min(buffer.len() as u64 / WORD);
        for (number, into) in (first..first + n).zip(buffer.chunks_exact_mut(WORD as usize)) {
            into.copy_from_slice(&word(number).to_ne_bytes());
        }
        Ok((n * WORD) as usize)
    })
}
