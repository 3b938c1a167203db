//! Transfers through a buffer: user memory may fault, so no file copies to it directly.

use crate::base::errno::Result;
use crate::sched;
use alloc::vec::Vec;

/// Small transfers use a buffer on the stack.
const SMALL: usize = 256;
/// Larger ones go in pieces of at most this size.
pub(super) const LARGE: usize = 16 << 10;

/// What one pass through a buffer did.
pub(super) struct Moved {
    moved: usize,
    /// There is no more to move.
    end: bool,
}

impl Moved {
    /// A step that moved `moved` bytes; the last one, unless that filled the buffer.
    pub(super) fn ending_before(moved: usize, buffer: &[u8]) -> Moved {
        let end = moved < buffer.len();
        Moved { moved, end }
    }
}

/// Moves `total` bytes through a buffer: `step` gets the bytes done so far and the buffer. An error
/// after the first bytes is left for the next call to find.
pub(super) fn through_buffer(
    total: usize,
    largest: usize,
    // One copy of this function serves all callers.
    step: &mut dyn FnMut(usize, &mut [u8]) -> Result<Moved>,
) -> Result<usize> {
    let mut small = [0; SMALL];
    let mut large = Vec::new();
    // Without memory for a larger one the small buffer does, too.
    let len = total.min(largest);
    let buffer = if len <= SMALL || fallible::reserve_exact(&mut large, len).is_err() {
        &mut small[..len.min(SMALL)]
    } else {
        large.resize(len, 0);
        &mut large[..]
    };
    let mut done = 0;
    while done < total {
        let piece = buffer.len().min(total - done);
        match step(done, &mut buffer[..piece]) {
            Ok(Moved { moved, end }) => {
                done += moved;
                if end || done < total && sched::breathe() {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}
