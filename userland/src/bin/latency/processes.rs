//! Events of processes: fork, and the switch from one to the other.
use crate::memory::Memory;
use crate::times::{Summary, Times};
use userland::measuring::{Child, Line, ends_well, wrong};
use userland::sys::Result;
use userland::sys::proc::{self, Fork};

/// MiB that a process has that forks or is switched to.
pub const SIZE: usize = 8;

/// The fork call of a process all of whose memory is writable, in the parent.
pub fn fork(samples: usize, _kb: usize) -> Result<Summary> {
    of_writable(samples, |times| match times.take(proc::fork)?? {
        Fork::Child => proc::exit_now(0),
        Fork::Parent(pid) => ends_well(pid),
    })
}

/// Fork, the end of the child, and wait: the whole life of a process.
pub fn life(samples: usize, _kb: usize) -> Result<Summary> {
    of_writable(samples, |times| {
        times.take(|| match proc::fork()? {
            Fork::Child => proc::exit_now(0),
            Fork::Parent(pid) => ends_well(pid),
        })?
    })
}

/// Samples in a process all of whose memory is writable at the beginning of each.
fn of_writable(
    samples: usize,
    mut sample: impl FnMut(&mut Times) -> Result<()>,
) -> Result<Summary> {
    let memory = Memory::filled(SIZE)?;
    let mut times = Times::new(samples);
    while !times.full() {
        sample(&mut times)?;
        times.warm()?;
        memory.fill();
    }
    times.summary()
}

/// A byte through a pipe to another process and one back: two switches between address spaces.
pub fn switch(samples: usize, _kb: usize) -> Result<Summary> {
    let _memory = Memory::filled(SIZE)?;
    let child = Child::start(Line::echo)?;
    let summary = round_trips(samples, child.line)?;
    child.end()?;
    Ok(summary)
}

/// The same between two threads: the address space stays.
pub fn threads(samples: usize, _kb: usize) -> Result<Summary> {
    let _memory = Memory::filled(SIZE)?;
    let (ours, theirs) = Line::pair()?;
    let thread = std::thread::spawn(move || theirs.echo());
    let summary = round_trips(samples, ours)?;
    ours.close()?;
    thread
        .join()
        .map_err(|_| wrong("the other thread has panicked"))??;
    theirs.close()?;
    Ok(summary)
}

fn round_trips(samples: usize, line: Line) -> Result<Summary> {
    let mut times = Times::new(samples);
    times.warm()?;
    for _ in 0..8 {
        line.round_trip()?;
    }
    while !times.full() {
        times.take(|| line.round_trip())??;
    }
    times.summary()
}
