//! Memory becomes crowded: single pages take nearly all of it, so that what is touched then gets
//! the frames that are left, at the ends of RAM and beside its holes among them.
use super::slots::{Arena, BLOCK, SLOT};
use crate::page::Stamp;
use userland::counters::{Missing, figure, on_quire};
use userland::random::Random;
use userland::sys::Result;
use userland::sys::mem::{ANON, PAGE, RW, madvise, mmap, munmap};

/// Pages that stay free: tables and the kernel need some.
const LEFT: usize = 1024;
/// Pages that are touched anew while there are no others.
const TOUCHED: usize = 64;

/// A line of /proc/meminfo, in pages.
fn pages(line: &str) -> Result<usize> {
    let kb = figure("/proc/meminfo", line).map_err(Missing::say)?;
    Ok(kb as usize * 1024 / PAGE)
}

/// Whether this machine is ours to fill: on any other kernel it would hurt others.
pub fn allowed() -> bool {
    on_quire()
}

/// Fills memory, gives pages of the arena frames that are left, and frees what it took. The caller
/// has the world alone.
pub fn crowd(arena: &Arena, random: &mut Random, mut stamp: impl FnMut() -> Stamp) -> Result<()> {
    // More than is free now: pages that nobody maps come back when folios are split for want of
    // memory.
    let most = pages("MemTotal")? * PAGE;
    let at = mmap(0, most, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    madvise(at, most, libc::MADV_NOHUGEPAGE)?;
    let mut end = at;
    // Half of what may go, again and again: page tables take some of it.
    while let left = pages("MemFree")?
        && left > LEFT
    {
        let len = (left - LEFT).div_ceil(2) * PAGE;
        madvise(end, len, libc::MADV_POPULATE_WRITE)?;
        end += len;
    }
    for _ in 0..TOUCHED {
        let mut slot = arena.slot(random.below(arena.len() as u64) as usize);
        // Where folios begin.
        let page = random.below((SLOT / BLOCK) as u64) as usize * BLOCK;
        if slot.mapped(page..page + 1).next().is_some() {
            slot.discard(page..page + 1);
            slot.touch(page, stamp());
        }
    }
    munmap(at, most)
}
