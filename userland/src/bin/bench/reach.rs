//! Reads at random over a region, of which each decides where the next one goes: what the reach of
//! a TLB decides. The addresses and what is read there are known beforehand.
use crate::meter::{Meter, Sample};
use crate::region::Region;
use userland::measuring::wrong;
use userland::random::Random;
use userland::sys::Result;
use userland::sys::mem;

/// How many reads there are.
const READS: usize = 1 << 20;
/// Bytes between two places that are read: a line of any cache here.
const LINE: usize = 64;

/// A sample for each read. Folios of 2 MiB are mapped by PMDs.
pub fn run(meter: &mut Meter, pages: usize) -> Result<Sample> {
    let region = Region::map(pages)?;
    region.touch()?;
    region.fill()?;
    let expected = walk(&region, |at| region.painted(at));
    let mut sum = 0;
    let sample = meter.timed(READS, || {
        sum = walk(&region, mem::load);
        Ok(())
    })?;
    if sum != expected {
        return Err(wrong(&format!(
            "the sum of what was read is {sum:#x}, not {expected:#x}"
        )));
    }
    Ok(sample)
}

/// The sum of what is read. A region has a power of two of pages.
#[inline(never)]
fn walk(region: &Region, read: impl Fn(usize) -> u64) -> u64 {
    let mask = region.len() / LINE - 1;
    let mut random = Random::new(1);
    let (mut last, mut sum) = (0, 0u64);
    for _ in 0..READS {
        let line = (random.bits() ^ last) as usize & mask;
        last = read(region.at + line * LINE);
        sum = sum.rotate_left(5) ^ last;
    }
    sum
}
