//! Memory filled by files, then calls that make the kernel need some. Each may be refused; none may
//! be the kernel's end.
use super::Outcome;
use std::io::Write;
use userland::sys::mem::{ANON, PAGE, mmap, munmap, store_bytes};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, call, file};

/// The most of anything that is tried.
const MANY: usize = 1 << 20;
/// Descriptors of poll and select.
const FDS: usize = 1 << 16;
/// Files that are there before memory is full, to get longer names.
const FILES: usize = 10_000;
/// Bytes that are left of a full memory.
const LEFT: i64 = 512 << 10;
/// Bytes of a long name.
const LONG: usize = 240;

/// What ended a series of calls; `None`: all were taken.
type Ended = (usize, Option<Errno>);

/// Writes to a file until nothing more is taken.
fn write_all(fd: i32) -> u64 {
    let buffer = [0x5a; 1 << 16];
    let (mut sum, mut len) = (0, buffer.len());
    while len >= PAGE {
        match file::write(fd, &buffer[..len]) {
            Ok(n) if n > 0 => sum += n as u64,
            _ => len /= 2,
        }
    }
    sum
}

/// Takes the memory that this program needs itself.
#[inline(never)]
fn settle() -> Result<()> {
    std::hint::black_box([1u8; 1 << 18]);
    call(
        libc::SYS_mlockall,
        [libc::MCL_CURRENT as usize, 0, 0, 0, 0, 0],
    )
    .map(drop)
}

/// What fills memory.
pub struct Filling {
    named: i32,
    memfd: i32,
}

/// Fills memory with a file of the working directory and one without a name.
pub fn fill() -> Result<Filling> {
    settle()?;
    let named = file::open("fill", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    let memfd = file::memfd(0)?;
    let sum = write_all(named) + write_all(memfd);
    // A little is left for this program's own pages.
    file::ftruncate(named, file::lseek(named, 0, libc::SEEK_END)? as i64 - LEFT)?;
    println!("abuse: filled with {} KiB", sum >> 10);
    Ok(Filling { named, memfd })
}

impl Filling {
    /// Gives the memory back.
    pub fn empty(self) {
        for fd in [self.named, self.memfd] {
            let _ = file::ftruncate(fd, 0);
        }
    }
}

/// A name in the working directory, filled up to `len` bytes, with its NUL: this program can have
/// no memory of its own for it.
fn name(n: usize, len: usize) -> [u8; PAGE] {
    let mut name = [b'x'; PAGE];
    let _ = write!(&mut name[..len], "{n:08x}");
    name[len] = 0;
    name
}

/// Calls until one is refused.
fn until_refused(most: usize, mut f: impl FnMut(usize) -> Result<usize>) -> Ended {
    for n in 0..most {
        if let Err(error) = f(n) {
            return (n, Some(error));
        }
    }
    (most, None)
}

const AT: usize = libc::AT_FDCWD as usize;

fn at(name: &[u8; PAGE]) -> usize {
    name.as_ptr() as usize
}

fn link(n: usize) -> Result<usize> {
    call(
        libc::SYS_linkat,
        [AT, at(&name(0, 8)), AT, at(&name(n, LONG)), 0, 0],
    )
}

fn rename(n: usize) -> Result<usize> {
    let (old, new) = (name(n, 8), name(n, LONG - 1));
    call(libc::SYS_renameat2, [AT, at(&old), AT, at(&new), 0, 0])
}

fn symlink(n: usize) -> Result<usize> {
    let (target, new) = (name(n, 4000), name(n, 16));
    call(libc::SYS_symlinkat, [at(&target), AT, at(&new), 0, 0, 0])
}

fn fifo(n: usize) -> Result<usize> {
    let mode = (libc::S_IFIFO | 0o600) as usize;
    call(libc::SYS_mknodat, [AT, at(&name(n, 17)), mode, 0, 0, 0])
}

fn pipe(_: usize) -> Result<usize> {
    let (_, writer) = file::pipe(libc::O_NONBLOCK)?;
    while file::write(writer, &[0; PAGE]).is_ok() {}
    Ok(0)
}

fn socket(_: usize) -> Result<usize> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK;
    let (_, end) = file::socketpair(libc::AF_UNIX, kind, 0)?;
    while file::write(end, &[0; PAGE]).is_ok() {}
    Ok(0)
}

/// A child that stays until its group ends.
fn child(_: usize) -> Result<usize> {
    match proc::fork()? {
        Fork::Child => loop {
            let _ = call(libc::SYS_ppoll, [0; 6]);
        },
        Fork::Parent(pid) => Ok(pid as usize),
    }
}

fn dup(_: usize) -> Result<usize> {
    file::dup(0).map(|fd| fd as usize)
}

fn setgroups(at: usize) -> Result<usize> {
    call(libc::SYS_setgroups, [1 << 16, at, 0, 0, 0, 0])
}

fn poll(n: usize, at: usize) -> Result<usize> {
    let now = [0u64; 2];
    call(libc::SYS_ppoll, [at, n, now.as_ptr() as usize, 0, 0, 0])
}

fn select(n: usize, at: usize) -> Result<usize> {
    let now = [0u64; 2];
    call(
        libc::SYS_pselect6,
        [n, at, at, at, now.as_ptr() as usize, 0],
    )
}

/// Calls that need memory for what they make (`link`, `rename`, `files`), or only for as long as
/// they take, in a full machine.
pub fn calls(words: &[String]) -> Outcome {
    let what = words.first().map_or("", String::as_str);
    make(what).map_err(|error| format!("{error}"))?
}

