//! Shared memory of System V, sysvipc(7).
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::fault;
use userland::sys::mem::{PAGE, RW, load, mmap, mprotect, mremap, munmap, store};
use userland::sys::proc::Status;
use userland::sys::{Result, call, proc, time};
use userland::{check, check_eq, check_err};

userland::tests![
    shm_keys,
    shm_sizes,
    shm_numbers,
    shm_is_shared,
    shm_addresses,
    shm_remap,
    shm_read_only,
    shm_executable,
    shm_removed_when_detached,
    shm_removed_by_munmap,
    shm_removed_by_exit,
    shm_removed_by_exec,
    shm_detaches_what_is_left,
    shm_moved,
    shm_children,
    shm_status,
    shm_set,
    shm_lock,
    shm_info,
    shm_limits,
    shm_views,
];

const PRIVATE: i32 = 0;
const CREAT: i32 = libc::IPC_CREAT;
const EXCL: i32 = libc::IPC_EXCL;
const NO_RESERVE: i32 = 0o10000;
const RDONLY: i32 = 0o10000;
const RND: i32 = 0o20000;
const REMAP: i32 = 0o40000;
const EXEC: i32 = 0o100000;
const RMID: i32 = 0;
const SET: i32 = 1;
const STAT: i32 = 2;
const IPC_INFO: i32 = 3;
const LOCK: i32 = 11;
const UNLOCK: i32 = 12;
const STAT_INDEX: i32 = 13;
const INFO: i32 = 14;
const STAT_ANY: i32 = 15;
const DEST: u32 = 0o1000;
const LOCKED: u32 = 0o2000;

pub fn get(key: i32, size: usize, flags: i32) -> Result<i32> {
    let arguments = [key as usize, size, flags as usize, 0, 0, 0];
    call(libc::SYS_shmget, arguments).map(|id| id as i32)
}

pub fn attach(id: i32, at: usize, flags: i32) -> Result<usize> {
    call(libc::SYS_shmat, [id as usize, at, flags as usize, 0, 0, 0])
}

fn detach(at: usize) -> Result<()> {
    call(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0]).map(drop)
}

/// Words of `struct shmid_ds` and the others.
pub type Words = [u64; 14];

pub fn control(id: i32, command: i32, words: &mut Words) -> Result<usize> {
    let words = words.as_mut_ptr() as usize;
    let arguments = [id as usize, command as usize, words, 0, 0, 0];
    call(libc::SYS_shmctl, arguments)
}

/// What IPC_STAT says.
#[derive(Debug)]
struct Stat {
    key: i32,
    uid: u32,
    gid: u32,
    creator: (u32, u32, i32),
    mode: u32,
    size: u64,
    attached: u64,
    detached: u64,
    changed: u64,
    last_pid: i32,
    attachments: u64,
}

fn stat(id: i32) -> Result<Stat> {
    let mut words = Words::default();
    control(id, STAT, &mut words)?;
    let high = |n: usize| (words[n] >> 32) as u32;
    Ok(Stat {
        key: words[0] as i32,
        uid: high(0),
        gid: words[1] as u32,
        creator: (high(1), words[2] as u32, words[10] as i32),
        mode: high(2),
        size: words[6],
        attached: words[7],
        detached: words[8],
        changed: words[9],
        last_pid: high(10) as i32,
        attachments: words[11],
    })
}

/// A segment, which is removed when the test ends.
struct Segment(i32);

impl Segment {
    fn of(pages: usize) -> Result<Segment> {
        get(PRIVATE, pages * PAGE, 0o600).map(Segment)
    }

    fn remove(&self) -> Result<()> {
        control(self.0, RMID, &mut Words::default()).map(drop)
    }

