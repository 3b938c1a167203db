//! Locked memory (`Mlocked`, `nr_mlock`). It is counted when a file with the figure is read: a
//! fault does no accounting, and where no area is locked, neither does the reader.

use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::sched;
use crate::thp::spaces;
use alloc::vec::Vec;
use mm::addr::{Pfn, VirtAddr, VirtRange};
use mm::frame::Kind;
use mm::vma::VmaFlags;
use mm::{FrameCounts, Mapped};

/// Resident pages in locked areas. A page that several such areas map counts once.
#[derive(Default)]
pub struct Mlocked {
    /// Private pages.
    pub anon: u64,
    /// Pages of files and shared memory.
    pub object: u64,
}

/// Pages in areas that are not locked.
pub struct NotMlocked {
    /// Private pages.
    pub anon: u64,
    /// Pages of files and shared memory.
    pub object: u64,
}

impl Mlocked {
    /// Counts them now. ENOMEM; EINTR when this thread is to end.
    pub fn now() -> Result<Mlocked> {
        let (mut locked, mut any) = (Mlocked::default(), false);
        mm().for_each_space(&mut |space| any |= space.usage().mapped.locked > 0);
        if !any {
            return Ok(locked);
        }
        let mut seen = FrameSet::none()?;
        for space in spaces::all()?.values() {
            let mut at = VirtAddr(0);
            while let Some(vma) = space.upgrade().and_then(|space| space.vma_from(at)) {
                let mut rest = vma.range;
                at = rest.end;
                while vma.flags.contains(VmaFlags::LOCKED) && !rest.is_empty() {
                    let Some(space) = space.upgrade() else { break };
                    let start = space.frames_step(rest, &mut |mapped| {
                        locked.add(&mapped, seen.add(&mapped));
                    });
                    rest = VirtRange { start, ..rest };
                    drop(space);
                    if sched::breathe() {
                        return Err(Errno::EINTR);
                    }
                }
                if sched::breathe() {
                    return Err(Errno::EINTR);
                }
            }
        }
        Ok(locked)
    }

    /// Resident pages in areas that are not locked, of `counts` in all.
    pub fn others(&self, counts: &FrameCounts) -> NotMlocked {
        NotMlocked {
            anon: counts.anon.saturating_sub(self.anon),
            object: counts.object.saturating_sub(self.object),
        }
    }

    /// All locked pages; none of them can be reclaimed.
    pub fn total(&self) -> u64 {
        self.anon + self.object
    }

    fn add(&mut self, mapped: &Mapped, new: u64) {
        match mapped.kind {
            Kind::Anon => self.anon += new,
            _ => self.object += new,
        }
    }
}

/// A set of frames: a bit for each frame of the machine.
struct FrameSet {
    first: Pfn,
    bits: Vec<u64>,
}

impl FrameSet {
    fn none() -> Result<FrameSet> {
        let frames = mm().frames();
        Ok(FrameSet {
            first: frames.span().start,
            bits: fallible::filled(0, frames.span().len().div_ceil(64) as usize)?,
        })
    }

    /// Adds frames; returns how many of them were not in the set.
    fn add(&mut self, mapped: &Mapped) -> u64 {
        let (mut from, mut new) = (mapped.first - self.first, 0);
        let end = from + mapped.pages;
        while from < end {
            let (word, bit) = (&mut self.bits[(from / 64) as usize], from % 64);
            let n = (64 - bit).min(end - from);
            let mask = (u64::MAX >> (64 - n)) << bit;
            new += u64::from((mask & !*word).count_ones());
            *word |= mask;
            from += n;
        }
        new
    }
}
