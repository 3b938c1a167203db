//! The operations on one region, each as a function that does it once and returns what it cost.
use crate::meter::{Meter, Sample};
use crate::region::{Region, reserve};
use userland::measuring::{Line, ends_well, wrong};
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::proc;
use userland::sys::{Result, call};

/// A way to write to pages of a region, and what it holds then.
pub struct Write {
    act: fn(&Region) -> Result<()>,
    check: fn(&Region) -> Result<()>,
    /// One of so many pages is written.
    step: usize,
}

/// All of it.
pub const FILL: Write = Write {
    act: Region::fill,
    check: Region::check_filled,
    step: 1,
};
/// One byte.
pub const DOT: Write = Write {
    act: Region::dot,
    check: Region::check_dotted,
    step: 1,
};
/// One byte of each 64 kB.
pub const OF_64K: Write = sparse::<16>();
/// One byte of each 2 MiB.
pub const OF_2M: Write = sparse::<512>();

const fn sparse<const STEP: usize>() -> Write {
    Write {
        act: |region| region.dot_one_of(STEP),
        check: |region| region.check_one_of(STEP),
        step: STEP,
    }
}

/// A region whose pages are all there, mapped as the meter wants them.
pub fn populated(meter: &Meter, pages: usize) -> Result<Region> {
    populate(meter, Region::map(pages)?)
}

fn populate(meter: &Meter, region: Region) -> Result<Region> {
    region.touch()?;
    if meter.by_ptes {
        region.map_by_ptes()?;
    }
    Ok(region)
}

/// The first write to each page.
pub fn fault(meter: &mut Meter, pages: usize) -> Result<Sample> {
    let region = Region::map(pages)?;
    let sample = meter.timed(pages, || region.touch())?;
    region.check_touched()?;
    Ok(sample)
}

/// mprotect of one page of each 2 MiB.
pub fn remap(meter: &mut Meter) -> Result<Sample> {
    let region = Region::map(meter.pages)?;
    region.touch()?;
    let sample = meter.timed(meter.pages, || region.protect_one_of_each(libc::PROT_READ))?;
    region.check_touched()?;
    Ok(sample)
}

/// munmap of the whole region.
pub fn unmap(meter: &mut Meter) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let sample = meter.timed(meter.pages, || mem::munmap(region.at, region.len()))?;
    region.check_gone()?;
    Ok(sample)
}

/// The fork call, in the parent.
pub fn fork(meter: &mut Meter, pages: usize) -> Result<Sample> {
    let region = populated(meter, pages)?;
    fill_list()?;
    let sample = forked(meter, &region)?;
    region.check_touched()?;
    Ok(sample)
}

/// Leaves single pages in the kernel's list of this CPU: else it were chance whether a fork, which
/// takes a few for page tables, has to fill it.
fn fill_list() -> Result<()> {
    const SPARE: usize = 512;
    let at = mem::anon(SPARE)?;
    // Fails on a kernel without huge pages.
    let _ = mem::madvise(at, SPARE * PAGE, libc::MADV_NOHUGEPAGE);
    (0..SPARE).for_each(|page| mem::store(at + page * PAGE, 1));
    mem::munmap(at, SPARE * PAGE)
}

/// What a fork counts for the region alone: what it counts with less what it counts without. The
/// program's own folios come and go meanwhile, for it breaks up large ones when it writes to them
/// while a child lives: what is seen three times counts.
pub fn updates(meter: &mut Meter) -> Result<Sample> {
    const COUNTERS: [&str; 2] = ["account_updates", "account_atomics"];
    const ENOUGH: usize = 3;
    let (none, pages) = (Region::map(0)?, meter.pages);
    let mut seen = Vec::with_capacity(8 * ENOUGH);
    while seen.len() < seen.capacity() {
        let mut forked = |region: &Region| -> Result<[u64; 2]> {
            let sample = meter.quietly(|meter| forked(meter, region))?;
            Ok([sample.counter(COUNTERS[0])?, sample.counter(COUNTERS[1])?])
        };
        let without = forked(&none)?;
        let region = Region::map(pages)?;
        region.touch()?;
        let with = forked(&region)?;
        drop(region);
        let [updates, atomics] = [0, 1].map(|n: usize| with[n].saturating_sub(without[n]));
        seen.push((updates, atomics));
        if seen
            .iter()
            .filter(|one| **one == (updates, atomics))
            .count()
            == ENOUGH
        {
            return Ok(Sample {
                ns: updates,
                pages: 0,
                vmas: None,
                counters: vec![(COUNTERS[1], atomics)],
            });
        }
    }
    Err(wrong("the program's own folios never stay as they are"))
}

