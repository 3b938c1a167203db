//! Rights of a whole region, and its folios made large.
use crate::meter::{Meter, Sample};
use crate::ops::populated;
use crate::region::{HUGE, Region};
use userland::counters::{Missing, figure};
use userland::measuring::wrong;
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::{Errno, Result, call};

/// mprotect of the region, which may no longer be written to.
pub fn protect(meter: &mut Meter) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let sample = meter.timed(meter.pages, || {
        mem::mprotect(region.at, region.len(), libc::PROT_READ)
    })?;
    region.check_touched()?;
    check_writable(&region, false)?;
    Ok(sample)
}

/// mprotect of the region, which may be written to again.
pub fn unprotect(meter: &mut Meter) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    mem::mprotect(region.at, region.len(), libc::PROT_READ)?;
    let sample = meter.timed(meter.pages, || mem::mprotect(region.at, region.len(), RW))?;
    region.check_touched()?;
    region.dot()?;
    region.check_dotted()?;
    Ok(sample)
}

/// Whether the kernel writes there on demand, at both ends.
fn check_writable(region: &Region, expected: bool) -> Result<()> {
    for page in [0, region.pages - 1] {
        // The time has room in the second half, whose zeros nothing needs any more.
        let to = region.page(page) + PAGE / 2;
        let clock = libc::CLOCK_MONOTONIC as usize;
        let written = match call(libc::SYS_clock_gettime, [clock, to, 0, 0, 0, 0]) {
            Ok(_) => true,
            Err(Errno(libc::EFAULT)) => false,
            Err(error) => return Err(error),
        };
        if written != expected {
            return Err(wrong(&format!("page {page} was written to: {written}")));
        }
    }
    Ok(())
}

/// MADV_COLLAPSE of each 2 MiB.
pub fn collapse(meter: &mut Meter) -> Result<Sample> {
    let region = Region::map(meter.pages)?;
    region.touch()?;
    let before = in_large_folios()?;
    let sample = meter.timed(meter.pages, || collapse_all(&region))?;
    let kb = in_large_folios()?.saturating_sub(before);
    if kb << 10 != region.len() as u64 {
        return Err(wrong(&format!("{kb} kB are mapped by PMDs")));
    }
    region.check_touched()?;
    Ok(sample)
}

fn collapse_all(region: &Region) -> Result<()> {
    let mut spans = (region.at..region.end()).step_by(HUGE);
    spans.try_for_each(|at| mem::madvise(at, HUGE, mem::MADV_COLLAPSE))
}

/// Why there is no [`collapse`] here.
pub fn no_collapse() -> Option<String> {
    let tried = Region::map(HUGE / PAGE).and_then(|region| {
        region.touch()?;
        collapse_all(&region)
    });
    let refused = |error| format!("madvise(MADV_COLLAPSE) says {error}");
    tried.err().map(refused)
}

/// All memory compacted, of which 64 kB in a row of four are left; for each page that is moved.
pub fn compact(meter: &mut Meter) -> Result<Sample> {
    const ROW: usize = 64 << 10;
    let region = populated(meter, meter.pages)?;
    let mut rows = (region.at..region.end()).step_by(4 * ROW);
    rows.try_for_each(|at| mem::madvise(at + ROW, 3 * ROW, libc::MADV_DONTNEED))?;
    let moved = || figure("/proc/vmstat", "pgmigrate_success").map_err(Missing::say);
    let (before, all) = (moved()?, "/proc/sys/vm/compact_memory");
    let sample = meter.timed(meter.pages, || Ok(std::fs::write(all, "1")?))?;
    let pages = moved()? - before;
    let some = (pages != 0).then_some(Sample { pages, ..sample });
    some.ok_or_else(|| wrong("no pages were moved"))
}

/// Memory of this process that is mapped by PMDs, in kB.
fn in_large_folios() -> Result<u64> {
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let lines = smaps
        .lines()
        .filter_map(|line| line.strip_prefix("AnonHugePages:"));
    Ok(lines
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .sum())
}
