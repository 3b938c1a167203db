//! fork, vfork, threads, wait, groups, limits, usage.
use userland::harness::{Outcome, Stop, in_child, need, skip};
use userland::sys::mem::{PAGE, RW, anon, load, madvise, mmap, munmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    fork_gives_two,
    fork_exit_statuses,
    fork_a_hundred,
    fork_bomb_ends_in_eagain,
    pid_max_has_bounds,
    forks_at_once_have_numbers_of_their_own,
    vfork_shares_until_exit,
    clone_gives_a_pidfd,
    spawn_a_program,
    threads_share_and_join,
    threads_have_their_own_ids,
    thread_exit_group_ends_all,
    rusage_counts_faults,
    times_advance,
    limits_are_kept,
    limit_of_descriptors,
];

fn fork_gives_two() -> Outcome {
    let me = proc::getpid();
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    match proc::fork()? {
        Fork::Child => {
            // The C library asks the kernel each time: nothing is remembered from the parent.
            let pid = call(libc::SYS_getpid, [0; 6]).unwrap_or(0);
            store(at, pid as u64);
            store(at + 8, proc::getppid() as u64);
            proc::exit_now(0)
        }
        Fork::Parent(pid) => {
            check_eq!(proc::wait_for(pid)?, Status::Exited(0));
            check_eq!([load(at), load(at + 8)], [pid as u64, me as u64]);
        }
    }
    Ok(())
}

/// CLONE_PIDFD of clone(2), which writes where a number would go, and of clone3(2), which does not.
fn clone_gives_a_pidfd() -> Outcome {
    let at = anon(2)?;
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let ends = |pid: usize, fd: i32| -> Outcome {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
        check!(info.contains(&format!("Pid:\t{pid}\n")), "{info}");
        let closes = file::fcntl(fd, libc::F_GETFD, 0)? & libc::FD_CLOEXEC;
        check_eq!(closes, libc::FD_CLOEXEC);
        check_eq!(file::poll(fd, libc::POLLIN, -1)?, libc::POLLIN);
        check_eq!(proc::wait_for(pid as i32)?, Status::Exited(3));
        Ok(file::close(fd)?)
    };
    match proc::clone_raw([flags as usize, 0, at, 0, 0, 0]) {
        0 => proc::exit_now(3),
        pid if pid > 0 => ends(pid as usize, load(at) as i32)?,
        error => check!(false, "{error}"),
    }
    let both = flags | libc::CLONE_PARENT_SETTID;
    let refused = |flags: i32, at: usize| proc::clone_raw([flags as usize, 0, at, 0, 0, 0]);
    check_eq!(refused(both, at), -libc::EINVAL as isize);
    check_eq!(refused(flags, 8), -libc::EFAULT as isize);
    // flags, pidfd, child_tid, parent_tid, exit_signal.
    let words = [both as u64 & !0xff, at as u64, 0, at as u64 + 8, 17];
    for (n, word) in words.into_iter().enumerate() {
        store(at + PAGE + 8 * n, word);
    }
    match call(libc::SYS_clone3, [at + PAGE, 88, 0, 0, 0, 0]) {
        Ok(0) => proc::exit_now(3),
        Ok(pid) => {
            check_eq!(load(at + 8) as usize, pid);
            ends(pid, load(at) as i32)?;
        }
        // A filter of system calls knows clone(2) only.
        error => drop(need(error, "clone3")?),
    }
    // Bytes that this kernel does not know.
    store(at + PAGE + 120, 1);
    let more = |at, len| call(libc::SYS_clone3, [at, len, 0, 0, 0, 0]);
    check_err!(more(at + PAGE, 128), E2BIG);
    check_err!(more(at + PAGE, 2 * PAGE), E2BIG);
    check_err!(more(at + PAGE, 4096 + 8), E2BIG);
    Ok(munmap(at, 2 * PAGE)?)
}

