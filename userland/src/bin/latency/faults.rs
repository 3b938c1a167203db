//! Events that begin with a write to memory: one write to each folio.
use crate::memory::Memory;
use crate::times::{Summary, Times};
use userland::counters::{Missing, figure};
use userland::measuring::{Child, Line, wrong};
use userland::random;
use userland::sys::mem::{PAGE, RW, store};
use userland::sys::{Result, fault, file};

/// MiB that are mapped at a time.
const ROUND: usize = 32;

/// Takes samples, one for each folio of a memory, and of another memory when they are not enough.
fn in_rounds(samples: usize, mut round: impl FnMut(&mut Times) -> Result<()>) -> Result<Summary> {
    let mut times = Times::new(samples);
    while !times.full() {
        round(&mut times)?;
    }
    times.summary()
}

/// Writes to each folio as long as samples are wanted.
fn write_each(times: &mut Times, memory: &Memory, kb: usize) -> Result<()> {
    for at in memory.each(kb) {
        if times.full() {
            break;
        }
        times.take(|| store(at, 2))?;
    }
    Ok(())
}

/// A child that has run and waits: it would do so in the middle of a sample.
fn waiting() -> Result<Child> {
    let child = Child::start(Line::echo)?;
    child.line.round_trip()?;
    Ok(child)
}

/// The first touch.
pub fn first(samples: usize, kb: usize) -> Result<Summary> {
    in_rounds(samples, |times| {
        times.warm()?;
        write_each(times, &Memory::map(ROUND)?, kb)
    })
}

/// The first touch while memory is full: something must be stored before. There is swap.
pub fn reclaimed(samples: usize, kb: usize) -> Result<Summary> {
    let free = figure("/proc/meminfo", "MemAvailable").map_err(Missing::say)?;
    let full = Memory::map((free as usize >> 11 << 1) + 8)?;
    for page in full.each(PAGE >> 10) {
        let words = random::page(page);
        (0..words.len()).for_each(|n| store(page + 8 * n, words[n]));
    }
    let mut touched = Vec::new();
    in_rounds(samples, |times| {
        let memory = Memory::map(ROUND)?;
        times.warm()?;
        write_each(times, &memory, kb)?;
        touched.push(memory);
        Ok(())
    })
}

/// A write to a page of a child's and ours, which is copied.
pub fn copied(samples: usize, kb: usize) -> Result<Summary> {
    in_rounds(samples, |times| {
        let memory = Memory::filled(ROUND)?;
        let child = waiting()?;
        times.warm()?;
        write_each(times, &memory, kb)?;
        child.end()
    })
}

/// A write to a page that a child had, too, and that is ours alone now.
pub fn reused(samples: usize, kb: usize) -> Result<Summary> {
    in_rounds(samples, |times| {
        let memory = Memory::filled(ROUND)?;
        waiting()?.end()?;
        times.warm()?;
        write_each(times, &memory, kb)
    })
}

/// A write to a page that the kernel has write-protected to see the next write: soft-dirty
/// tracking, as checkpoints and moving collectors use it. Without it, as on Linux for arm64, no
/// fault comes.
pub fn tracked(samples: usize, kb: usize) -> Result<Summary> {
    let clear = file::open("/proc/self/clear_refs", libc::O_WRONLY | libc::O_CLOEXEC, 0)?;
    let summary = in_rounds(samples, |times| {
        let memory = Memory::filled(ROUND)?;
        file::write_all(clear, b"4")?;
        times.warm()?;
        write_each(times, &memory, kb)
    });
    file::close(clear)?;
    summary
}

/// A write that mprotect(2) forbids, until the handler of its SIGSEGV is done.
pub fn signalled(samples: usize, kb: usize) -> Result<Summary> {
    fault::arm();
    in_rounds(samples, |times| {
        let memory = Memory::filled(ROUND)?;
        memory.protect(libc::PROT_READ)?;
        times.warm()?;
        for at in memory.each(kb) {
            if times.full() {
                break;
            }
            if times.take(|| fault::write(at, 3))?.is_ok() {
                return Err(wrong("a write to read-only memory was done"));
            }
        }
        memory.protect(RW)
    })
}
