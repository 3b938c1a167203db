//! How much memory is promised (vm.overcommit_*, Committed_AS), how many areas (vm.max_map_count),
//! and how much may be locked.
use crate::settings::Setting;
use std::io::Read;
use userland::counters;
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::mem::{ANON, PAGE, RW, anon, mlock, mmap, mprotect, munmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    promises_are_counted,
    promises_of_a_child,
    promises_are_kept_within_the_limit,
    promises_without_a_limit,
    promises_limit_is_set_in_two_ways,
    promises_of_areas,
    promises_of_free_memory,
    promises_of_locked_memory,
];

const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
const READ: i32 = libc::PROT_READ;
const MB: usize = 1 << 20;
const LEN: usize = 64 * MB;

/// A file of /proc/sys/vm, for the time of a test.
fn set(name: &str, value: usize) -> std::result::Result<Setting, Stop> {
    Setting::new(&format!("/proc/sys/vm/{name}"), value)
}

/// A line of /proc/meminfo, in bytes.
fn figure(name: &str) -> std::result::Result<usize, Stop> {
    Ok((counters::figure("/proc/meminfo", name)? as usize) << 10)
}

/// Checks by how much Committed_AS grows by `act`, give or take what others do.
fn grows_by<R>(bytes: isize, act: impl FnOnce() -> Result<R>) -> std::result::Result<R, Stop> {
    let before = figure("Committed_AS")?;
    let result = act()?;
    let grown = figure("Committed_AS")? as isize - before as isize;
    check!(
        grown.abs_diff(bytes) <= 2 * MB,
        "{grown} bytes more are promised instead of {bytes}"
    );
    Ok(result)
}

/// Other processes of a host promise, too: there a test has ten tries.
fn tried(test: fn() -> Outcome) -> Outcome {
    let more = if counters::on_quire() { 0 } else { 9 };
    let found = (0..more).map(|_| test()).find(Outcome::is_ok);
    found.unwrap_or_else(test)
}

fn map(prot: i32, flags: i32) -> Result<usize> {
    mmap(0, LEN, prot, flags, -1, 0)
}

fn promises_are_counted() -> Outcome {
    tried(counted)
}

fn counted() -> Outcome {
    let (len, none) = (LEN as isize, 0);
    let at = grows_by(len, || map(RW, ANON))?;
    grows_by(-len / 2, || munmap(at, LEN / 2))?;
    // What was not written is not missed.
    let at = at + LEN / 2;
    grows_by(-len / 2, || mprotect(at, LEN / 2, READ))?;
    grows_by(len / 2, || mprotect(at, LEN / 2, RW))?;
    grows_by(none, || {
        store(at, 1);
        Ok(())
    })?;
    grows_by(none, || mprotect(at, LEN / 2, READ))?;
    grows_by(-len / 2, || munmap(at, LEN / 2))?;
    for (prot, flags) in [(READ, ANON), (RW, ANON | libc::MAP_NORESERVE)] {
        let at = grows_by(none, || map(prot, flags))?;
        grows_by(none, || munmap(at, LEN))?;
    }
    // All of it at once, and only once.
    let at = grows_by(len, || map(RW, SHARED))?;
    grows_by(none, || {
        (at..at + LEN / 4).step_by(PAGE).for_each(|at| store(at, 1));
        Ok(())
    })?;
    grows_by(-len, || munmap(at, LEN))?;
    // As far as it has pages.
    let fd = file::memfd(0)?;
    grows_by(none, || file::ftruncate(fd, LEN as i64))?;
    let page = [1; MB];
    grows_by(16 * MB as isize, || {
        (0..16).try_for_each(|n| file::pwrite(fd, &page, n * MB as i64).map(drop))
    })?;
    grows_by(-16 * MB as isize, || file::close(fd))
}

fn promises_of_a_child() -> Outcome {
    tried(of_a_child)
}