/// The fork call, in the parent; the child looks at the region and ends.
fn forked(meter: &mut Meter, region: &Region) -> Result<Sample> {
    let (ours, theirs) = Line::pair()?;
    let mut pid = 0;
    let sample = meter.timed(region.pages, || {
        pid = clone()?;
        if pid == 0 {
            keep(theirs, region)
        }
        Ok(())
    })?;
    ours.hear()?;
    end(pid, [ours, theirs])?;
    Ok(sample)
}

/// Writes to pages while a child lives that has the same ones; the child keeps its contents.
pub fn cow(meter: &mut Meter, write: Write) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let (ours, theirs) = Line::pair()?;
    let pid = clone()?;
    if pid == 0 {
        keep(theirs, &region)
    }
    ours.hear()?;
    let written = meter.pages.div_ceil(write.step);
    let sample = meter.timed(written, || (write.act)(&region))?;
    (write.check)(&region)?;
    end(pid, [ours, theirs])?;
    (write.check)(&region)?;
    Ok(sample)
}

/// A write to each page after a fork whose child has ended.
pub fn reuse(meter: &mut Meter, write: Write) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let pid = clone()?;
    if pid == 0 {
        proc::exit_now(0);
    }
    proc::wait_for(pid)?;
    let sample = meter.timed(meter.pages, || (write.act)(&region))?;
    (write.check)(&region)?;
    Ok(sample)
}

/// The whole life of a child that writes to each page: fork, writes, end.
pub fn child_writes(meter: &mut Meter) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let sample = meter.timed(meter.pages, || {
        let pid = clone()?;
        if pid == 0 {
            let written = (DOT.act)(&region).is_ok();
            proc::exit_now(if written { 0 } else { 1 })
        }
        ends_well(pid)
    })?;
    region.check_touched()?;
    Ok(sample)
}

/// MADV_DONTNEED page by page.
pub fn dontneed(meter: &mut Meter) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let sample = meter.timed(meter.pages, || {
        (0..region.pages).try_for_each(|n| mem::madvise(region.page(n), PAGE, libc::MADV_DONTNEED))
    })?;
    region.check(|_| 0, |_| 0)?;
    Ok(sample)
}

/// One call that moves the whole region.
pub fn mremap(meter: &mut Meter) -> Result<Sample> {
    // Source and target under one table, whatever addresses the program gets.
    let at = reserve(2 * meter.pages, RW)?;
    let to = at + meter.pages * PAGE;
    mem::mprotect(to, meter.pages * PAGE, libc::PROT_NONE)?;
    let old = populate(meter, Region::at(at, meter.pages))?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let sample = meter.timed(0, || {
        mem::mremap(old.at, old.len(), old.len(), flags, to).map(|_| ())
    })?;
    let new = Region {
        at: to,
        origin: old.at,
        pages: old.pages,
    };
    new.check_touched()?;
    old.check_gone()?;
    Ok(sample)
}

/// A bare fork, without a library's work before and after: 0 in the child.
pub fn clone() -> Result<i32> {
    call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]).map(|pid| pid as i32)
}

/// What a child does that lives meanwhile: it says that it is there, waits for a message, then
/// checks whether its memory is as it was at the fork.
fn keep(line: Line, region: &Region) -> ! {
    let sound = line.round_trip().and_then(|()| region.check_touched());
    proc::exit_now(i32::from(sound.is_err()))
}

/// Ends such a child, whose memory must not have changed.
fn end(pid: i32, ends: [Line; 2]) -> Result<()> {
    ends[0].say()?;
    ends_well(pid)?;
    ends.into_iter().try_for_each(Line::close)
}
