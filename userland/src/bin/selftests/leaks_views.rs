//! What /proc and /sys show, they do not keep: neither a process that has one of their files open
//! when it ends, nor the one that a file is about.
use crate::leaks::{Left, leaves_nothing, made, only_here, pages_of_memory};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::{fs, thread};
use userland::harness::{Outcome, Stop};
use userland::sys::proc::{self, Fork};
use userland::sys::{Result, file, time};
use userland::{check, check_eq, check_err};

userland::tests![
    leaks_of_files_of_proc,
    leaks_of_files_of_sys,
    proc_keeps_no_file_open,
    proc_keeps_no_thread,
    proc_of_a_process_that_is_gone,
];

const READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK;
/// A link itself.
const LINK: i32 = libc::O_PATH | libc::O_NOFOLLOW;

/// Opens all that is in a directory, and in those in it, and reads a byte of each file but those
/// whose names are given. Returns how many files that are.
fn open_all(dir: &Path, but: &[&str]) -> std::result::Result<usize, Stop> {
    let mut count = 0;
    // It changes while it is read: it has what is opened.
    let names: Vec<PathBuf> = fs::read_dir(dir)?
        .filter_map(|one| Some(one.ok()?.path()))
        .collect();
    for path in names {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let (Ok(kind), Some(text)) = (fs::symlink_metadata(&path), path.to_str()) else {
            continue;
        };
        count += usize::from(file::open(text, LINK, 0).is_ok());
        if kind.is_symlink() || but.contains(&name) {
            continue;
        }
        let Ok(fd) = file::open(text, READ, 0) else {
            continue;
        };
        count += 1;
        match kind.is_dir() {
            true => count += open_all(&path, but)?,
            false => drop(file::pread(fd, &mut [0], 0)),
        }
    }
    Ok(count)
}

/// As many numbers as files of /proc or /sys are.
fn with_room() -> Outcome {
    Ok(proc::setrlimit(libc::RLIMIT_NOFILE, 8192, 8192)?)
}

/// As root: with a file that has pages, and one's own files among what is opened.
fn opens_all(dir: &str, at_least: usize) -> Outcome {
    with_room()?;
    pages_of_memory()?;
    let count = open_all(Path::new(dir), &[])?;
    check!(count >= at_least, "{dir}: only {count} files");
    Ok(())
}

fn leaks_of_files_of_proc() -> Outcome {
    only_here()?;
    leaves_nothing(&[
        ("/proc/self/fd/N", || {
            let fd = pages_of_memory()?;
            file::open(&format!("/proc/self/fd/{fd}"), LINK, 0)?;
            Ok(())
        }),
        ("/proc/self/fdinfo/N", || {
            let fd = pages_of_memory()?;
            file::open(&format!("/proc/self/fdinfo/{fd}"), READ, 0)?;
            Ok(())
        }),
        ("/proc/self", || opens_all("/proc/self", 150)),
        ("/proc of the parent", || {
            opens_all(&format!("/proc/{}", proc::getppid()), 150)
        }),
        ("/proc/sys", || opens_all("/proc/sys", 30)),
        ("/proc", || {
            with_room()?;
            let mut count = 0;
            for entry in fs::read_dir("/proc")?.flatten() {
                let path = entry.path();
                let text = path.to_str().unwrap_or_default();
                count += usize::from(file::open(text, READ, 0).is_ok());
                count += usize::from(file::open(text, LINK, 0).is_ok());
            }
            check!(count > 50, "only {count} files");
            Ok(())
        }),
        ("a directory of /proc to be in", || {
            let dir = format!("/proc/self/task/{}/fdinfo", proc::gettid());
            Ok(std::env::set_current_dir(dir)?)
        }),
    ])
}

fn leaks_of_files_of_sys() -> Outcome {
    only_here()?;
    leaves_nothing(&[("/sys", || opens_all("/sys", 300))])
}