fn fork_exit_statuses() -> Outcome {
    for status in [0, 1, 42, 127, 128, 255] {
        check_eq!(in_child(|| Ok(status))?, Status::Exited(status));
    }
    // Only the low byte counts.
    check_eq!(in_child(|| Ok(0x1234))?, Status::Exited(0x34));
    Ok(())
}

fn fork_a_hundred() -> Outcome {
    for _ in 0..100 {
        check_eq!(in_child(|| Ok(7))?, Status::Exited(7));
    }
    let mut pids = Vec::new();
    for n in 0..50 {
        match proc::fork()? {
            Fork::Child => proc::exit_now(n),
            Fork::Parent(pid) => pids.push(pid),
        }
    }
    for (n, pid) in pids.into_iter().enumerate() {
        check_eq!(proc::wait_for(pid)?, Status::Exited(n as i32));
    }
    Ok(())
}

fn fork_bomb_ends_in_eagain() -> Outcome {
    // Root is above the limit on Linux; user nobody is not.
    if proc::geteuid() == 0 {
        need(proc::setuid(65534), "setuid")?;
    }
    proc::setrlimit(libc::RLIMIT_NPROC, 30, 30)?;
    let (hear, tell) = file::pipe(0)?;
    let mut pids = Vec::new();
    let refused = loop {
        match proc::fork() {
            Ok(Fork::Child) => {
                let _ = file::close(tell);
                let _ = file::read(hear, &mut [0]);
                proc::exit_now(0)
            }
            Ok(Fork::Parent(pid)) => pids.push(pid),
            Err(e) => break e,
        }
        check!(
            pids.len() <= 30,
            "{} children under a limit of 30",
            pids.len()
        );
    };
    check_eq!(refused, Errno(libc::EAGAIN));
    // The end of the pipe ends them all.
    file::close(tell)?;
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    }
    Ok(())
}

/// Six processes fork at once, where there are numbers for three: each number is given once, and
/// the others get EAGAIN.
fn forks_at_once_have_numbers_of_their_own() -> Outcome {
    const PID_MAX: &str = "/proc/sys/kernel/pid_max";
    if std::fs::metadata("/sys/kernel/mm/quire").is_err() {
        return skip("it would leave others without numbers");
    }
    let before = std::fs::read_to_string(PID_MAX)?;
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    // The next number is a low one again: those above are used up.
    while {
        let Fork::Parent(pid) = proc::fork()? else {
            proc::exit_now(0)
        };
        proc::wait_for(pid)?;
        pid < 303
    } {}
    // A fork of so many entries, all to the page of zeros, takes longer than a turn on the CPU.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let zeros = mmap(0, 1 << 30, RW, flags, -1, 0)?;
    madvise(zeros, 1 << 30, libc::MADV_NOHUGEPAGE)?;
    store(zeros, 1);
    madvise(zeros, 1 << 30, libc::MADV_POPULATE_READ)?;
    let kids = (0..6).map(|kid| forks_when_all_do(at, kid));
    let kids = kids.collect::<Result<Vec<_>, _>>()?;
    let come_to = |state| wait_until(|| (0..6).all(|kid| load(at + STATES + 8 * kid) == state));
    come_to(1);
    std::fs::write(PID_MAX, "303")?;
    store(at, 1);
    come_to(2);
    std::fs::write(PID_MAX, before.trim())?;
    let mut numbers: Vec<u64> = (0..6).map(|kid| load(at + NUMBERS + 8 * kid)).collect();
    store(at, 2);
    for kid in kids {
        check_eq!(proc::wait_for(kid)?, Status::Exited(0));
    }
    munmap(zeros, 1 << 30)?;
    numbers.retain(|number| *number != 0);
    numbers.sort_unstable();
    check!(
        numbers.starts_with(&[300]) && numbers.windows(2).all(|two| two[0] + 1 == two[1]),
        "{numbers:?} of 300, 301, 302"
    );
    check!(numbers.len() <= 3, "{numbers:?}");
    Ok(())
}

/// Where each of the six says how far it is.
const STATES: usize = 64;
/// And the number of its child.
const NUMBERS: usize = 128;

