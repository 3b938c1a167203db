//! Calls over 60 TB that are empty or nearly so, and over all memory that there is. None may keep
//! the machine: another process runs meanwhile, the caller can be killed, and (with the clock
//! counting instructions) the kernel's own record of its longest stretches stays within limits.
use super::Outcome;
use super::watch::{Case, run};
use std::fs;
use userland::sys::mem::{
    ANON, MADV_COLLAPSE, PAGE, RW, madvise, mmap, mprotect, mremap, munmap, store,
};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, call, time};

const GIB: usize = 1 << 30;
/// All that is mapped at once: as much as fits below a program in the middle.
const FAR: usize = 60_000 * GIB;
/// Of which every page is an area.
const STRIPES: usize = 20_000 * PAGE;
/// Between two pages that are touched of it.
const STRIDE: usize = 64 * GIB;
/// Real memory, of a machine that has 256 MiB.
const NEAR: usize = 96 << 20;
/// MLOCK_ONFAULT.
const ONFAULT: usize = 1;
/// A call that takes so many ns is to be killed.
const PATIENCE: u64 = 300_000_000;

const CASES: &[Case] = &[
    Case {
        name: "advice",
        act: advice,
    },
    Case {
        name: "collapse",
        act: || madvise(far()?, FAR, MADV_COLLAPSE).or(Ok(())),
    },
    Case {
        name: "shared",
        act: shared,
    },
    Case {
        name: "protect",
        act: protect,
    },
    Case {
        name: "remap",
        act: || mremap(far()?, FAR, FAR / 2, libc::MREMAP_MAYMOVE, 0).map(drop),
    },
    Case {
        name: "populate_read",
        act: || madvise(far()?, FAR, libc::MADV_POPULATE_READ),
    },
    Case {
        name: "populate_write",
        act: || madvise(far()?, FAR, libc::MADV_POPULATE_WRITE),
    },
    Case {
        name: "lock",
        act: lock,
    },
    Case {
        name: "split",
        act: split,
    },
    Case {
        name: "sparse",
        act: sparse,
    },
    Case {
        name: "sparse_collapse",
        act: || madvise(touched()?, FAR, MADV_COLLAPSE).or(Ok(())),
    },
    Case {
        name: "khugepaged",
        act: khugepaged,
    },
    Case {
        name: "real",
        act: real,
    },
    Case {
        name: "real_moves",
        act: real_moves,
    },
    Case {
        name: "areas",
        act: areas,
    },
    Case {
        name: "areas_change",
        act: areas_change,
    },
    Case {
        name: "areas_lock",
        act: areas_lock,
    },
];

fn far() -> Result<usize> {
    mmap(0, FAR, RW, ANON | libc::MAP_NORESERVE, -1, 0)
}

/// The same with a page here and there.
fn touched() -> Result<usize> {
    let at = far()?;
    (at..at + FAR)
        .step_by(STRIDE)
        .for_each(|page| store(page, 1));
    Ok(at)
}

fn advice() -> Result<()> {
    let at = far()?;
    for advice in [libc::MADV_DONTNEED, libc::MADV_FREE, 20, 21] {
        madvise(at, FAR, advice)?;
    }
    munmap(at, FAR)
}

fn shared() -> Result<()> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let at = mmap(0, FAR, RW, flags, -1, 0)?;
    madvise(at, FAR, libc::MADV_REMOVE)?;
    madvise(at, FAR, MADV_COLLAPSE).or(Ok(()))
}

fn protect() -> Result<()> {
    let at = touched()?;
    mprotect(at, FAR, libc::PROT_READ)?;
    mprotect(at, FAR, RW)?;
    munmap(at, FAR)
}

fn lock() -> Result<()> {
    proc::setrlimit(libc::RLIMIT_MEMLOCK, u64::MAX, u64::MAX)?;
    let at = far()?;
    call(libc::SYS_mlock2, [at, FAR, ONFAULT, 0, 0, 0])?;
    call(libc::SYS_munlock, [at, FAR, 0, 0, 0, 0]).map(drop)
}

fn split() -> Result<()> {
    let at = far()?;
    for text in [
        "1".to_owned(),
        format!("{},{at:#x},{:#x}", proc::getpid(), at + FAR),
    ] {
        let _ = fs::write("/sys/kernel/debug/split_huge_pages", text);
    }
    Ok(())
}