/// Whoever has the files of /proc about a process open: when it ends, its pipe does.
fn proc_keeps_no_file_open() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let Fork::Parent(child) = proc::fork()? else {
        let _ = file::close(hear);
        let _ = userland::sys::sig::suspend(&[]);
        proc::exit_now(0)
    };
    proc::wait_until_asleep(child);
    file::close(tell)?;
    let dir = format!("/proc/{child}");
    for part in ["fd", "fdinfo", "task"] {
        let count = open_all(Path::new(&dir).join(part).as_path(), &["net"])?;
        check!(count > 2, "{part}: only {count} files");
    }
    let link = file::open(&format!("{dir}/fd/{tell}"), LINK, 0)?;
    proc::kill(child, libc::SIGKILL)?;
    proc::wait_for(child)?;
    file::fcntl(hear, libc::F_SETFL, i64::from(libc::O_NONBLOCK))?;
    check_eq!(file::read(hear, &mut [0])?, 0);
    file::close(link)?;
    Ok(())
}

/// Starts threads, opens a file about each, and has them end. Returns the files.
fn files_of_threads(count: usize) -> std::result::Result<Vec<i32>, Stop> {
    let (all, opened) = (Barrier::new(count + 1), Barrier::new(count + 1));
    let files = thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                all.wait();
                opened.wait();
            });
        }
        all.wait();
        let path = |task: &PathBuf| format!("{}/comm", task.display());
        let files = tasks().map(|tasks| {
            let all = tasks.iter().map(|task| file::open(&path(task), READ, 0));
            all.collect::<Result<_>>()
        });
        opened.wait();
        files
    });
    // Who waits for a thread may be told before it has ended.
    while tasks()?.len() > 1 {
        time::sleep(1_000_000).map_err(|(error, _)| error)?;
    }
    Ok(files??)
}

fn tasks() -> std::io::Result<Vec<PathBuf>> {
    let tasks = fs::read_dir("/proc/self/task")?;
    Ok(tasks.filter_map(|task| Some(task.ok()?.path())).collect())
}

/// A thread that has ended has no stack any more, whoever has a file about it open.
fn proc_keeps_no_thread() -> Outcome {
    const THREADS: usize = 16;
    only_here()?;
    files_of_threads(THREADS)?
        .into_iter()
        .try_for_each(file::close)?;
    let before = Left::now()?;
    let files = files_of_threads(THREADS)?;
    let now = Left::now()?;
    check_eq!(files.len(), THREADS + 1);
    // A stack has eight frames; the heap may take some for the files.
    check!(
        now.frames + 4 * THREADS as u64 >= before.frames,
        "{now:?}, before {before:?}"
    );
    Ok(())
}

/// Files that are read after the process was waited for; another one still knows it (pidfd).
fn proc_of_a_process_that_is_gone() -> Outcome {
    let Fork::Parent(child) = proc::fork()? else {
        let _ = userland::sys::sig::suspend(&[]);
        proc::exit_now(0)
    };
    let open = |name: &str, flags| file::open(&format!("/proc/{child}/{name}"), flags, 0);
    let texts = [
        "status",
        "stat",
        "statm",
        "comm",
        "limits",
        "maps",
        "oom_score",
    ];
    let texts: Vec<_> = texts
        .iter()
        .map(|name| open(name, READ))
        .collect::<Result<_>>()?;
    let (empty, info) = (open("environ", READ)?, open("fdinfo/0", READ)?);
    let (dir, task) = (open("fd", READ)?, open("task", READ)?);
    let links = [open("fd/0", LINK)?, open("exe", LINK)?];
    made(libc::SYS_pidfd_open, [child as usize])?;
    proc::kill(child, libc::SIGKILL)?;
    proc::wait_for(child)?;
    let mut byte = [0];
    for text in texts {
        check_err!(file::pread(text, &mut byte, 0), ESRCH);
    }
    check_eq!(file::pread(empty, &mut byte, 0)?, 0);
    check_err!(file::pread(info, &mut byte, 0), ENOENT);
    for link in links {
        check_err!(
            made(
                libc::SYS_readlinkat,
                [
                    link as usize,
                    c"".as_ptr() as usize,
                    byte.as_mut_ptr() as usize,
                    1
                ]
            ),
            ENOENT
        );
    }
    for dir in [dir, task] {
        let listed = fs::read_dir(format!("/proc/self/fd/{dir}"));
        check_eq!(listed.map_or(0, |entries| entries.flatten().count()), 0);
    }
    Ok(())
}
