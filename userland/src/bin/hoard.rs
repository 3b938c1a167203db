//! `hoard [NAME ...]`: makes the kernel keep as much as it will, in one way after the other:
//! processes, pipes, mappings, page tables, files, names, signals. The kernel may refuse or end the
//! program, and must live: `hoard: done` is the last line.
//!
//! On any other kernel than Quire it does nothing: there it would hurt others.
use userland::counters::{free_frames, on_quire};
use userland::sys::mem::{ANON, PAGE, RW, mmap, mprotect, store};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, call, file};

/// A way to make the kernel keep objects: repeats it until it is refused and returns how often it
/// succeeded.
type Way = (&'static str, fn() -> Refused);

/// How often a way succeeded, and what refused it then; an error where it could not begin.
type Refused = Result<(usize, Errno)>;

const WAYS: &[Way] = &[
    ("processes", processes),
    ("pipes", pipes),
    ("full-pipes", full_pipes),
    ("mappings", mappings),
    ("page-tables", page_tables),
    ("shared-page-tables", shared_page_tables),
    ("locked", locked),
    ("file", one_file),
    ("files", files),
    ("long-names", long_names),
    ("mapped-file", mapped_file),
    ("signals", signals),
    ("arguments", arguments),
];

fn main() {
    if !on_quire() {
        eprintln!("hoard: only on Quire: elsewhere it would hurt others");
        std::process::exit(2);
    }
    // As a supervisor does: what it starts is as small, and is to be ended before it.
    std::fs::write("/proc/self/oom_score_adj", "-500").expect("oom_score_adj");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let before = free_frames().ok();
    for (name, way) in WAYS {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            println!("hoard: {name}: {}", in_child(*way));
        }
    }
    let after = free_frames().ok();
    println!("hoard: done, {before:?} frames free before, {after:?} after");
}

/// Runs a way in a child in a directory of its own, and cleans up after it.
fn in_child(way: fn() -> Refused) -> String {
    let dir = "/tmp/hoard";
    let _ = std::fs::create_dir_all(dir);
    let outcome = match proc::fork() {
        Ok(Fork::Child) => {
            let _ = proc::setpgid(0, 0);
            std::fs::write("/proc/self/oom_score_adj", "0").expect("oom_score_adj");
            let _ = std::env::set_current_dir(dir);
            let (_, hard) = proc::getrlimit(libc::RLIMIT_NOFILE).unwrap_or((0, 1024));
            let _ = proc::setrlimit(libc::RLIMIT_NOFILE, hard, hard);
            let (n, error) = way().unwrap_or_else(|error| (0, error));
            eprintln!("hoard: {n} times, then {error:?}");
            proc::exit_now(0)
        }
        Ok(Fork::Parent(pid)) => {
            let status = proc::wait_for(pid);
            while proc::kill(-pid, libc::SIGKILL) != Err(Errno(libc::ESRCH)) {
                std::thread::yield_now();
            }
            format!("{status:?}")
        }
        Err(error) => format!("no child: {error:?}"),
    };
    let _ = std::fs::remove_dir_all(dir);
    outcome
}

/// Repeats until it fails.
fn until(mut act: impl FnMut(usize) -> Result<()>) -> Refused {
    for n in 0..10_000_000 {
        if let Err(error) = act(n) {
            return Ok((n, error));
        }
    }
    Ok((10_000_000, Errno(0)))
}

fn processes() -> Refused {
    until(|_| {
        if proc::fork()? == Fork::Child {
            loop {
                let _ = call(libc::SYS_ppoll, [0, 0, 0, 0, 8, 0]);
            }
        }
        Ok(())
    })
}

fn pipes() -> Refused {
    until(|_| file::pipe(0).map(drop))
}

