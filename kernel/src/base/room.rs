//! Admission control for objects that programs make the kernel keep: inodes, open files, bytes in
//! pipes. They are on the kernel's heap, which must not run out, so new ones are refused while
//! there is still memory left.

use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use mm::addr::Order;
use mm::frame::zone::Marks;

/// The most that is left, in frames: 2 MiB.
const MOST: u64 = 512;

/// Frames below a mark of every zone, together.
pub fn below(mark: impl Fn(&Marks) -> u64) -> u64 {
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

/// `errno` when memory is too short for another object.
pub fn check(errno: Errno) -> Result {
    if fallible::is_short() || !leaves_enough(0) {
        Err(errno)
    } else {
        Ok(())
    }
}
