//! What a process makes and dies with, it leaves nothing of: files.
//!
//! Each kind is made by some children in a row, which end without giving anything back. Afterwards
//! the machine has as many free frames, bytes on the kernel's heap and threads as before.
use crate::event::{eventfd, timerfd};
use crate::memfd::sealable;
use crate::socket_names::{client, listener};
use crate::socket_rights::{rights, send_with};
use crate::sockets::{KINDS, pair, send};
use crate::{epoll, event, posix_timers, signal_files};
use userland::counters::{figure, free_frames, on_quire};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{PAGE, anon};
use userland::sys::proc::{self, Status};
use userland::sys::{Result, call, file, sig, time};

userland::tests![
    leaks_of_files,
    leaks_of_sockets,
    leaks_of_counters_and_timers,
];

/// Children in a row.
const CHILDREN: usize = 8;
/// What is lost more seldom than in as many rows is not the children's.
const ROWS: usize = 4;
/// Frames and bytes that a row of children may keep: less than one of each.
const FRAMES: u64 = 7;
const BYTES: u64 = 127;
/// So often it is looked, a millisecond apart, whether all of a row is gone.
const LOOKS: usize = 200;
/// Where Quire says how many bytes of its heap are in use.
const HEAP: &str = "/sys/kernel/mm/quire/heap_reserve";
/// In ns.
pub const HOUR: u64 = 3_600_000_000_000;
const NONBLOCK: i32 = libc::O_NONBLOCK;

/// A name, and how it is made.
pub type Kind = (&'static str, fn() -> Outcome);

/// Frames, bytes and threads that have been lost.
type Lost = (u64, u64, u64);

/// Whether not each child of a row can have lost something.
fn is_little((frames, bytes, threads): Lost) -> bool {
    frames <= FRAMES && bytes <= BYTES && threads == 0
}

/// What a dead process must not change.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub frames: u64,
    pub bytes: u64,
    threads: u64,
}

impl Left {
    /// Now.
    pub fn now() -> std::result::Result<Left, Stop> {
        let load = std::fs::read_to_string("/proc/loadavg")?;
        let threads = load.split(['/', ' ']).nth(4).and_then(|n| n.parse().ok());
        Ok(Left {
            frames: free_frames()?,
            bytes: figure(HEAP, "used")?,
            threads: threads.ok_or(Stop::Fail(load))?,
        })
    }
    /// What has been lost since, once the stack of the last thread is free, which the next one on
    /// that thread's CPU sees to and nobody tells.
    fn lost_at_last(&self) -> std::result::Result<Lost, Stop> {
        let mut lost = self.lost()?;
        for _ in 0..LOOKS {
            if is_little(lost) {
                break;
            }
            time::sleep(1_000_000).map_err(|(error, _)| error)?;
            lost = self.lost()?;
        }
        Ok(lost)
    }
    /// What has been lost since.
    fn lost(&self) -> std::result::Result<Lost, Stop> {
        let now = Left::now()?;
        Ok((
            self.frames.saturating_sub(now.frames),
            now.bytes.saturating_sub(self.bytes),
            now.threads.saturating_sub(self.threads),
        ))
    }
}

/// Skips the test where others change the figures, or nobody tells them.
pub fn only_here() -> Outcome {
    match on_quire() {
        true => Ok(()),
        false => Err(Stop::Skip("the machine is not for this test alone".into())),
    }
}

/// Has children make each kind and end, and compares.
pub fn leaves_nothing(kinds: &[Kind]) -> Outcome {
    kinds
        .iter()
        .try_for_each(|(name, make)| leaves_nothing_of(name, make))
}

/// The same for one kind. Elsewhere it is made once: nobody tells the figures, or others change
/// them.
pub fn leaves_nothing_of(name: &str, make: &dyn Fn() -> Outcome) -> Outcome {
    // Orphans come here, and not to a process that waits for them some time.
    let subreaper = libc::PR_SET_CHILD_SUBREAPER as usize;
    made(libc::SYS_prctl, [subreaper, 1])?;
    // The first one may find caches empty.
    if !dies_with(name, make)? || !on_quire() {
        return Ok(());
    }
    let mut lost = Vec::new();
    for _ in 0..ROWS {
        let before = Left::now()?;
        for _ in 0..CHILDREN {
            dies_with(name, make)?;
        }
        let now = before.lost_at_last()?;
        if is_little(now) {
            return Ok(());
        }
        lost.push(now);
    }
    Err(Stop::Fail(format!(
        "{name}: frames, bytes of the heap and threads lost by {CHILDREN} children: {lost:?}"
    )))
}

/// A child makes it and ends, and what it leaves behind is waited for. Returns `false` where there
/// is no such thing.
fn dies_with(name: &str, make: &dyn Fn() -> Outcome) -> std::result::Result<bool, Stop> {
    const NONE: i32 = 77;
    let status = in_child(|| match make() {
        Err(Stop::Skip(_)) => Ok(NONE),
        other => other.map(|()| 0),
    })?;
    while let Ok(Some(_)) = proc::wait(-1, 0) {}
    match status {
        Status::Exited(0) => Ok(true),
        Status::Exited(NONE) => Ok(false),
        other => Err(Stop::Fail(format!("{name}: {other:?}"))),
    }
}

