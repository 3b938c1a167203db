//! Files of one 64-bit word for each page or frame, by its number: pagemap.rst.

use crate::base::errno::{Errno, Result};
use crate::fs::open::io::Sink;
use crate::fs::open::ops::At;

/// Bytes of a word.
pub const WORD: u64 = 8;
/// Words that are made at once: some take more than 100 instructions.
const BATCH: usize = 256;

/// Reads words from a position on, up to number `end`, where the file ends. `make` gets a word's
/// number, and room for it and those after it; `None` ends the file, too. EINVAL unless position
/// and length are multiples of a word.
pub fn read(
    at: At,
    sink: &mut Sink<'_>,
    end: u64,
    mut make: impl FnMut(u64, &mut [u64]) -> Option<()>,
) -> Result<usize> {
    if !at.position.is_multiple_of(WORD) || !(sink.left() as u64).is_multiple_of(WORD) {
        return Err(Errno::EINVAL);
    }
    let mut words = [0; BATCH];
    sink.fill_pieces(BATCH * WORD as usize, |done, buffer| {
        let first = (at.position + done as u64) / WORD;
        let n = end.saturating_sub(first).min(buffer.len() as u64 / WORD) as usize;
        let words = &mut words[..n];
        if n == 0 || make(first, words).is_none() {
            return Ok(0);
        }
        for (word, into) in words.iter().zip(buffer.chunks_exact_mut(WORD as usize)) {
            into.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(n * WORD as usize)
    })
}
