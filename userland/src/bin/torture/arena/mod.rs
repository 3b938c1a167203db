//! Threads that map, touch, fork, move, collapse and unmap memory that asks for large folios, in
//! slots which a lock gives to one thread at a time, while all access any of it at any time.
mod crowd;
mod player;
mod slots;

use crate::play::Part;
use player::Player;
use slots::Arena;
use userland::counters::{Missing, figure};
use userland::sys::Result;
use userland::sys::mem::PAGE;

/// A third of the memory that is left, in pages: children copy some of it, and the rest is for
/// their tables and for [`crowd`].
pub fn pages() -> Result<usize> {
    let kb = figure("/proc/meminfo", "MemAvailable").map_err(Missing::say)?;
    Ok(kb as usize * 1024 / PAGE / 3)
}

/// Plays with the threads of this process in so many pages; `alone` if no other process plays.
pub fn play(part: &Part, pages: usize, alone: bool) {
    let arena = Arena::new(pages, part.threads, alone);
    part.run(|player| Player::new(&arena, player).play());
}