    fn stat(&self) -> Result<Stat> {
        stat(self.0)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// A key that nobody else has.
fn key() -> i32 {
    0x5100_0000 | proc::getpid()
}

fn gone(id: i32) -> Outcome {
    // EIDRM: another segment has got the index meanwhile.
    match stat(id) {
        Err(why) if [libc::EINVAL, libc::EIDRM].contains(&why.0) => Ok(()),
        other => Err(Stop::Fail(format!("{other:?} of a segment that is gone"))),
    }
}

/// Seconds of the clock that segments are stamped with: Linux's moves with its tick, so that it may
/// be in the second before that of CLOCK_REALTIME.
fn now() -> Result<u64> {
    Ok(time::clock(libc::CLOCK_REALTIME_COARSE)? / 1_000_000_000)
}

fn shm_keys() -> Outcome {
    let key = key();
    check_err!(get(key, PAGE, 0o600), ENOENT);
    check_err!(get(key, PAGE, EXCL), ENOENT);
    let first = Segment(get(key, 2 * PAGE, CREAT | EXCL | 0o640)?);
    check_eq!(get(key, 0, 0)?, first.0);
    check_eq!(get(key, 2 * PAGE, CREAT)?, first.0);
    check_err!(get(key, PAGE, CREAT | EXCL), EEXIST);
    check_err!(get(key, 2 * PAGE + 1, 0), EINVAL);
    let (a, b) = (Segment::of(1)?, Segment::of(1)?);
    check!(a.0 != b.0 && a.0 != first.0);
    check_eq!(first.stat()?.key, key);
    check_eq!(a.stat()?.key, 0);
    first.remove()?;
    check_err!(get(key, PAGE, 0), ENOENT);
    gone(first.0)
}

fn shm_sizes() -> Outcome {
    check_err!(get(PRIVATE, 0, 0), EINVAL);
    check_err!(get(PRIVATE, usize::MAX, 0), EINVAL);
    check_err!(get(PRIVATE, 1 << 50, 0o600), ENOMEM);
    let large = Segment(get(PRIVATE, 1 << 40, NO_RESERVE | 0o600)?);
    check_eq!(large.stat()?.size, 1 << 40);
    let odd = Segment(get(PRIVATE, PAGE + 1, 0o600)?);
    check_eq!(odd.stat()?.size, PAGE as u64 + 1);
    let at = attach(odd.0, 0, 0)?;
    store(at + 2 * PAGE - 8, 7);
    check_eq!(load(at + 2 * PAGE - 8), 7);
    Ok(detach(at)?)
}

fn shm_numbers() -> Outcome {
    let mut words = Words::default();
    check_err!(control(-1, STAT, &mut words), EINVAL);
    check_err!(attach(-1, 0, 0), EINVAL);
    let old = Segment::of(1)?;
    old.remove()?;
    gone(old.0)?;
    check!(attach(old.0, 0, 0).is_err());
    check!(old.remove().is_err());
    let new = Segment::of(1)?;
    check!(new.0 != old.0, "a number is used again at once");
    check_err!(control(new.0, 99, &mut words), EINVAL);
    Ok(())
}

fn shm_is_shared() -> Outcome {
    let segment = Segment::of(2)?;
    let (a, b) = (attach(segment.0, 0, 0)?, attach(segment.0, 0, 0)?);
    check!(a != b && a.is_multiple_of(PAGE));
    check_eq!([load(a), load(b + PAGE)], [0, 0]);
    store(a, 1);
    let status = in_child(|| {
        store(b + PAGE, 2);
        Ok(load(b) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!([load(b), load(a + PAGE)], [1, 2]);
    detach(a)?;
    detach(b)?;
    // What was written stays without an attachment.
    let again = attach(segment.0, 0, 0)?;
    check_eq!([load(again), load(again + PAGE)], [1, 2]);
    Ok(detach(again)?)
}

fn shm_addresses() -> Outcome {
    let segment = Segment::of(2)?;
    let room = mmap(
        0,
        4 * PAGE,
        RW,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    check_err!(attach(segment.0, room, 0), EINVAL);
    check_err!(attach(segment.0, room + PAGE + 8, RND), EINVAL);
    munmap(room, 3 * PAGE)?;
    // The second page would be on what is left.
    check_err!(attach(segment.0, room + 2 * PAGE, 0), EINVAL);
    check_err!(attach(segment.0, room + 8, 0), EINVAL);
    check_eq!(attach(segment.0, room, 0)?, room);
    detach(room)?;
    check_eq!(attach(segment.0, room + 8, RND)?, room);
    check_err!(detach(room + 8), EINVAL);
    check_err!(detach(room + PAGE), EINVAL);
    detach(room)?;
    check_err!(detach(room), EINVAL);
    check_err!(detach(room + 3 * PAGE), EINVAL);
    Ok(munmap(room, 4 * PAGE)?)
}

fn shm_remap() -> Outcome {
    let segment = Segment::of(1)?;
    let room = mmap(
        0,
        3 * PAGE,
        RW,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    (0..3).for_each(|n| store(room + n * PAGE, 5));
    check_err!(attach(segment.0, 0, REMAP), EINVAL);
    check_eq!(attach(segment.0, room + PAGE, REMAP)?, room + PAGE);
    let found = [0, 1, 2].map(|n| load(room + n * PAGE));
    check_eq!(found, [5, 0, 5]);
    detach(room + PAGE)?;
    fault::arm();
    check!(fault::read(room + PAGE).is_err());
    Ok(munmap(room, 3 * PAGE)?)
}

fn shm_read_only() -> Outcome {
    fault::arm();
    let segment = Segment::of(1)?;
    let (at, to) = (attach(segment.0, 0, RDONLY)?, attach(segment.0, 0, 0)?);
    store(to, 3);
    check_eq!(load(at), 3);
    check!(fault::write(at, 1).is_err());
    check_err!(mprotect(at, PAGE, RW), EACCES);
    check_eq!(load(at), 3);
    detach(at)?;
    Ok(detach(to)?)
}

fn shm_executable() -> Outcome {
    let segment = Segment::of(1)?;
    let at = attach(segment.0, 0, EXEC)?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.contains(&format!("{at:x}-")));
    check!(line.is_some_and(|line| line.contains(" rwxs ")), "{line:?}");
    Ok(detach(at)?)
}

fn shm_removed_when_detached() -> Outcome {
    let segment = Segment(get(key(), PAGE, CREAT | 0o600)?);
    let at = attach(segment.0, 0, 0)?;
    store(at, 4);
    segment.remove()?;
    let stat = segment.stat()?;
    check_eq!([stat.mode, stat.attachments as u32], [DEST | 0o600, 1]);
    check_eq!(stat.key, PRIVATE);
    check_err!(get(key(), PAGE, 0), ENOENT);
    // Its number still finds it, and a new one may have the key.
    let again = attach(segment.0, 0, 0)?;
    check_eq!(load(again), 4);
    let other = Segment(get(key(), PAGE, CREAT | EXCL | 0o600)?);
    segment.remove()?;
    check_eq!(get(key(), PAGE, 0)?, other.0);
    detach(at)?;
    check_eq!(segment.stat()?.attachments, 1);
    detach(again)?;
    gone(segment.0)
}

fn shm_removed_by_munmap() -> Outcome {
    let segment = Segment::of(3)?;
    let at = attach(segment.0, 0, 0)?;
    segment.remove()?;
    munmap(at + PAGE, PAGE)?;
    check_eq!(segment.stat()?.attachments, 2);
    munmap(at, PAGE)?;
    check_eq!(segment.stat()?.attachments, 1);
    munmap(at + 2 * PAGE, PAGE)?;
    gone(segment.0)
}

fn shm_removed_by_exit() -> Outcome {
    let segment = Segment::of(1)?;
    in_child(|| {
        attach(segment.0, 0, 0)?;
        segment.remove()?;
        Ok((segment.stat()?.attachments != 1).into())
    })?;
    gone(segment.0)
}

fn shm_removed_by_exec() -> Outcome {
    let segment = Segment::of(1)?;
    attach(segment.0, 0, 0)?;
    // The program that is started finds no attachment, and the parent has detached it.
    let status = in_child(|| {
        let program = std::env::current_exe()?;
        let program = program.to_string_lossy().into_owned();
        let arguments = ["selftests", "--as", "exit", "7"].map(String::from);
        let why = proc::exec(&program, &arguments, &proc::environ());
        Err(why.into())
    })?;
    check_eq!(status, Status::Exited(7));
    check_eq!(segment.stat()?.attachments, 1);
    check!(segment.stat()?.detached != 0);
    Ok(())
}

fn shm_detaches_what_is_left() -> Outcome {
    fault::arm();
    let segment = Segment::of(6)?;
    let at = attach(segment.0, 0, 0)?;
    munmap(at, PAGE)?;
    mprotect(at + 2 * PAGE, PAGE, libc::PROT_READ)?;
    munmap(at + 4 * PAGE, PAGE)?;
    // Pages 1, 2, 3 and 5.
    check_eq!(segment.stat()?.attachments, 4);
    let other = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    mmap(at + 4 * PAGE, PAGE, RW, other, -1, 0)?;
    check_err!(detach(at + PAGE), EINVAL);
    detach(at)?;
    check_eq!(segment.stat()?.attachments, 0);
    for n in [1, 2, 3, 5] {
        check!(fault::read(at + n * PAGE).is_err(), "page {n} is there");
    }
    store(at + 4 * PAGE, 1);
    Ok(munmap(at + 4 * PAGE, PAGE)?)
}

fn shm_moved() -> Outcome {
    let segment = Segment::of(2)?;
    let at = attach(segment.0, 0, 0)?;
    store(at + PAGE, 9);
    let room = mmap(
        0,
        2 * PAGE,
        RW,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    check_eq!(mremap(at, 2 * PAGE, 2 * PAGE, flags, room)?, room);
    check_eq!(load(room + PAGE), 9);
    check_eq!(segment.stat()?.attachments, 1);
    check_err!(detach(at), EINVAL);
    detach(room)?;
    check_eq!(segment.stat()?.attachments, 0);
    Ok(())
}

fn shm_children() -> Outcome {
    let segment = Segment::of(1)?;
    let at = attach(segment.0, 0, 0)?;
    let status = in_child(|| {
        let stat = segment.stat()?;
        let inherited = stat.attachments == 2 && stat.last_pid == proc::getppid();
        detach(at)?;
        let stat = segment.stat()?;
        let detached = stat.attachments == 1 && stat.last_pid == proc::getpid();
        attach(segment.0, 0, 0)?;
        Ok((inherited && detached).into())
    })?;
    check_eq!(status, Status::Exited(1));
    let stat = segment.stat()?;
    check_eq!(stat.attachments, 1);
    check!(stat.last_pid != proc::getpid(), "the child was the last");
    detach(at)?;
    check_eq!(segment.stat()?.last_pid, proc::getpid());
    Ok(())
}

fn shm_status() -> Outcome {
    let before = now()?;
    let segment = Segment(get(PRIVATE, 5000, 0o1640)?);
    let stat = segment.stat()?;
    let (uid, pid) = (proc::geteuid(), proc::getpid());
    check_eq!([stat.uid, stat.creator.0], [uid, uid]);
    check_eq!(stat.gid, stat.creator.1);
    check_eq!([stat.creator.2, stat.last_pid], [pid, 0]);
    check_eq!([stat.mode, stat.attachments as u32], [0o640, 0]);
    check_eq!([stat.size, stat.attached, stat.detached], [5000, 0, 0]);
    check!((before..=now()?).contains(&stat.changed), "{stat:?}");
    let at = attach(segment.0, 0, 0)?;
    let stat = segment.stat()?;
    check!((before..=now()?).contains(&stat.attached), "{stat:?}");
    check_eq!([stat.last_pid, stat.attachments as i32], [pid, 1]);
    check_eq!(stat.detached, 0);
    detach(at)?;
    let stat = segment.stat()?;
    check!((before..=now()?).contains(&stat.detached), "{stat:?}");
    check_eq!(stat.attachments, 0);
    let wrong = [segment.0 as usize, STAT as usize, 8, 0, 0, 0];
    check_err!(call(libc::SYS_shmctl, wrong), EFAULT);
    Ok(())
}

fn shm_set() -> Outcome {
    let segment = Segment::of(1)?;
    let mut words = Words::default();
    control(segment.0, STAT, &mut words)?;
    words[2] = 0o7444 << 32;
    // Not for IPC_SET.
    words[6] = 1;
    control(segment.0, SET, &mut words)?;
    let stat = segment.stat()?;
    check_eq!([stat.mode, stat.uid], [0o444, proc::geteuid()]);
    check_eq!(stat.size, PAGE as u64);
    words[0] = u64::MAX << 32;
    check_err!(control(segment.0, SET, &mut words), EINVAL);
    let wrong = [segment.0 as usize, SET as usize, 8, 0, 0, 0];
    check_err!(call(libc::SYS_shmctl, wrong), EFAULT);
    Ok(())
}

fn shm_lock() -> Outcome {
    let segment = Segment::of(1)?;
    let mut words = Words::default();
    control(segment.0, LOCK, &mut words)?;
    check_eq!(segment.stat()?.mode, LOCKED | 0o600);
    control(segment.0, UNLOCK, &mut words)?;
    check_eq!(segment.stat()?.mode, 0o600);
    Ok(())
}

fn shm_info() -> Outcome {
    let segment = Segment::of(3)?;
    let at = attach(segment.0, 0, 0)?;
    store(at, 1);
    let mut words = Words::default();
    let highest = control(0, IPC_INFO, &mut words)?;
    check_eq!(words[1], 1);
    for (n, name) in [(0, "shmmax"), (2, "shmmni"), (4, "shmall")] {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"))?;
        check_eq!(format!("{}\n", words[n]), text);
    }
    let mut words = Words::default();
    check_eq!(control(0, INFO, &mut words)?, highest);
    check!(
        words[0] as u32 >= 1 && words[1] >= 3 && words[2] >= 1,
        "{words:?}"
    );
    // One of the indices has it.
    let found = (0..=highest as i32).find(|index| {
        let id = control(*index, STAT_INDEX, &mut words);
        id.is_ok_and(|id| id == segment.0 as usize)
    });
    check_eq!(words[6], 3 * PAGE as u64);
    let found = found.ok_or(Stop::Fail("it has no index".into()))?;
    check_eq!(control(found, STAT_ANY, &mut words)?, segment.0 as usize);
    check_err!(control(32767, STAT_INDEX, &mut words), EINVAL);
    Ok(detach(at)?)
}

/// A limit in /proc/sys/kernel, which is as before when the test ends.
struct Limit(String, String);

impl Limit {
    fn set(name: &str, value: u64) -> std::result::Result<Limit, Stop> {
        let path = format!("/proc/sys/kernel/{name}");
        let before = std::fs::read_to_string(&path)?;
        match std::fs::write(&path, value.to_string()) {
            Ok(()) => Ok(Limit(path, before)),
            Err(why) => Err(Stop::Skip(format!("{path}: {why}"))),
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.0, &self.1);
    }
}

fn shm_limits() -> Outcome {
    let mut words = Words::default();
    control(0, INFO, &mut words)?;
    let (segments, pages) = (u64::from(words[0] as u32), words[1]);
    {
        let _limit = Limit::set("shmmni", segments + 1)?;
        let _one = Segment::of(1)?;
        check_err!(Segment::of(1).map(drop), ENOSPC);
    }
    {
        let _limit = Limit::set("shmall", pages + 3)?;
        let _one = Segment::of(2)?;
        check_err!(Segment::of(2).map(drop), ENOSPC);
        let _other = Segment::of(1)?;
    }
    let _limit = Limit::set("shmmax", 2 * PAGE as u64)?;
    let _one = Segment::of(2)?;
    check_err!(get(PRIVATE, 2 * PAGE + 1, 0o600), EINVAL);
    Ok(())
}

fn shm_views() -> Outcome {
    let key = key();
    let segment = Segment(get(key, 2 * PAGE, CREAT | 0o604)?);
    let at = attach(segment.0, 0, 0)?;
    store(at, 1);
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let name = format!("/SYSV{key:08x} (deleted)");
    let line = maps.lines().find(|line| line.ends_with(&name));
    let line = line.ok_or(Stop::Fail(maps.clone()))?;
    let words: Vec<_> = line.split_whitespace().collect();
    check_eq!(words[1..4], ["rw-s", "00000000", "00:01"]);
    check_eq!(words[4], segment.0.to_string());
    let table = std::fs::read_to_string("/proc/sysvipc/shm")?;
    let mut lines = table.lines();
    let head: Vec<_> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    check_eq!(head[..4], ["key", "shmid", "perms", "size"]);
    check_eq!(head[13..], ["ctime", "rss", "swap"]);
    let start = format!("{key:10} {:10}  {:4o} {:21} ", segment.0, 0o604, 2 * PAGE);
    let line = lines.find(|line| line.starts_with(&start));
    let line = line.ok_or(Stop::Fail(table.clone()))?;
    let words: Vec<_> = line.split_whitespace().collect();
    check_eq!(words.len(), 16);
    let pid = proc::getpid().to_string();
    check_eq!([words[4], words[5], words[6]], [&*pid, &*pid, "1"]);
    check_eq!([words[14], words[15]], ["4096", "0"]);
    Ok(detach(at)?)
}