/// A process that forks as soon as all do, which takes long, and notes the number; or there is
/// none.
fn forks_when_all_do(at: usize, kid: usize) -> Result<libc::pid_t, Stop> {
    let Fork::Parent(pid) = proc::fork()? else {
        store(at + STATES + 8 * kid, 1);
        wait_until(|| load(at) >= 1);
        let child = proc::fork();
        if let Ok(Fork::Child) = child {
            wait_until(|| load(at) == 2);
            proc::exit_now(0)
        }
        if let Ok(Fork::Parent(number)) = child {
            store(at + NUMBERS + 8 * kid, number as u64);
        }
        store(at + STATES + 8 * kid, 2);
        let fine = match child {
            Ok(Fork::Parent(number)) => proc::wait_for(number) == Ok(Status::Exited(0)),
            Ok(Fork::Child) => false,
            Err(error) => error == Errno(libc::EAGAIN),
        };
        proc::exit_now(i32::from(!fine))
    };
    Ok(pid)
}

/// Lets others run until something holds.
fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

fn vfork_shares_until_exit() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    let pid = need(proc::vfork_store_and_exit(at, 5, 3), "vfork")?;
    // The parent ran on only after the child had written and ended.
    check_eq!(load(at), 5);
    check_eq!(proc::wait_for(pid)?, Status::Exited(3));
    Ok(())
}

fn spawn_a_program() -> Outcome {
    // std starts programs by posix_spawn: a vfork with a stack of its own, and a pipe for the
    // error.
    let me = std::env::current_exe()?;
    let out = std::process::Command::new(me)
        .args(["--as", "args", "one", "two words", ""])
        .output()?;
    check_eq!(out.status.code(), Some(3));
    check_eq!(
        String::from_utf8_lossy(&out.stdout),
        "[one]\n[two words]\n[]\n"
    );
    let missing = std::process::Command::new("/nowhere/at/all").status();
    check_eq!(
        missing.map(|_| ()).map_err(|e| e.raw_os_error()),
        Err(Some(libc::ENOENT))
    );
    Ok(())
}

fn threads_share_and_join() -> Outcome {
    let sum = std::sync::Arc::new(std::sync::Mutex::new(0u64));
    let threads: Vec<_> = (0..8u64)
        .map(|n| {
            let sum = sum.clone();
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    *sum.lock().unwrap_or_else(|e| e.into_inner()) += n;
                }
                vec![n; 1000].iter().sum::<u64>()
            })
        })
        .collect();
    let own: Vec<u64> = threads.into_iter().filter_map(|t| t.join().ok()).collect();
    check_eq!(own, [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000]);
    check_eq!(*sum.lock().unwrap_or_else(|e| e.into_inner()), 28_000);
    Ok(())
}

fn threads_have_their_own_ids() -> Outcome {
    thread_local!(static OWN: std::cell::Cell<u64> = const { std::cell::Cell::new(1) });
    OWN.set(2);
    let id = || {
        (
            call(libc::SYS_getpid, [0; 6]),
            call(libc::SYS_gettid, [0; 6]),
        )
    };
    let mine = id();
    check_eq!(mine.0, mine.1);
    let theirs = std::thread::spawn(move || (id(), OWN.get())).join();
    let Ok((theirs, own)) = theirs else {
        return Err(Stop::Fail("the thread panicked".into()));
    };
    check_eq!(theirs.0, mine.0);
    check!(theirs.1 != mine.1);
    check_eq!((own, OWN.get()), (1, 2));
    Ok(())
}

fn thread_exit_group_ends_all() -> Outcome {
    let status = in_child(|| {
        let (hear, _tell) = file::pipe(0)?;
        for _ in 0..4 {
            std::thread::spawn(move || file::read(hear, &mut [0]));
        }
        std::thread::spawn(|| proc::exit_now(9));
        file::read(hear, &mut [0])?;
        Ok(1)
    })?;
    check_eq!(status, Status::Exited(9));
    Ok(())
}