/// A call whose result does not matter.
pub fn made<const N: usize>(nr: i64, some: [usize; N]) -> Result<i32> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&some);
    call(nr, all).map(|n| n as i32)
}

/// A file without a name, with pages.
pub fn pages_of_memory() -> std::result::Result<i32, Stop> {
    let fd = sealable(16)?;
    file::write_all(fd, &[1; 16 * PAGE])?;
    Ok(fd)
}

fn leaks_of_files() -> Outcome {
    leaves_nothing(&[
        ("nothing", || Ok(())),
        ("memfd_create", || pages_of_memory().map(drop)),
        ("a pipe", || {
            let (_, tell) = file::pipe(0)?;
            Ok(file::write_all(tell, &[1; 3 * PAGE])?)
        }),
        ("a pipe with pages of a process", || {
            let (at, (_, tell)) = (anon(4)?, file::pipe(0)?);
            file::vmsplice(tell, at, 4 * PAGE, 0)?;
            Ok(())
        }),
        ("a fifo", || {
            file::mknod("fifo", libc::S_IFIFO | 0o600, 0, 0)?;
            let fd = file::open("fifo", libc::O_RDWR, 0)?;
            file::write_all(fd, b"some")?;
            Ok(std::fs::remove_file("fifo")?)
        }),
        ("a file that is removed", || {
            let fd = file::open("file", libc::O_RDWR | libc::O_CREAT, 0o600)?;
            file::write_all(fd, &[1; 16 * PAGE])?;
            made(libc::SYS_flock, [fd as usize, libc::LOCK_EX as usize])?;
            Ok(std::fs::remove_file("file")?)
        }),
        ("a directory that is removed", || {
            std::fs::create_dir("dir")?;
            std::env::set_current_dir("dir")?;
            file::open(".", libc::O_RDONLY, 0)?;
            Ok(std::fs::remove_dir("../dir")?)
        }),
        ("many numbers", || {
            file::fcntl(2, libc::F_DUPFD, 900)?;
            Ok(())
        }),
        ("devices", || {
            for name in ["null", "zero", "full", "random", "kmsg", "tty", "console"] {
                let _ = file::open(&format!("/dev/{name}"), libc::O_RDONLY | NONBLOCK, 0);
            }
            Ok(())
        }),
    ])
}

fn leaks_of_sockets() -> Outcome {
    leaves_nothing(&[
        ("socketpair", || {
            KINDS.iter().try_for_each(|kind| {
                send(pair(*kind)?.a, &[1; 3000], 0)?;
                Ok(())
            })
        }),
        ("a file in a socket", || {
            let (fd, between) = (pages_of_memory()?, pair(libc::SOCK_STREAM)?);
            send_with(between.a, b"f", &rights(&[fd, fd]))?;
            Ok(file::close(fd)?)
        }),
        ("a socket in itself", || {
            let (fd, between) = (pages_of_memory()?, pair(libc::SOCK_DGRAM)?);
            send_with(between.a, b"b", &rights(&[between.b, fd]))?;
            send_with(between.b, b"a", &rights(&[between.a, fd]))?;
            Ok(())
        }),
        ("a socket with a name", || {
            let name = b"\0leaks";
            listener(libc::SOCK_STREAM, name, 5)?;
            // It is not accepted.
            send(client(libc::SOCK_STREAM, name)?, b"hello", 0)?;
            Ok(())
        }),
    ])
}

/// A set of files that watches others, and a set that watches that.
fn watch() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let sets = (epoll::create()?, epoll::create()?);
    file::write_all(tell, b"!")?;
    for fd in [hear, eventfd(0, 0)?, timerfd(libc::CLOCK_MONOTONIC, 0)?] {
        epoll::add(sets.0, fd, libc::EPOLLIN as u32)?;
    }
    epoll::add(sets.1, sets.0, libc::EPOLLIN as u32)?;
    Ok(())
}

fn leaks_of_counters_and_timers() -> Outcome {
    leaves_nothing(&[
        ("eventfd", || eventfd(3, 0).map(drop).map_err(Stop::from)),
        ("epoll", watch),
        ("timerfd", || {
            for every in [0, 1_000_000] {
                let fd = timerfd(libc::CLOCK_MONOTONIC, 0)?;
                event::set(fd, 0, every, HOUR / 2)?;
            }
            Ok(())
        }),
        ("signalfd, signals that wait", || {
            let signals = [libc::SIGUSR1, 40];
            sig::mask(libc::SIG_BLOCK, &signals)?;
            signal_files::signalfd(&signals, 0)?;
            for _ in 0..10 {
                signals
                    .iter()
                    .try_for_each(|sent| proc::kill(proc::getpid(), *sent))?;
            }
            Ok(())
        }),
        ("timers", || {
            sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
            for first in [HOUR, 1] {
                let timer = posix_timers::create(libc::CLOCK_MONOTONIC, None)?;
                posix_timers::set(timer, 0, first, 0)?;
            }
            Ok(time::itimer(HOUR, HOUR)?)
        }),
    ])
}
