//! Memory that is swapped: put out by MADV_PAGEOUT, and read again.
use crate::copies::RANDOM;
use crate::meter::{Meter, Sample};
use crate::ops::populated;
use crate::region::{DOT, Region};
use userland::measuring::wrong;
use userland::random;
use userland::sys::Result;
use userland::sys::mem::{self, PAGE};

/// Of how many pages one is read where they are read at random.
const SPARSE: usize = 16;

/// What the pages hold.
#[derive(Clone, Copy)]
pub enum Contents {
    /// Each has a half of records as on a heap, which repeats itself, and a half of random bytes.
    Mixed,
    /// All bytes are the same: neither kernel compresses them, or keeps more than that byte.
    Same,
}

impl Contents {
    fn page(self, at: usize) -> [u64; PAGE / 8] {
        match self {
            Contents::Mixed => random::page(at),
            Contents::Same => [u64::from_ne_bytes([DOT; 8]); PAGE / 8],
        }
    }

    fn fill(self, region: &Region) {
        for at in (region.at..region.end()).step_by(PAGE) {
            let words = self.page(at);
            (0..PAGE / 8).for_each(|n| mem::store(at + 8 * n, words[n]));
        }
    }

    fn check(self, region: &Region) -> Result<()> {
        for n in 0..region.pages {
            let (at, words) = (region.page(n), self.page(region.page(n)));
            if let Some(i) = (0..PAGE / 8).find(|i| mem::load(at + 8 * i) != words[*i]) {
                let found = mem::load(at + 8 * i);
                return Err(wrong(&format!(
                    "word {i} of page {n} is {found:#x}, not {:#x}",
                    words[i]
                )));
            }
        }
        Ok(())
    }
}

/// MADV_PAGEOUT of the region.
pub fn pageout(meter: &mut Meter, contents: Contents) -> Result<Sample> {
    let region = filled(meter, contents)?;
    let sample = put_out(meter, &region)?;
    contents.check(&region)?;
    Ok(sample)
}

/// A read of each page after that, in order.
pub fn refault(meter: &mut Meter, contents: Contents) -> Result<Sample> {
    reads(meter, contents, meter.pages, |n, _| n)
}

/// A read of one page in [`SPARSE`], at random.
pub fn sparse(meter: &mut Meter) -> Result<Sample> {
    let pages = 1 << meter.pages.ilog2();
    reads(meter, Contents::Mixed, pages / SPARSE, |n, pages| {
        RANDOM(n, 0, 1 << pages.ilog2())
    })
}

fn reads(
    meter: &mut Meter,
    contents: Contents,
    count: usize,
    nth: fn(usize, usize) -> usize,
) -> Result<Sample> {
    let region = filled(meter, contents)?;
    meter.quietly(|meter| put_out(meter, &region))?;
    let sample = meter.timed(count, || {
        (0..count).for_each(|n| {
            mem::load(region.page(nth(n, region.pages)));
        });
        Ok(())
    })?;
    contents.check(&region)?;
    Ok(sample)
}

fn filled(meter: &Meter, contents: Contents) -> Result<Region> {
    let region = populated(meter, meter.pages)?;
    contents.fill(&region);
    Ok(region)
}

/// Puts the region out: nine tenths of it at least, else what is measured is something else.
fn put_out(meter: &mut Meter, region: &Region) -> Result<Sample> {
    let advice = libc::MADV_PAGEOUT;
    let sample = meter.timed(region.pages, || {
        mem::madvise(region.at, region.len(), advice)
    })?;
    let out = sample.counter("pswpout")?;
    match out * 10 >= 9 * region.pages as u64 {
        true => Ok(sample),
        false => Err(wrong(&format!(
            "{out} of {} pages were put out",
            region.pages
        ))),
    }
}