fn full_pipes() -> Refused {
    let piece = [1u8; PAGE];
    until(|_| {
        let (_, to) = file::pipe(libc::O_NONBLOCK)?;
        loop {
            match file::write(to, &piece) {
                Ok(_) => {}
                Err(Errno(libc::EAGAIN)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    })
}

fn mappings() -> Refused {
    until(|n| {
        let prot = if n % 2 == 0 { RW } else { libc::PROT_READ };
        mmap(0, PAGE, prot, ANON, -1, 0).map(drop)
    })
}

/// A page in each 2 MiB: as many tables as pages.
fn page_tables() -> Refused {
    touch_far(ANON)
}

/// The same in shared memory, where the kernel keeps the pages by index, too.
fn shared_page_tables() -> Refused {
    touch_far(libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

fn touch_far(flags: i32) -> Refused {
    const FAR: usize = 1 << 40;
    let at = mmap(0, FAR, RW, flags | libc::MAP_NORESERVE, -1, 0)?;
    let _ = userland::sys::mem::madvise(at, FAR, libc::MADV_NOHUGEPAGE);
    until(|n| {
        store(at + n * (2 << 20), 1);
        Ok(())
    })
}

/// Memory that is brought in at once.
fn locked() -> Refused {
    let _ = proc::setrlimit(libc::RLIMIT_MEMLOCK, u64::MAX, u64::MAX);
    until(|_| {
        let at = mmap(0, 1 << 20, RW, ANON, -1, 0)?;
        userland::sys::mem::mlock(at, 1 << 20)
    })
}

fn one_file() -> Refused {
    let piece = [1u8; PAGE];
    let fd = file::open("file", libc::O_CREAT | libc::O_WRONLY, 0o600)?;
    let end = until(|_| file::write_all(fd, &piece));
    touch_a_little();
    end
}

/// What files leave is enough for a program to go on with. The OOM killer would end this one.
fn touch_a_little() {
    const PAGES: usize = 32;
    if let Ok(at) = mmap(0, PAGES * PAGE, RW, ANON, -1, 0) {
        (0..PAGES).for_each(|n| store(at + n * PAGE, 1));
    }
}

fn files() -> Refused {
    let end = until(|n| {
        let fd = file::open(&format!("{n}"), libc::O_CREAT | libc::O_WRONLY, 0o600)?;
        file::write_all(fd, b"x")?;
        file::close(fd)
    });
    touch_a_little();
    end
}

fn long_names() -> Refused {
    let name = "n".repeat(200);
    let end = until(|n| {
        let fd = file::open(&format!("{name}{n}"), libc::O_CREAT | libc::O_WRONLY, 0o600)?;
        file::close(fd)
    });
    touch_a_little();
    end
}

/// Pages that a file gets by being written to in memory.
fn mapped_file() -> Refused {
    const LEN: usize = 1 << 32;
    let fd = file::open("mapped", libc::O_CREAT | libc::O_RDWR, 0o600)?;
    file::ftruncate(fd, LEN as i64)?;
    let at = mmap(0, LEN, RW, libc::MAP_SHARED, fd, 0)?;
    until(|n| {
        store(at + n * PAGE % LEN, 1);
        Ok(())
    })
}

/// Queued real-time signals, blocked by all processes of a crowd.
fn signals() -> Refused {
    let set = [u64::MAX];
    let _ = call(
        libc::SYS_rt_sigprocmask,
        [libc::SIG_BLOCK as usize, set.as_ptr() as usize, 0, 8, 0, 0],
    );
    let signo = libc::SIGRTMIN() as usize;
    let mut info = [0u32; 32];
    // SI_QUEUE.
    (info[0], info[2]) = (signo as u32, -1i32 as u32);
    until(|_| {
        let (target, at) = (proc::getpid() as usize, info.as_ptr() as usize);
        call(libc::SYS_rt_sigqueueinfo, [target, signo, at, 0, 0, 0]).map(drop)
    })
}

/// Programs with as many arguments as may be, which cannot all be there at once.
fn arguments() -> Refused {
    let words: Vec<String> = (0..15).map(|_| "a".repeat(100_000)).collect();
    let me = "/bin/sh".to_string();
    // Nothing writes, so a reader blocks; a read of the terminal would stop the whole group.
    let (silence, _) = file::pipe(0)?;
    until(|n| {
        // Each that is ended makes room for the next: this would never end.
        if n == 60 {
            return Err(Errno(libc::EAGAIN));
        }
        if proc::fork()? == Fork::Child {
            file::dup2(silence, 0)?;
            let script = ["sh", "-c", "cat"].map(String::from);
            let all: Vec<String> = script.iter().chain(&words).cloned().collect();
            let error = proc::exec(&me, &all, &[]);
            proc::exit_now(error.0);
        }
        let at = mmap(0, PAGE, RW, ANON, -1, 0)?;
        mprotect(at, PAGE, libc::PROT_READ)
    })
}
