//! `beside`: first writes of as many threads as there are CPUs, each in 2 MiB of its own of one
//! area, against those of one thread in a space of its own.
use crate::crew::{Crew, in_child};
use crate::meter::{Meter, Sample};
use crate::region::{HUGE, Region};
use userland::measuring::wrong;
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{self, PAGE};
use userland::sys::{Errno, Result};

/// A sample for one thread, and one for all CPUs if there are several; only the latter when it is
/// watched.
pub fn run(meter: &mut Meter) -> Result<Vec<Sample>> {
    let (cpus, pages) = (allowed(0)?, meter.pages);
    let mut samples = Vec::new();
    for threads in 1..=cpus.len() {
        if threads == cpus.len() || threads == 1 && !meter.observer.keys {
            let cpus = &cpus[..threads];
            meter.cell.variant = Some(threads);
            samples.push(in_child(meter, pages, |meter| faults(meter, cpus))?);
        }
    }
    Ok(samples)
}

/// With a thread on each of these CPUs, the caller on the first. What it costs them to begin and to
/// end does not count.
fn faults(meter: &mut Meter, cpus: &[usize]) -> Result<Sample> {
    bind(0, &cpus[..1])?;
    let area = Region::map(meter.pages + HUGE / PAGE)?;
    // The first write of an area changes the area.
    mem::store(area.at, 1);
    let region = Region::at(area.at + HUGE, meter.pages);
    let touch = |n: usize| {
        let spans = (region.at..region.end()).step_by(HUGE);
        let mine = spans.skip(n).step_by(cpus.len());
        mine.for_each(|at| mem::store_addresses(at, at + HUGE));
    };
    let empty = meter.quietly(|meter| together(meter, cpus, |_| ()))?;
    let sample = together(meter, cpus, touch)?.beyond(&empty);
    if sample.counter("pgfault")? == 0 {
        return Err(wrong("nothing faulted"));
    }
    region.check_touched()?;
    Ok(sample)
}

/// The work of a thread on each CPU, by its number.
fn together(meter: &mut Meter, cpus: &[usize], work: impl Fn(usize) + Sync) -> Result<Sample> {
    let crew = Crew::of_threads(cpus.len() - 1)?;
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..cpus.len())
            .map(|n| {
                let (crew, work) = (&crew, &work);
                scope.spawn(move || crew.help(cpus[n], || work(n)))
            })
            .collect();
        crew.assemble();
        let sample = meter.timed(meter.pages, || crew.work(|| work(0)));
        crew.dismiss()?;
        for helper in helpers {
            helper.join().map_err(|_| Errno(libc::EIO))??;
        }
        sample
    })
}
