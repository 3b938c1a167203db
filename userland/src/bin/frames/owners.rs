//! Two processes with folios of several sizes.
use crate::words;
use std::collections::BTreeSet;
use std::fs::File;
use userland::controls::Controls;
use userland::measuring::{Child, Line, reserve};
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::{Errno, Result, file};

/// Folio sizes in kB.
pub const SIZES: [usize; 5] = [4, 16, 64, 256, 2048];
/// Of each size, each process has so many bytes of its own, and both have half of that in common.
const OWN: usize = 4 << 20;
/// What one takes before it is the other's turn, unless a folio is larger.
const TURN: usize = 256 << 10;
/// The second one gives back all but one page of each four in so much of each size.
const GIVEN_BACK: usize = OWN / 4;

/// The largest folio: memory begins at a multiple of it.
const HUGE: usize = 2 << 20;

/// pagemap: the page is there; its frame.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// The frames that each process maps: the first one's, the second one's.
pub type Mapped = [BTreeSet<usize>; 2];

/// The memory of one size: `[in common, own]`, by its address.
type Regions = Vec<(usize, [usize; 2])>;

/// The first process, which is this one, and the second, its child.
pub struct Owners {
    regions: Regions,
    child: Child,
}

impl Owners {
    /// Makes the folios; the child waits with its own until [`Owners::end`].
    pub fn make() -> Result<Owners> {
        let controls = Controls::take();
        let mut regions = Regions::new();
        for kb in SIZES {
            if controls.only(kb)? {
                let common = reserve(OWN / 2, HUGE, RW)?;
                mem::store_addresses(common, common + OWN / 2);
                regions.push((kb, [common, reserve(OWN, HUGE, RW)?]));
            }
        }
        let child = Child::start(|line| second(&regions, line))?;
        for &(kb, [_, own]) in &regions {
            controls.only(kb)?;
            for at in turns(own, kb) {
                mem::store_addresses(at, at + TURN.max(kb << 10));
                child.line.round_trip()?;
            }
        }
        // It gives back.
        child.line.round_trip()?;
        Ok(Owners { regions, child })
    }

    /// The frames that both map.
    pub fn mapped(&self) -> Result<Mapped> {
        let of = |pid: String| -> Result<BTreeSet<usize>> {
            let file = File::open(format!("/proc/{pid}/pagemap"))?;
            let mut frames = BTreeSet::new();
            for &(_, [common, own]) in &self.regions {
                for (at, len) in [(common, OWN / 2), (own, OWN)] {
                    let entries = words::some(&file, at / PAGE, len / PAGE)?;
                    let there = entries.iter().filter(|entry| **entry & PRESENT != 0);
                    frames.extend(there.map(|entry| (entry & FRAME) as usize));
                }
            }
            // It hides frame numbers from others than root.
            match frames.contains(&0) {
                true => Err(Errno(libc::EPERM)),
                false => Ok(frames),
            }
        };
        Ok([of("self".to_owned())?, of(self.child.pid.to_string())?])
    }

    /// Ends the child.
    pub fn end(self) -> Result<()> {
        self.child.end()
    }
}

/// What the child does: the same in its turns, as far as the settings that the parent makes say.
fn second(regions: &Regions, line: Line) -> Result<()> {
    for &(kb, [_, own]) in regions {
        for at in turns(own, kb) {
            line.hear()?;
            mem::store_addresses(at, at + TURN.max(kb << 10));
            line.say()?;
        }
    }
    line.hear()?;
    for &(_, [_, own]) in regions {
        let end = own + OWN;
        for at in (end - GIVEN_BACK..end).step_by(4 * PAGE) {
            mem::madvise(at + PAGE, 3 * PAGE, libc::MADV_DONTNEED)?;
        }
    }
    line.say()?;
    // Until the parent has looked: then the pipe ends.
    match file::read(line.from, &mut [0])? {
        0 => Ok(()),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// Where the turns of a region begin.
fn turns(own: usize, kb: usize) -> impl Iterator<Item = usize> {
    (own..own + OWN).step_by(TURN.max(kb << 10))
}
