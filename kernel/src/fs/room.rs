//! Room in memory for what files hold: their pages, inodes and names ([`crate::base::room`]).

use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::base::heap::reserve;
use crate::base::machine::mm;
use crate::base::room;

/// Memory that programs do not use now, for what files hold.
pub trait Reclaim {
    /// Waits until some was stored, which was tried so often before. `false`: none was, or there is
    /// no swap. May sleep.
    fn comes(attempt: u32) -> bool;
}

/// Tries after which others take what is stored for a file: it waits where its pages are allocated.
const ATTEMPTS: u32 = 8;

/// Pages that files may still take: what is free, but for what user memory starts to get short
/// below (the high marks), and what the heap may take for the last of them; and free slots. The end
/// of a program does not give a file's pages back, so what touches its memory next must still find
/// some.
pub fn left_for_files() -> u64 {
    free_for_files() + mm().slots().free()
}

fn free_for_files() -> u64 {
    let kept = room::below(|marks| marks.high) + room::PIECE.pages();
    mm().free_frames().saturating_sub(kept)
}

/// ENOSPC when memory is too short for so many pages of files more, an inode or a name (1), and
/// what is not used now is not enough. May sleep.
pub fn check_files(pages: u64) -> Result {
    let mut attempt = 0;
    while free_for_files() < pages && attempt < ATTEMPTS {
        if pages > left_for_files() || !Above::comes(attempt) {
            return Err(Errno::ENOSPC);
        }
        attempt += 1;
    }
    match pages != 0 && fallible::is_short() && !reserve::refill() {
        true => Err(Errno::ENOSPC),
        false => Ok(()),
    }
}

/// Does what the heap may have no memory for (ENOMEM), and again where some was stored meanwhile.
/// May sleep.
pub fn insist<R>(mut act: impl FnMut() -> Result<R>) -> Result<R> {
    let mut attempt = 0;
    loop {
        let result = act();
        let is_short = matches!(result, Err(Errno::ENOMEM)) && attempt < ATTEMPTS;
        if !is_short || !Above::comes(attempt) {
            return result;
        }
        attempt += 1;
    }
}