fn of_a_child() -> Outcome {
    let at = map(RW, ANON)?;
    let shared = map(RW, SHARED)?;
    let (hear, tell) = file::pipe(0)?;
    let before = figure("Committed_AS")?;
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = file::close(tell);
        let _ = file::read(hear, &mut [0]);
        proc::exit_now(0)
    };
    // Private memory once more, shared memory not.
    let grown = figure("Committed_AS")?.saturating_sub(before);
    check!((LEN..2 * LEN).contains(&grown), "{grown}");
    file::close(tell)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    let left = figure("Committed_AS")?.abs_diff(before);
    check!(left <= 2 * MB, "{left}");
    file::close(hear)?;
    munmap(at, LEN)?;
    Ok(munmap(shared, LEN)?)
}

/// What is left of the limit is `left` bytes.
fn never(left: usize) -> std::result::Result<Vec<Setting>, Stop> {
    let limit = figure("Committed_AS")? + left;
    let ratio = set("overcommit_ratio", 50)?;
    let kbytes = set("overcommit_kbytes", limit >> 10)?;
    let policy = set("overcommit_memory", 2)?;
    // The ratio comes back after the number: what is written last is what counts.
    let mut settings = vec![policy, kbytes, ratio];
    // Linux keeps some away from large processes.
    settings.extend(set("user_reserve_kbytes", 0).ok());
    Ok(settings)
}

fn promises_are_kept_within_the_limit() -> Outcome {
    let kept = map(RW, ANON)?;
    let settings = never(2 * LEN)?;
    for flags in [ANON, SHARED, ANON | libc::MAP_NORESERVE] {
        check_err!(mmap(0, 3 * LEN, RW, flags, -1, 0), ENOMEM);
        let at = map(RW, flags)?;
        check_err!(mmap(0, LEN + LEN / 2, RW, flags, -1, 0), ENOMEM);
        munmap(at, LEN)?;
    }
    let at = mmap(0, 3 * LEN, READ, ANON, -1, 0)?;
    check_err!(mprotect(at, 3 * LEN, RW), ENOMEM);
    // A child has as much as this process again.
    check_eq!(in_child(|| Ok(0))?, Status::Exited(0));
    mprotect(at, LEN, RW)?;
    check_err!(proc::fork().map(refused), ENOMEM);
    munmap(at, 3 * LEN)?;
    drop(settings);
    check_eq!(in_child(|| Ok(0))?, Status::Exited(0));
    Ok(munmap(kept, LEN)?)
}

/// A child that should not be.
fn refused(fork: Fork) {
    if matches!(fork, Fork::Child) {
        proc::exit_now(1);
    }
}

fn promises_without_a_limit() -> Outcome {
    const MORE: usize = 1 << 44;
    let setting = set("overcommit_memory", 1)?;
    for flags in [ANON, SHARED] {
        let at = mmap(0, MORE, RW, flags, -1, 0)?;
        store(at + MORE / 2, 1);
        munmap(at, MORE)?;
    }
    drop(setting);
    if std::fs::read_to_string("/proc/sys/vm/overcommit_memory")?.trim() == "0" {
        check_err!(mmap(0, MORE, RW, ANON, -1, 0), ENOMEM);
        check_err!(mmap(0, MORE, RW, SHARED, -1, 0), ENOMEM);
    }
    check_err!(
        std::fs::write("/proc/sys/vm/overcommit_memory", "3"),
        EINVAL
    );
    Ok(())
}

fn promises_limit_is_set_in_two_ways() -> Outcome {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/vm/{name}"));
    let swap = figure("SwapTotal")?;
    let ratio = set("overcommit_ratio", 20)?;
    let memory = figure("MemTotal")? - figure("Hugetlb")? + swap * 5;
    check!((figure("CommitLimit")?).abs_diff(memory / 5) <= MB);
    let kbytes = set("overcommit_kbytes", 12_344)?;
    check_eq!(figure("CommitLimit")? - swap, 12_344 << 10);
    check_eq!(read("overcommit_ratio")?.trim(), "0");
    drop(kbytes);
    drop(ratio);
    check_eq!(read("overcommit_kbytes")?.trim(), "0");
    Ok(())
}

