//! What /proc/meminfo and /proc/vmstat count. On Linux others count, too, and each CPU keeps some
//! back: the pages are many, and a quarter more or less is let through.
use crate::folio::{self, PMD, with_sizes};
use crate::thp::{only_here, restoring, write};
use userland::counters::figure;
use userland::harness::{Outcome, Stop, in_child, need};
use userland::replay::family::child;
use userland::switch::Switch;
use userland::sys::mem::{PAGE, RW, anon, load, madvise, mlock, mmap, munlock, munmap, store};
use userland::sys::proc::Status;
use userland::sys::{file, time};
use userland::{check, check_eq};

userland::tests![
    vmstat_mlocked,
    vmstat_mlocked_once,
    vmstat_mlocked_when_touched,
    vmstat_pgreuse,
    vmstat_scan_exceed,
];

/// Pages of most tests here: 4 MiB, less than a process may lock.
const N: u64 = 1024;
const BYTES: usize = N as usize * PAGE;

fn vmstat(name: &str) -> Result<u64, Stop> {
    Ok(figure("/proc/vmstat", name)?)
}

/// Locked pages: both files say the same, and that none of them can be reclaimed.
fn locked() -> Result<u64, Stop> {
    let pages = figure("/proc/meminfo", "Mlocked")? / 4;
    check!(pages.abs_diff(vmstat("nr_mlock")?) <= N / 4);
    check!(vmstat("nr_unevictable")? + N / 4 >= pages);
    check!(figure("/proc/meminfo", "Unevictable")? / 4 + N / 4 >= pages);
    Ok(pages)
}

/// Fails unless about `wanted` pages more are locked than `before`.
fn check_locked(before: u64, wanted: u64) -> Outcome {
    let more = locked()? as i64 - before as i64;
    check!(
        (more - wanted as i64).unsigned_abs() <= N / 4,
        "{more} pages more are locked, not {wanted}"
    );
    Ok(())
}

fn vmstat_mlocked() -> Outcome {
    let at = anon(N as usize)?;
    let before = locked()?;
    need(mlock(at, BYTES), "mlock")?;
    check_locked(before, N)?;
    // A child inherits memory, and no locks.
    check_eq!(
        in_child(|| check_locked(before, N).map(|()| 0))?,
        Status::Exited(0)
    );
    munlock(at, BYTES / 2)?;
    check_locked(before, N / 2)?;
    munmap(at, BYTES)?;
    check_locked(before, 0)
}

/// A page that two areas map is one page.
fn vmstat_mlocked_once() -> Outcome {
    std::fs::write("f", vec![1; BYTES])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let map = || mmap(0, BYTES, RW, libc::MAP_SHARED, fd, 0);
    let (one, other) = (map()?, map()?);
    let before = locked()?;
    need(mlock(one, BYTES), "mlock")?;
    mlock(other, BYTES)?;
    check_locked(before, N)?;
    munmap(one, BYTES)?;
    munmap(other, BYTES)?;
    check_locked(before, 0)
}

/// What is locked when it comes counts when it has come.
fn vmstat_mlocked_when_touched() -> Outcome {
    const MLOCK_ONFAULT: usize = 1;
    let at = anon(N as usize)?;
    let _ = madvise(at, BYTES, libc::MADV_NOHUGEPAGE);
    let before = locked()?;
    let call = [at, BYTES, MLOCK_ONFAULT, 0, 0, 0];
    need(userland::sys::call(libc::SYS_mlock2, call), "mlock2")?;
    check_locked(before, 0)?;
    (0..N as usize).for_each(|n| store(at + n * PAGE, 1));
    check_locked(before, N)?;
    munmap(at, BYTES)?;
    check_locked(before, 0)
}

/// Pages that a child leaves behind are written in place, each once.
fn vmstat_pgreuse() -> Outcome {
    // A child leaves shared tables whole: no page would have to be looked at.
    let fork = Switch::take("fork");
    if let Some(fork) = &fork {
        fork.set("batch")?;
    }
    let at = anon(N as usize)?;
    let _ = madvise(at, BYTES, libc::MADV_NOHUGEPAGE);
    let write = |value| (0..N as usize).for_each(|n| store(at + n * PAGE, value));
    // Linux copies pages that another CPU has not put on its lists yet: it is asked again.
    let attempts = if fork.is_some() { 1 } else { 10 };
    let mut reused = 0;
    for _ in 0..attempts {
        write(1);
        check_eq!(in_child(|| Ok(load(at) as i32))?, Status::Exited(1));
        let before = vmstat("pgreuse")?;
        write(2);
        reused = vmstat("pgreuse")? - before;
        if reused >= N {
            break;
        }
    }
    check!(reused >= N, "{reused} of {N} pages were written in place");
    Ok(munmap(at, BYTES)?)
}

/// Waits until khugepaged has passed over a range for this reason.
fn passed_over(name: &str) -> Outcome {
    let before = vmstat(name)?;
    write("hugepages-2048kB/enabled", "always")?;
    write("khugepaged/scan_sleep_millisecs", "1")?;
    let mut running = time::Running::begin();
    while vmstat(name)? == before {
        check!(running.passed() < 20_000_000_000, "{name} stays {before}");
        std::thread::yield_now();
    }
    Ok(())
}

fn vmstat_scan_exceed() -> Outcome {
    only_here()?;
    let none = || {
        with_sizes(&[], || {
            let at = folio::area(PMD)?;
            folio::fill(at, PMD - PAGE);
            passed_over("thp_scan_exceed_none_pte")?;
            Ok(munmap(at, PMD)?)
        })
    };
    let shared = || {
        with_sizes(&[], || {
            let at = folio::area(PMD)?;
            folio::fill(at, PMD);
            let kid = child(|_| Ok(()))?;
            passed_over("thp_scan_exceed_share_pte")?;
            kid.end()?;
            Ok(munmap(at, PMD)?)
        })
    };
    restoring("khugepaged/scan_sleep_millisecs", || {
        restoring("khugepaged/max_ptes_none", || {
            write("khugepaged/max_ptes_none", "0")?;
            none()
        })?;
        restoring("khugepaged/max_ptes_shared", || {
            write("khugepaged/max_ptes_shared", "0")?;
            shared()
        })?;
        // There is no swap.
        check_eq!(vmstat("thp_scan_exceed_swap_pte")?, 0);
        Ok(())
    })
}
