//! Very many processes: signalled, stopped, orphaned, waited for, shown.
use super::{more, read_all};
use std::fs;
use userland::sys::mem::{ANON, PAGE, RW, mmap, store};
use userland::sys::proc::{self, Fork};
use userland::sys::{Result, call, sig, time};

/// Processes of a case.
const PROCESSES: usize = 2000;

/// Forks `count` children that do `act` and then wait for a signal.
fn start(count: usize, act: impl Fn(usize)) -> Result<Vec<i32>> {
    more(libc::RLIMIT_NPROC, 32768)?;
    let mut pids = Vec::new();
    for n in 0..count {
        match proc::fork()? {
            Fork::Child => {
                dies_with_parent(libc::SIGKILL);
                act(n);
                loop {
                    let _ = time::sleep(1_000_000_000_000);
                }
            }
            Fork::Parent(pid) => pids.push(pid),
        }
    }
    Ok(pids)
}

/// The signal that this process gets when its parent ends.
fn dies_with_parent(signal: i32) {
    let name = libc::PR_SET_PDEATHSIG as usize;
    let _ = call(libc::SYS_prctl, [name, signal as usize, 0, 0, 0, 0]);
}

fn end(pids: &[i32]) -> Result<()> {
    for pid in pids {
        let _ = proc::kill(*pid, libc::SIGKILL);
    }
    for pid in pids {
        proc::wait_for(*pid)?;
    }
    Ok(())
}

pub fn children() -> Result<()> {
    let _ = proc::setpgid(0, 0);
    let pids = start(PROCESSES, |_| ())?;
    let me = proc::getpid() as usize;
    sig::ignore(libc::SIGUSR1)?;
    for target in [0, -(me as i32), -1] {
        proc::kill(target, libc::SIGCONT)?;
        proc::kill(target, 0)?;
    }
    for which in [libc::PRIO_PGRP, libc::PRIO_USER] {
        call(libc::SYS_getpriority, [which as usize, 0, 0, 0, 0, 0])?;
        call(libc::SYS_setpriority, [which as usize, 0, 0, 0, 0, 0])?;
    }
    let _ = proc::wait(-1, libc::WNOHANG)?;
    for name in [
        "/proc/stat",
        "/proc/loadavg",
        "/proc/meminfo",
        "/proc/vmstat",
    ] {
        read_all(name);
    }
    for _ in fs::read_dir("/proc")? {}
    for pid in &pids[..10] {
        proc::setpgid(*pid, *pid)?;
    }
    end(&pids)
}

/// A parent of stopped children in groups of their own: its end orphans them.
pub fn stopped() -> Result<()> {
    let parent = match proc::fork()? {
        Fork::Child => {
            let pids = start(PROCESSES, |_| {
                // Its orphaned group gets a SIGHUP instead.
                dies_with_parent(0);
                let _ = proc::setpgid(0, 0);
                sig::raise(libc::SIGSTOP);
            })
            .unwrap_or_default();
            let untold = libc::WUNTRACED;
            while let Ok(Some((pid, _))) = proc::wait(-1, untold) {
                if pids.last() == Some(&pid) {
                    break;
                }
            }
            proc::exit_now(0)
        }
        Fork::Parent(pid) => pid,
    };
    proc::wait_for(parent).map(drop)
}

pub fn zombies() -> Result<()> {
    more(libc::RLIMIT_NPROC, 32768)?;
    let fork = || match proc::fork() {
        Ok(Fork::Child) => proc::exit_now(0),
        other => other.map(drop),
    };
    (0..PROCESSES).try_for_each(|_| fork())?;
    while proc::wait(-1, 0).is_ok() {}
    // Once more, for the reaper.
    (0..PROCESSES).try_for_each(|_| fork())
}

/// ITIMER_REAL of many, at one time.
pub fn alarms() -> Result<()> {
    let at = time::now() + 3_000_000_000;
    let pids = start(PROCESSES, |_| {
        let _ = sig::count(libc::SIGALRM, 0, &[]);
        let _ = time::itimer(at.saturating_sub(time::now()) / 1000, 0);
    })?;
    let _ = time::sleep(at.saturating_sub(time::now()) + 1_000_000_000);
    end(&pids)
}

/// A page that many processes map: /proc/kpageowner names them all.
pub fn shared_page() -> Result<()> {
    let at = mmap(0, 512 * PAGE, RW, ANON, -1, 0)?;
    for page in 0..512 {
        store(at + page * PAGE, 1);
    }
    let pids = start(PROCESSES / 4, |_| ())?;
    for name in [
        "/proc/kpageowner",
        "/sys/kernel/mm/quire/folios",
        "/proc/self/smaps",
    ] {
        read_all(name);
    }
    end(&pids)
}

/// Memory runs out where many processes could be ended for it; this one is.
pub fn full() -> Result<()> {
    const MOST: usize = 64 << 30;
    start(PROCESSES, |_| ())?;
    let at = mmap(0, MOST, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    (at..at + MOST)
        .step_by(PAGE)
        .for_each(|page| store(page, 1));
    Ok(())
}