fn make(what: &str) -> Result<Outcome> {
    proc::setrlimit(libc::RLIMIT_NOFILE, MANY as u64, MANY as u64)?;
    for n in 0..FILES {
        let mode = (libc::S_IFREG | 0o600) as usize;
        call(libc::SYS_mknodat, [AT, at(&name(n, 8)), mode, 0, 0, 0])?;
    }
    let fds = mmap(0, FDS * 8, libc::PROT_READ | libc::PROT_WRITE, ANON, -1, 0)?;
    store_bytes(fds, fds + FDS * 8, 0);
    let mut ended = Vec::with_capacity(32);
    let filling = fill()?;
    match what {
        "link" => ended.push((what, until_refused(MANY, link))),
        "rename" => ended.push((what, until_refused(FILES, rename))),
        "files" => {
            ended.push(("pipe", until_refused(MANY, pipe)));
            ended.push(("socketpair", until_refused(MANY, socket)));
            ended.push(("symlink", until_refused(MANY, symlink)));
            ended.push(("fifo", until_refused(MANY, fifo)));
            ended.push(("dup", until_refused(MANY, dup)));
        }
        _ => {
            for shift in 10..=16 {
                ended.push(("poll", once(poll(1 << shift, fds))));
                ended.push(("select", once(select(1 << shift, fds))));
            }
            ended.push(("setgroups", until_refused(100, |_| setgroups(fds))));
        }
    }
    filling.empty();
    let refusals = [
        libc::ENOMEM,
        libc::ENOSPC,
        libc::ENFILE,
        libc::EMFILE,
        libc::EMLINK,
        libc::EAGAIN,
    ];
    for (what, (taken, why)) in &ended {
        println!("abuse: {what}: {taken} taken, then {why:?}");
    }
    let wrong = |why: Option<Errno>| why.is_some_and(|Errno(number)| !refusals.contains(&number));
    Ok(match ended.iter().find(|(_, (_, why))| wrong(*why)) {
        Some((what, ended)) => Err(format!("{what}: {ended:?}")),
        None => Ok("all refused in the end".to_owned()),
    })
}

/// A call that is made once.
fn once(result: Result<usize>) -> Ended {
    (usize::from(result.is_ok()), result.err())
}

/// Many areas, each split off by a call of its own, and forks of them, in a full machine. These
/// calls insist on memory: when there is none left, the largest process ends, which is this one.
pub fn areas(_: &[String]) -> Outcome {
    split().map_err(|error| format!("{error}"))
}

fn split() -> Result<String> {
    const AREAS: usize = 65_000;
    let filling = fill()?;
    let mut ended = Vec::with_capacity(8);
    for way in 0..4 {
        let none = libc::PROT_NONE;
        let len = 2 * AREAS * PAGE;
        let area = match mmap(0, len, none, ANON | libc::MAP_NORESERVE, -1, 0) {
            Ok(area) => area,
            Err(error) => {
                ended.push((0, Some(error)));
                continue;
            }
        };
        ended.push(until_refused(AREAS, |n| {
            split_off(way, area + 2 * n * PAGE)
        }));
        ended.push(until_refused(64, child));
        // A process has no more areas than this way may have made.
        let _ = munmap(area, len);
    }
    filling.empty();
    println!("abuse: splits and forks: {ended:?}");
    let wrong = |why: &Option<Errno>| why.is_some_and(|why| why != Errno(libc::ENOMEM));
    match ended.iter().find_map(|(_, why)| why.filter(|_| wrong(why))) {
        Some(why) => Err(why),
        None => Ok("areas split off until memory was full".to_owned()),
    }
}

fn split_off(way: usize, at: usize) -> Result<usize> {
    match way {
        0 => call(libc::SYS_munmap, [at, PAGE, 0, 0, 0, 0]),
        1 => call(
            libc::SYS_madvise,
            [at, PAGE, libc::MADV_DONTFORK as usize, 0, 0, 0],
        ),
        2 => call(libc::SYS_mlock2, [at, PAGE, 1, 0, 0, 0]),
        _ => call(
            libc::SYS_mprotect,
            [at, PAGE, libc::PROT_READ as usize, 0, 0, 0],
        ),
    }
}

/// A chain of directories, taken down from below and by an unmount.
pub fn chain(_: &[String]) -> Outcome {
    deep().map_err(|error| format!("{error}"))
}

fn deep() -> Result<String> {
    const DEPTH: usize = 10_000;
    let (name, up, top) = (c"d".as_ptr() as usize, c"..".as_ptr() as usize, c"/mnt");
    let down = || {
        until_refused(DEPTH, |_| {
            call(libc::SYS_mkdirat, [AT, name, 0o700, 0, 0, 0])?;
            call(libc::SYS_chdir, [name, 0, 0, 0, 0, 0])
        })
    };
    let made = down();
    let removed = until_refused(made.0, |_| {
        call(libc::SYS_chdir, [up, 0, 0, 0, 0, 0])?;
        call(
            libc::SYS_unlinkat,
            [AT, name, libc::AT_REMOVEDIR as usize, 0, 0, 0],
        )
    });
    let _ = std::fs::create_dir("/mnt");
    proc::mount("t", "/mnt", "tmpfs", 0)?;
    call(libc::SYS_chdir, [top.as_ptr() as usize, 0, 0, 0, 0, 0])?;
    let mounted = down();
    call(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0])?;
    call(libc::SYS_umount2, [top.as_ptr() as usize, 0, 0, 0, 0, 0])?;
    println!("abuse: made {made:?}, removed {removed:?}, in a mount {mounted:?}");
    match removed {
        (DEPTH, None) => Ok(format!("{DEPTH} directories made and removed")),
        _ => Err(Errno(libc::ENOMEM)),
    }
}
