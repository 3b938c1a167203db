//! Large folios of which one page was replaced by a single frame at the very end of memory, or
//! before a hole in it: the frames around that one are no folio's, or do not exist. A fault that
//! copies what lies around it must not take them for its own.
use super::Outcome;
use userland::controls::Controls;
use userland::counters::{Missing, free_frames};
use userland::sys::mem::{ANON, PAGE, RW, byte, madvise, mmap, munmap, pagemap, store};
use userland::sys::proc::{self, Fork, Status};

const MIB: usize = 1 << 20;
/// Folios that get a foreign page.
const BLOCKS: usize = 10;
/// Frames below this lie beside x86_64's hole for firmware.
const LOW: u64 = 0xa0;
/// As many frames at the end of memory are of interest.
const HIGH: u64 = 200;
const FRAME: u64 = (1 << 55) - 1;

/// The pages that are written by the child: the foreign one is page 0.
const WRITTEN: usize = 5;

/// Large folios at both edges of memory, a page of each displaced, and written by a child.
pub fn displaced_folios(_: &[String]) -> Outcome {
    displace().map_err(|error| format!("{error}"))?
}

fn displace() -> userland::sys::Result<Outcome> {
    let controls = Controls::take();
    controls.only(1024)?;
    let blocks = mmap(0, 2 * BLOCKS * MIB, RW, ANON, -1, 0)?.next_multiple_of(MIB);
    touch(blocks, BLOCKS * MIB);
    controls.only(4)?;
    let len = free_frames().map_err(Missing::say)? as usize / 20 * 19 * PAGE;
    let singles = mmap(0, len, RW, ANON, -1, 0)?;
    touch(singles, len);
    controls.only(1024)?;

    let frames: Vec<u64> = pagemap(singles, len / PAGE)?
        .iter()
        .map(|e| e & FRAME)
        .collect();
    let last = frames.iter().copied().max().unwrap_or(0);
    let at = |edge: &dyn Fn(u64) -> bool| {
        let pages = frames.iter().enumerate().filter(|(_, frame)| edge(**frame));
        pages
            .map(|(index, _)| index)
            .take(BLOCKS / 2)
            .collect::<Vec<_>>()
    };
    let mut chosen = at(&|frame| frame + HIGH > last);
    chosen.extend(at(&|frame| frame < LOW));
    let mut displaced = 0;
    for index in chosen {
        let block = blocks + displaced * MIB;
        madvise(block, PAGE, libc::MADV_DONTNEED)?;
        // The frame that was freed last is the first to be used again.
        madvise(singles + index * PAGE, PAGE, libc::MADV_DONTNEED)?;
        store(block, 7);
        displaced += 1;
    }
    munmap(singles, len)?;
    let status = match proc::fork()? {
        Fork::Child => {
            (0..displaced).for_each(|n| store(blocks + n * MIB + WRITTEN * PAGE, 2));
            let right = |n: usize| {
                let block = blocks + n * MIB;
                byte(block) == 7 && byte(block + WRITTEN * PAGE) == 2 && byte(block + PAGE) == 1
            };
            proc::exit_now(i32::from(!(0..displaced).all(right)))
        }
        Fork::Parent(child) => proc::wait_for(child)?,
    };
    Ok(match status {
        Status::Exited(0) if displaced > 0 => Ok(format!("{displaced} folios with a foreign page")),
        Status::Exited(0) => Err("no frame at an edge of memory was found".to_owned()),
        other => Err(format!("the child that wrote them ended with {other:?}")),
    })
}

fn touch(start: usize, len: usize) {
    (start..start + len)
        .step_by(PAGE)
        .for_each(|at| store(at, 1));
}