fn promises_of_areas() -> Outcome {
    // At the limit there is no memory for the text.
    let mut text = String::with_capacity(MB);
    let mut areas = || -> std::result::Result<usize, Stop> {
        text.clear();
        std::fs::File::open("/proc/self/maps")?.read_to_string(&mut text)?;
        Ok(text.lines().filter(|l| !l.contains("[vsyscall]")).count())
    };
    const PAGES: usize = 400;
    let at = anon(PAGES)?;
    let most = areas()? + 100;
    let setting = set("max_map_count", most)?;
    let every = |n: usize| mprotect(at + n * PAGE, PAGE, READ);
    let made = (1..PAGES)
        .step_by(2)
        .take_while(|n| every(*n).is_ok())
        .count();
    check!((40..=51).contains(&made), "{made}");
    check_err!(every(2 * made + 1), ENOMEM);
    // At the limit, and past it, what is whole may change: it may become one with its neighbours.
    while mmap(0, PAGE, libc::PROT_NONE, SHARED, -1, 0).is_ok() {}
    check_eq!(areas()?, most + 1);
    check_err!(
        call(libc::SYS_madvise, [at + PAGE * 201, PAGE, 10, 0, 0, 0]),
        EAGAIN
    );
    mprotect(at + PAGE, PAGE, RW)?;
    check!(areas()? < most);
    drop(setting);
    every(2 * made + 1)?;
    Ok(munmap(at, PAGES * PAGE)?)
}

/// What is kept free is shared out to the zones, and less than half of memory.
fn promises_of_free_memory() -> Outcome {
    if !counters::on_quire() {
        return skip("changes what the machine keeps free");
    }
    let kept = || -> std::result::Result<usize, Stop> {
        let zones = std::fs::read_to_string("/proc/zoneinfo")?;
        let marks = zones
            .lines()
            .filter_map(|line| line.trim().strip_prefix("min "));
        Ok(marks
            .filter_map(|mark| mark.trim().parse::<usize>().ok())
            .sum::<usize>()
            * 4)
    };
    let (before, half) = (kept()?, figure("MemTotal")? / 2048);
    let setting = set("min_free_kbytes", 2 * before + 3)?;
    check_eq!(kept()?, 2 * before);
    let file = "/proc/sys/vm/min_free_kbytes";
    // It reads as it was written, though frames are kept.
    check_eq!(
        std::fs::read_to_string(file)?,
        format!("{}\n", 2 * before + 3)
    );
    check!(std::fs::write(file, (half + 64 * 1024).to_string()).is_err());
    check_eq!(kept()?, 2 * before);
    drop(setting);
    check_eq!(kept()?, before);
    Ok(())
}

/// Root may lock more than RLIMIT_MEMLOCK (CAP_IPC_LOCK), and others not.
fn promises_of_locked_memory() -> Outcome {
    if proc::geteuid() != 0 {
        return skip("needs root");
    }
    let at = map(RW, ANON)?;
    let status = in_child(|| {
        proc::setrlimit(libc::RLIMIT_MEMLOCK, 4 * PAGE as u64, 4 * PAGE as u64)?;
        let mut steps = vec![mlock(at, 16 * PAGE)];
        steps.push(mmap(0, LEN / 8, RW, ANON | libc::MAP_LOCKED, -1, 0).map(drop));
        if steps.contains(&Err(userland::sys::Errno(libc::EPERM))) {
            return Ok(2);
        }
        proc::setuid(65534)?;
        let refused = Err(userland::sys::Errno(libc::ENOMEM));
        let limited = mlock(at + 32 * PAGE, PAGE) == refused;
        Ok((steps.iter().all(|step| step.is_ok()) && limited) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    Ok(munmap(at, LEN)?)
}
