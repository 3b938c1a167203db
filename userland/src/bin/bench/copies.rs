//! `cow-seq` and `cow-rand`: as many processes as there are CPUs write to each page of a region
//! that they have from one parent, as vm-scalability's anon-cow-seq and anon-cow-rand. One more
//! process keeps the pages, so that each write copies.
use crate::crew::{Crew, in_child};
use crate::meter::{Meter, Sample};
use crate::ops::populated;
use crate::region::{HUGE, Region};
use userland::measuring::{ends_well, wrong};
use userland::sys::Result;
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{self, PAGE};
use userland::sys::proc::child;

/// The page that process `who` writes as its `n`-th, of a number that is a power of two.
pub type Order = fn(n: usize, who: usize, pages: usize) -> usize;

/// One after the other.
pub const SEQUENTIAL: Order = |n, _, _| n;
/// Each process in an order of its own: sums, odd products and shifts to the right lose nothing.
pub const RANDOM: Order = |n, who, pages| {
    const ODD: usize = 0x9e37_79b1;
    let mixed = (n + who * (pages / 3)).wrapping_mul(ODD) % pages;
    let mixed = mixed ^ mixed >> (pages.ilog2() / 2);
    mixed.wrapping_mul(ODD) % pages
};

/// A sample for each page that each of them has copied; all together as many as a region has.
pub fn run(meter: &mut Meter, order: Order) -> Result<Sample> {
    let cpus = allowed(0)?;
    let pages = (meter.pages / cpus.len()).max(HUGE / PAGE);
    let pages = 1 << pages.ilog2();
    in_child(meter, pages * cpus.len(), |meter| {
        let region = populated(meter, pages)?;
        copies(meter, &cpus, &region, order)
    })
}

/// With a process on each of these CPUs, the caller on the first.
fn copies(meter: &mut Meter, cpus: &[usize], region: &Region, order: Order) -> Result<Sample> {
    bind(0, &cpus[..1])?;
    let crew = Crew::of_processes(cpus.len() - 1)?;
    let write = |who: usize| {
        for n in 0..region.pages {
            let at = region.page(order(n, who, region.pages));
            mem::store_bytes(at, at + PAGE, crate::region::DOT);
        }
    };
    let keeper = child(|| crew.rest().and_then(|()| region.check_touched()))?;
    let mut children = vec![keeper];
    for (who, cpu) in cpus.iter().enumerate().skip(1) {
        children.push(child(|| {
            crew.help(*cpu, || write(who))?;
            region.check_dotted()
        })?);
    }
    crew.assemble();
    let sample = meter.timed(region.pages * cpus.len(), || crew.work(|| write(0)))?;
    crew.dismiss()?;
    children.into_iter().try_for_each(ends_well)?;
    region.check_dotted()?;
    // Other kernels do not count it.
    let copied = meter.names.contains(&"pages_copied");
    if copied && sample.counter("pages_copied")? < sample.pages {
        return Err(wrong("not every page was copied"));
    }
    Ok(sample)
}