fn rusage_counts_faults() -> Outcome {
    let at = anon(100)?;
    let before = proc::rusage(libc::RUSAGE_SELF)?;
    (0..100).for_each(|n| store(at + n * PAGE, 1));
    let after = proc::rusage(libc::RUSAGE_SELF)?;
    let faults = after.minor_faults - before.minor_faults;
    // An emulator may do the exchange that stores in two steps, a read and a write: two faults.
    check!(
        (100..=200).contains(&faults),
        "{faults} faults for 100 pages"
    );
    check!(after.max_rss_kb >= 400);
    let before = proc::rusage(libc::RUSAGE_CHILDREN)?.minor_faults;
    // Apart from each other: a kernel may copy more than a page where writes go on.
    in_child(|| {
        (0..100).step_by(2).for_each(|n| store(at + n * PAGE, 2));
        Ok(0)
    })?;
    check!(proc::rusage(libc::RUSAGE_CHILDREN)?.minor_faults >= before + 50);
    check_err!(proc::rusage(77), EINVAL);
    Ok(())
}

fn times_advance() -> Outcome {
    let mut t = [0u64; 4];
    let first = call(libc::SYS_times, [t.as_mut_ptr() as usize, 0, 0, 0, 0, 0])?;
    // Some clock tick must pass, and be charged to this process, which does nothing but look.
    let start = userland::sys::time::now();
    while userland::sys::time::now() - start < 100_000_000 {}
    let second = call(libc::SYS_times, [t.as_mut_ptr() as usize, 0, 0, 0, 0, 0])?;
    check!(second >= first + 5, "{first} to {second} in 0.1 s");
    let usage = proc::rusage(libc::RUSAGE_SELF)?;
    check!(usage.user_us + usage.system_us > 0);
    Ok(())
}

fn limits_are_kept() -> Outcome {
    let files = libc::RLIMIT_NOFILE;
    let (soft, hard) = proc::getrlimit(files)?;
    check!(soft <= hard);
    proc::setrlimit(files, soft.min(300), hard)?;
    check_eq!(proc::getrlimit(files)?, (soft.min(300), hard));
    check_eq!(
        in_child(|| Ok((proc::getrlimit(files)?.0 == soft.min(300)) as i32))?,
        Status::Exited(1)
    );
    check_err!(proc::setrlimit(files, 10, 9), EINVAL);
    // No table of any length: more than fs.nr_open is never allowed.
    check_err!(proc::setrlimit(files, 1 << 40, 1 << 40), EPERM);
    check_err!(proc::setrlimit(99, 1, 1), EINVAL);
    Ok(())
}

fn limit_of_descriptors() -> Outcome {
    proc::setrlimit(libc::RLIMIT_NOFILE, 20, 20)?;
    let mut count = 0;
    let refused = loop {
        match file::dup(1) {
            Ok(fd) if fd < 20 => count += 1,
            Ok(fd) => return Err(Stop::Fail(format!("descriptor {fd} above the limit of 20"))),
            Err(e) => break e,
        }
    };
    check_eq!(refused, Errno(libc::EMFILE));
    if count == 0 {
        return skip("all descriptors below 20 are in use");
    }
    check_err!(file::pipe(0), EMFILE);
    check_err!(file::open("/dev/null", 0, 0), EMFILE);
    Ok(())
}

fn pid_max_has_bounds() -> Outcome {
    const PID_MAX: &str = "/proc/sys/kernel/pid_max";
    let now = std::fs::read_to_string(PID_MAX)?;
    let number: i64 = now.trim().parse().unwrap_or(0);
    check!((301..=4_194_304).contains(&number), "pid_max is {now:?}");
    // What it is already: nothing changes for others. A container may not write it at all.
    if std::fs::write(PID_MAX, now.trim()).is_err() {
        return skip("pid_max may not be written here");
    }
    for beyond in ["300", "4194305", "0", "-1", "many"] {
        let refused = std::fs::write(PID_MAX, beyond).map_err(|error| error.raw_os_error());
        check_eq!(refused, Err(Some(libc::EINVAL)));
    }
    check_eq!(std::fs::read_to_string(PID_MAX)?, now);
    Ok(())
}
