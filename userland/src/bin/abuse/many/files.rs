//! Very many descriptors, locks, bytes and pieces of memory in one call.
use super::more;
use std::fs;
use userland::sys::mem::{ANON, PAGE, RW, mmap};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, call, file};

/// Descriptors: the most that a process may have.
const FDS: usize = 1 << 16;

fn all_descriptors() -> Result<usize> {
    more(libc::RLIMIT_NOFILE, FDS)?;
    let mut last = 0;
    while let Ok(fd) = file::dup(1) {
        last = fd as usize;
    }
    Ok(last + 1)
}

/// A full table: searched, shown, copied, closed.
pub fn descriptors() -> Result<()> {
    let count = all_descriptors()?;
    for _ in 0..3 {
        let _ = file::dup(1);
    }
    call(libc::SYS_close_range, [1000, count, 4, 0, 0, 0])?;
    file::close(3)?;
    for _ in fs::read_dir("/proc/self/fd")? {}
    match proc::fork()? {
        Fork::Child => {
            let args = ["sh", "-c", "exit 0"].map(str::to_owned);
            proc::exec("/bin/sh", &args, &[]);
            proc::exit_now(1)
        }
        Fork::Parent(pid) => proc::wait_for(pid)?,
    };
    match proc::fork()? {
        Fork::Child => proc::exit_now(0),
        Fork::Parent(pid) => proc::wait_for(pid)?,
    };
    call(libc::SYS_close_range, [3, u32::MAX as usize, 0, 0, 0, 0]).map(drop)
}

/// Each descriptor another file, all closed by the process's end.
pub fn pipes() -> Result<()> {
    more(libc::RLIMIT_NOFILE, FDS)?;
    while file::pipe(0).is_ok() {}
    Ok(())
}

pub fn poll() -> Result<()> {
    let count = all_descriptors()?;
    let fds: Vec<u64> = (0..count as u64).collect();
    let at = fds.as_ptr() as usize;
    let now = [0u64; 2];
    let zero = now.as_ptr() as usize;
    call(libc::SYS_ppoll, [at, count, zero, 0, 0, 0])?;
    let set = vec![u64::MAX; count / 64];
    let at = set.as_ptr() as usize;
    call(libc::SYS_pselect6, [count, at, 0, 0, zero, 0]).map(drop)
}

/// flock by many open files.
pub fn locks() -> Result<()> {
    more(libc::RLIMIT_NOFILE, FDS)?;
    fs::write("lock", "")?;
    let mut fds = Vec::new();
    while let Ok(fd) = file::open("lock", libc::O_RDONLY, 0) {
        call(
            libc::SYS_flock,
            [fd as usize, libc::LOCK_SH as usize, 0, 0, 0, 0],
        )?;
        fds.push(fd);
        if fds.len() == 20_000 {
            break;
        }
    }
    let last = fds[fds.len() - 1] as usize;
    let _ = call(
        libc::SYS_flock,
        [last, (libc::LOCK_EX | libc::LOCK_NB) as usize, 0, 0, 0, 0],
    );
    Ok(fs::remove_file("lock")?)
}

/// 1024 pieces of memory in one call, and none but the last with a byte in it.
pub fn vectors() -> Result<()> {
    let fd = file::open("/dev/zero", libc::O_RDWR, 0)?;
    let page = mmap(0, 64 * PAGE, RW, ANON, -1, 0)?;
    let full = [[page, 64 * PAGE]; 1024];
    let empty = [[page, 0usize]; 1024];
    for vector in [&full, &empty] {
        let at = vector.as_ptr() as usize;
        for nr in [libc::SYS_readv, libc::SYS_writev] {
            call(nr, [fd as usize, at, 1024, 0, 0, 0])?;
        }
        let me = proc::getpid() as usize;
        for nr in [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev] {
            let result = call(nr, [me, at, 1024, at, 1024, 0]);
            if result.is_err_and(|e| e != Errno(libc::ENOSYS)) {
                return result.map(drop);
            }
        }
    }
    Ok(())
}

/// Many bytes at once, where few are meant.
pub fn bytes() -> Result<()> {
    // Carriage returns, which change no screen.
    let text = vec![b'\r'; 1 << 20];
    let names = [
        "/dev/console",
        "/dev/null",
        "/dev/kmsg",
        "/proc/self/comm",
        "/proc/self/oom_score_adj",
        "/proc/self/clear_refs",
        "/proc/sys/kernel/randomize_va_space",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ];
    for name in names {
        if let Ok(fd) = file::open(name, libc::O_WRONLY, 0) {
            let _ = file::write(fd, &text);
            file::close(fd)?;
        }
    }
    for name in [
        "/dev/zero",
        "/dev/urandom",
        "/proc/kpagecount",
        "/proc/kpageflags",
        "/proc/kpageowner",
    ] {
        read_all_once(name);
    }
    Ok(())
}

fn read_all_once(name: &str) {
    let mut buffer = vec![0; 64 << 20];
    if let Ok(fd) = file::open(name, libc::O_RDONLY, 0) {
        let _ = file::read(fd, &mut buffer);
        let _ = file::close(fd);
    }
}
