//! Admission control for objects that programs make the kernel keep: inodes, open files, bytes in
//! pipes. They are on the kernel's heap, which must not run out, so new ones are refused while
//! there is still memory left.

use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::base::heap::reserve;
use crate::base::machine::mm;
use mm::addr::Order;
use mm::frame::zone::Marks;

/// The most that is left, in frames: 2 MiB.
const MOST: u64 = 512;

/// Frames below a mark of every zone, together.
fn below(mark: impl Fn(&Marks) -> u64) -> u64 {
    let zones = mm().allocator().zones();
    zones.iter().map(|zone| mark(&zone.marks())).sum()
}

/// Frames that are left for the kernel's own needs: half of what user memory leaves, 2 MiB at the
/// most.
fn reserve() -> u64 {
    (below(|marks| marks.min) / 2).clamp(32, MOST)
}

/// Whether `pages` can be taken so that enough is left.
pub fn leaves_enough(pages: u64) -> bool {
    let leaves = |frames: u64| mm().has_free_frames(pages.saturating_add(frames));
    leaves(MOST) || leaves(reserve())
}

/// What the kernel's heap takes at once if it can, 1 MiB: one growth in hundreds of allocations.
pub const PIECE: Order = Order(8);

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
    let kept = below(|marks| marks.high) + PIECE.pages();
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

/// `errno` when memory is too short for another object.
pub fn check(errno: Errno) -> Result {
    if fallible::is_short() || !leaves_enough(0) {
        Err(errno)
    } else {
        Ok(())
    }
}