/// clear_refs, fork and exit.
fn sparse() -> Result<()> {
    touched()?;
    for what in ["4", "1"] {
        let _ = fs::write("/proc/self/clear_refs", what);
    }
    match proc::fork()? {
        Fork::Child => proc::exit_now(0),
        Fork::Parent(pid) => proc::wait_for(pid).map(drop),
    }
}

/// A round without limit over much that is empty.
fn khugepaged() -> Result<()> {
    let root = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    let settings = [
        ("pages_to_scan", "4294967295", "4096"),
        ("scan_sleep_millisecs", "1", "10000"),
    ];
    let at = touched()?;
    madvise(at, FAR, libc::MADV_HUGEPAGE)?;
    for (name, value, _) in settings {
        let _ = fs::write(format!("{root}/{name}"), value);
    }
    let _ = time::sleep(100_000_000);
    for (name, _, before) in settings {
        let _ = fs::write(format!("{root}/{name}"), before);
    }
    Ok(())
}

/// The verbs over memory that is there.
fn real() -> Result<()> {
    let at = mmap(0, NEAR, RW, ANON | libc::MAP_POPULATE, -1, 0)?;
    match proc::fork()? {
        Fork::Child => proc::exit_now(0),
        Fork::Parent(pid) => proc::wait_for(pid)?,
    };
    mprotect(at, NEAR, libc::PROT_READ)?;
    mprotect(at, NEAR, RW)?;
    madvise(at, NEAR / 2, libc::MADV_DONTNEED)?;
    madvise(at, NEAR / 2, libc::MADV_POPULATE_WRITE)?;
    munmap(at, NEAR)
}

/// What moves and shrinks memory that is there, in pages that stand otherwise in their tables
/// afterwards.
fn real_moves() -> Result<()> {
    let half = NEAR / 2;
    let place = mmap(
        0,
        2 * NEAR,
        libc::PROT_NONE,
        ANON | libc::MAP_NORESERVE,
        -1,
        0,
    )?;
    let at = mmap(0, NEAR, RW, ANON | libc::MAP_POPULATE, -1, 0)?;
    let to = place + PAGE;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    mremap(at, half, half, flags, to)?;
    // In the place of what was moved there.
    mremap(at + half, half, half, flags, to)?;
    mremap(to, half, PAGE, 0, 0).map(drop)
}

/// Every other page is an area of its own; returns where the first one is.
fn striped() -> Result<usize> {
    let at = mmap(0, STRIPES, libc::PROT_READ, ANON, -1, 0)?;
    for page in (at..at + STRIPES).step_by(2 * PAGE) {
        mprotect(page, PAGE, RW)?;
    }
    Ok(at)
}

/// What looks at many areas.
fn areas() -> Result<()> {
    let at = striped()?;
    match proc::fork()? {
        Fork::Child => proc::exit_now(0),
        Fork::Parent(pid) => proc::wait_for(pid)?,
    };
    let flags = libc::MS_ASYNC as usize;
    call(libc::SYS_msync, [at, STRIPES, flags, 0, 0, 0])?;
    madvise(at, STRIPES, MADV_COLLAPSE).or(Ok::<_, Errno>(()))?;
    let _ = fs::write("/proc/self/clear_refs", "4");
    Ok(())
}

/// What changes many areas.
fn areas_change() -> Result<()> {
    let at = striped()?;
    madvise(at, STRIPES, libc::MADV_HUGEPAGE)?;
    mprotect(at, STRIPES / 4, libc::PROT_NONE)?;
    munmap(at, STRIPES)
}

fn areas_lock() -> Result<()> {
    let at = striped()?;
    proc::setrlimit(libc::RLIMIT_MEMLOCK, u64::MAX, u64::MAX)?;
    call(libc::SYS_mlock2, [at, STRIPES, ONFAULT, 0, 0, 0])?;
    call(libc::SYS_munlock, [at, STRIPES / 4, 0, 0, 0, 0]).map(drop)
}

/// All cases, or those that are named.
pub fn calls(names: &[String]) -> Outcome {
    run("hang", CASES, PATIENCE, names)
}
