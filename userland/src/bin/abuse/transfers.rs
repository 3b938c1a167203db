//! Single calls that move as much as can be asked for. Each lets others run, and ends soon when its
//! process is to end.
use super::Outcome;
use std::time::Duration;
use userland::sys::mem::{ANON, PAGE, RW, mmap, mprotect};
use userland::sys::proc::{self, Fork};
use userland::sys::time::{self, Running};
use userland::sys::{Result, call, file};

const MIB: usize = 1 << 20;
/// The largest size and count.
const ALL: usize = i64::MAX as usize;
/// What a process gets for a call before it is killed.
const TIME: Duration = Duration::from_millis(300);
/// What it may take to end, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// A call by name.
type Act = (&'static str, fn() -> Result<usize>);

const ACTS: &[Act] = &[
    ("sendfile of zeros", || {
        send(file::open("/dev/zero", libc::O_RDONLY, 0)?)
    }),
    ("sendfile of a hole", || send(hole()?)),
    ("copy_file_range of a hole", || {
        let args = [hole()? as usize, 0, hole()? as usize, 0, ALL, 0];
        call(libc::SYS_copy_file_range, args)
    }),
    ("getrandom", || {
        call(libc::SYS_getrandom, [room(64)?, 64 * MIB, 0, 0, 0, 0])
    }),
    ("reading urandom", || read("/dev/urandom", 64)),
    ("reading zeros", || read("/dev/zero", 64)),
    ("reading pagemap", || read("/proc/self/pagemap", 64)),
    ("reading kpageflags", || read("/proc/kpageflags", 8)),
    ("reading kpagecount", || read("/proc/kpagecount", 8)),
    ("reading kpageowner", || read("/proc/kpageowner", 8)),
    ("reading kpageaddress", || read("/proc/kpageaddress", 8)),
    ("reading maps", || {
        areas().and_then(|()| read("/proc/self/maps", 16))
    }),
    ("reading smaps", || {
        areas().and_then(|()| read("/proc/self/smaps", 64))
    }),
    ("reading smaps_rollup", || {
        areas().and_then(|()| read("/proc/self/smaps_rollup", 1))
    }),
    ("writev of many pieces", || {
        let (null, at) = (file::open("/dev/full", libc::O_WRONLY, 0)?, room(1)?);
        let pieces = [[at, MIB]; 1024];
        let args = [null as usize, pieces.as_ptr() as usize, 1024, 0, 0, 0];
        call(libc::SYS_writev, args)
    }),
    ("fallocate of everything", || {
        file::fallocate(file::memfd(0)?, 0, 0, ALL - PAGE)
    }),
    ("a file that goes", || {
        let fd = file::memfd(0)?;
        (0..160).try_for_each(|_| file::write_all(fd, &[1; MIB]))?;
        file::fallocate(fd, file::PUNCH, 0, 80 * MIB)?;
        file::ftruncate(fd, 0).map(|()| 0)
    }),
];

/// Each of them in a process of its own.
pub fn each(_: &[String]) -> Outcome {
    for (name, act) in ACTS {
        let took = once(*act).map_err(|error| format!("{name}: {error}"))?;
        println!(
            "abuse: {name}: ended {} ms after it was killed",
            took.as_millis()
        );
        if took > PATIENCE {
            return Err(format!("{name} did not end when it was killed"));
        }
    }
    Ok(format!("{} calls", ACTS.len()))
}

/// Does one in a child, which is killed when its time is over. How long it took to end.
fn once(act: fn() -> Result<usize>) -> Result<Duration> {
    let Fork::Parent(pid) = proc::fork()? else {
        let said = act();
        println!("abuse: {said:?}");
        proc::exit_now(0)
    };
    std::thread::sleep(TIME);
    let mut killed = Running::begin();
    proc::kill(pid, libc::SIGKILL)?;
    while proc::wait(pid, libc::WNOHANG)?.is_none() {
        let _ = time::sleep(1_000_000);
        killed.passed();
    }
    Ok(Duration::from_nanos(killed.passed()))
}

/// A file that is as large as a file may be, and has nothing in it.
fn hole() -> Result<i32> {
    let fd = file::memfd(0)?;
    file::ftruncate(fd, (ALL - PAGE) as i64)?;
    Ok(fd)
}

fn send(from: i32) -> Result<usize> {
    let null = file::open("/dev/null", libc::O_WRONLY, 0)?;
    let args = [null as usize, from as usize, 0, ALL, 0, 0];
    call(libc::SYS_sendfile, args)
}

fn room(mib: usize) -> Result<usize> {
    mmap(0, mib * MIB, RW, ANON, -1, 0)
}

/// One read of so many MiB.
fn read(path: &str, mib: usize) -> Result<usize> {
    let fd = file::open(path, libc::O_RDONLY, 0)?;
    let args = [fd as usize, room(mib)?, mib * MIB, 0, 0, 0];
    call(libc::SYS_read, args)
}

/// As many areas as there may be, nearly.
fn areas() -> Result<()> {
    const AREAS: usize = 60_000;
    let at = mmap(0, AREAS * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    let odd = (0..AREAS).step_by(2);
    odd.map(|n| at + n * PAGE)
        .try_for_each(|at| mprotect(at, PAGE, libc::PROT_READ))
}
