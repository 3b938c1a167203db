//! Calls about little beside much memory that is there: single pages, folios that are partly
//! mapped, areas, a neighbour that dies. As in [`super::hang`], none may keep the machine.
use super::Outcome;
use super::watch::{Case, run};
use std::fs;
use userland::counters::figure;
use userland::sys::mem::{ANON, PAGE, RW, load, madvise, mmap, mremap, munmap, pagemap, store};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, call, file};

/// Of a machine with 256 MiB.
const MUCH: usize = 96 << 20;
const HUGE: usize = 2 << 20;
const AREAS: usize = 20_000;
/// MADV_SOFT_OFFLINE, which the C library does not name.
const SOFT_OFFLINE: i32 = 101;
/// A case that takes so many ns is to be killed.
const PATIENCE: u64 = 2_000_000_000;

const CASES: &[Case] = &[
    Case {
        name: "displaced",
        act: displaced,
    },
    Case {
        name: "partly_mapped",
        act: partly_mapped,
    },
    Case {
        name: "owner",
        act: owner,
    },
    Case {
        name: "score",
        act: score,
    },
    Case {
        name: "offline",
        act: offline,
    },
    Case {
        name: "dying",
        act: dying,
    },
    Case {
        name: "file",
        act: a_file,
    },
];

/// Single pages, all of which are there.
fn pages(len: usize) -> Result<usize> {
    let at = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    madvise(at, len, libc::MADV_NOHUGEPAGE)?;
    (at..at + len).step_by(PAGE).for_each(|page| store(page, 1));
    Ok(at)
}

/// A child that does this and ends.
fn child(act: impl FnOnce()) -> Result<i32> {
    match proc::fork()? {
        Fork::Child => {
            act();
            proc::exit_now(0)
        }
        Fork::Parent(pid) => Ok(pid),
    }
}

fn until_killed() {
    let _ = call(libc::SYS_ppoll, [0; 6]);
}

/// Pages of zeros that stand otherwise in their tables after a move.
fn displaced() -> Result<()> {
    let len = 8 * MUCH;
    let room = |prot| mmap(0, len + HUGE, prot, ANON | libc::MAP_NORESERVE, -1, 0);
    let at = room(RW)?.next_multiple_of(HUGE);
    madvise(at, len, libc::MADV_NOHUGEPAGE)?;
    for page in (at..at + len - HUGE).step_by(PAGE) {
        load(page);
    }
    let to = room(libc::PROT_NONE)?.next_multiple_of(HUGE) + 3 * PAGE;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let len = len - 2 * HUGE;
    mremap(at, len, len, flags, to).map(drop)
}

/// Folios that are to be split when memory is short.
fn partly_mapped() -> Result<()> {
    let at = mmap(0, MUCH + HUGE, RW, ANON, -1, 0)?.next_multiple_of(HUGE);
    madvise(at, MUCH, libc::MADV_HUGEPAGE)?;
    for folio in (at..at + MUCH).step_by(HUGE) {
        store(folio, 1);
        madvise(folio + 7 * PAGE, PAGE, libc::MADV_DONTNEED)?;
    }
    let splits = || figure("/proc/vmstat", "thp_split_page").unwrap_or(0);
    let before = splits();
    // It takes all there is, and ends or is killed.
    let pid = child(|| {
        let len = 4 * MUCH;
        let Ok(at) = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0) else {
            return;
        };
        let _ = madvise(at, len, libc::MADV_NOHUGEPAGE);
        let mut pages = (at..at + len).step_by(PAGE);
        while let Some(page) = pages.next()
            && (page % HUGE != 0 || splits() == before)
        {
            store(page, 1);
        }
    })?;
    proc::wait_for(pid).map(drop)
}

/// /proc/kpageowner of one page, whose owner is searched.
fn owner() -> Result<()> {
    let at = pages(MUCH)?;
    let pid = child(|| ())?;
    proc::wait_for(pid)?;
    (at..at + MUCH)
        .step_by(PAGE)
        .for_each(|page| store(page, 2));
    let last = at + MUCH - PAGE;
    let frame = pagemap(last, 1)?
        .first()
        .map_or(0, |word| word & ((1 << 55) - 1));
    if let Ok(fd) = file::open("/proc/kpageowner", libc::O_RDONLY, 0) {
        file::pread(fd, &mut [0; 8], frame as i64 * 8)?;
        file::close(fd)?;
    }
    Ok(())
}

/// Very many areas of one file.
fn areas_of(fd: i32) -> Result<()> {
    file::ftruncate(fd, PAGE as i64)?;
    (0..AREAS).try_for_each(|_| mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0).map(drop))
}

/// /proc/PID/oom_score of a process with many areas.
fn score() -> Result<()> {
    areas_of(file::memfd(0)?)?;
    let text = fs::read_to_string("/proc/self/oom_score");
    text.map(drop).map_err(|_| Errno(libc::EIO))
}

/// Memory that fails, or is taken out of use, while a neighbour has much.
fn offline() -> Result<()> {
    let (hear, tell) = file::pipe(0)?;
    let neighbour = child(|| {
        let _ = pages(MUCH);
        let _ = file::write(tell, &[1]);
        until_killed();
    })?;
    file::read(hear, &mut [0])?;
    let at = pages(4 * PAGE)?;
    let sharer = child(until_killed)?;
    let _ = madvise(at, PAGE, SOFT_OFFLINE);
    let _ = madvise(at + PAGE, PAGE, libc::MADV_HWPOISON);
    for pid in [neighbour, sharer] {
        proc::kill(pid, libc::SIGKILL)?;
        proc::wait_for(pid)?;
    }
    munmap(at, 4 * PAGE)
}

/// A file is truncated while a process that has it in many areas dies.
fn dying() -> Result<()> {
    for _ in 0..3 {
        let fd = file::memfd(0)?;
        let (hear, tell) = file::pipe(0)?;
        let pid = child(|| {
            let _ = areas_of(fd).and_then(|()| pages(MUCH / 2));
            let _ = file::write(tell, &[1]);
            until_killed();
        })?;
        file::read(hear, &mut [0])?;
        proc::kill(pid, libc::SIGKILL)?;
        file::ftruncate(fd, 0)?;
        proc::wait_for(pid)?;
        for fd in [fd, hear, tell] {
            file::close(fd)?;
        }
    }
    Ok(())
}

/// A file with many pages: made, mapped, looked through, cut.
fn a_file() -> Result<()> {
    let fd = file::memfd(0)?;
    file::fallocate(fd, 0, 0, MUCH)?;
    let at = mmap(0, MUCH, RW, libc::MAP_SHARED, fd, 0)?;
    madvise(at, MUCH, libc::MADV_POPULATE_WRITE)?;
    file::lseek(fd, 0, libc::SEEK_HOLE)?;
    file::fallocate(fd, file::PUNCH, PAGE, MUCH - 2 * PAGE)?;
    file::lseek(fd, PAGE as i64, libc::SEEK_DATA)?;
    file::ftruncate(fd, 0)?;
    file::close(fd)
}

/// All cases, or those that are named.
pub fn calls(names: &[String]) -> Outcome {
    run("memory", CASES, PATIENCE, names)
}
