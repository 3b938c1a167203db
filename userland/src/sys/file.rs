//! Files, pipes, with descriptors by number.
use super::{Result, call, check, cstr};

/// open(2); close-on-exec only when asked.
pub fn open(path: &str, flags: i32, mode: u32) -> Result<i32> {
    let path = cstr(path)?;
    // SAFETY: the string ends with NUL and outlives the call.
    check(unsafe { libc::open(path.as_ptr(), flags, mode) }).map(|n| n as i32)
}

/// open(2) of an existing file by a name that needs no memory.
pub fn open_cstr(path: &std::ffi::CStr, flags: i32) -> Result<i32> {
    // SAFETY: the string ends with NUL.
    check(unsafe { libc::open(path.as_ptr(), flags) }).map(|n| n as i32)
}

/// close(2).
pub fn close(fd: i32) -> Result<()> {
    // SAFETY: only a number goes over; descriptors here are numbers, not owned objects.
    check(unsafe { libc::close(fd) }).map(|_| ())
}

/// read(2) into `buf`: bytes read, 0 at the end.
pub fn read(fd: i32, buf: &mut [u8]) -> Result<usize> {
    // SAFETY: pointer and length describe `buf`.
    check(unsafe { libc::read(fd, buf.as_mut_ptr().cast(), buf.len()) } as i64)
}

/// write(2) of `buf`: bytes written.
pub fn write(fd: i32, buf: &[u8]) -> Result<usize> {
    // SAFETY: pointer and length describe `buf`.
    check(unsafe { libc::write(fd, buf.as_ptr().cast(), buf.len()) } as i64)
}

/// pread(2).
pub fn pread(fd: i32, buf: &mut [u8], at: i64) -> Result<usize> {
    // SAFETY: pointer and length describe `buf`.
    check(unsafe { libc::pread(fd, buf.as_mut_ptr().cast(), buf.len(), at) } as i64)
}

/// pwrite(2).
pub fn pwrite(fd: i32, buf: &[u8], at: i64) -> Result<usize> {
    // SAFETY: pointer and length describe `buf`.
    check(unsafe { libc::pwrite(fd, buf.as_ptr().cast(), buf.len(), at) } as i64)
}

/// Writes all of `buf`, across short writes and interruptions.
pub fn write_all(fd: i32, mut buf: &[u8]) -> Result<()> {
    while !buf.is_empty() {
        match write(fd, buf) {
            Ok(n) => buf = &buf[n..],
            Err(e) if e.0 == libc::EINTR => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// lseek(2): the new position.
pub fn lseek(fd: i32, offset: i64, whence: i32) -> Result<u64> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::lseek(fd, offset, whence) }).map(|n| n as u64)
}

/// A file without a name in the tree; `flags` are MFD_*.
pub fn memfd(flags: u32) -> Result<i32> {
    // SAFETY: the name is a string that lives through the call.
    check(unsafe { libc::memfd_create(c"memory".as_ptr(), flags) }).map(|fd| fd as i32)
}

/// ftruncate(2).
pub fn ftruncate(fd: i32, len: i64) -> Result<()> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::ftruncate(fd, len) }).map(|_| ())
}

/// The mode of [`fallocate`] that makes a hole.
pub const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// fallocate(2).
pub fn fallocate(fd: i32, mode: i32, from: usize, len: usize) -> Result<usize> {
    let arguments = [fd as usize, mode as usize, from, len, 0, 0];
    call(libc::SYS_fallocate, arguments)
}

/// dup(2).
pub fn dup(fd: i32) -> Result<i32> {
    // SAFETY: only a number goes over.
    check(unsafe { libc::dup(fd) }).map(|n| n as i32)
}

/// dup2(2).
pub fn dup2(from: i32, to: i32) -> Result<i32> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::dup2(from, to) }).map(|n| n as i32)
}

/// fcntl(2) with a number as argument.
pub fn fcntl(fd: i32, cmd: i32, arg: i64) -> Result<i32> {
    // SAFETY: callers use the commands that take a number; one that takes a pointer gets an address
    // the kernel checks.
    check(unsafe { libc::fcntl(fd, cmd, arg) }).map(|n| n as i32)
}

/// pipe2(2): (read end, write end).
pub fn pipe(flags: i32) -> Result<(i32, i32)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), flags) })?;
    Ok((ends[0], ends[1]))
}

/// socketpair(2).
pub fn socketpair(family: i32, kind: i32, protocol: i32) -> Result<(i32, i32)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::socketpair(family, kind, protocol, ends.as_mut_ptr()) })?;
    Ok((ends[0], ends[1]))
}

/// vmsplice(2) of `len` bytes at `at`: returns the bytes that the pipe took.
pub fn vmsplice(fd: i32, at: usize, len: usize, flags: usize) -> Result<usize> {
    let vector = [at, len];
    call(
        libc::SYS_vmsplice,
        [fd as usize, vector.as_ptr() as usize, 1, flags, 0, 0],
    )
}

/// poll(2) on one descriptor: the events that hold, 0 after `timeout_ms` (-1: none).
pub fn poll(fd: i32, events: i16, timeout_ms: i32) -> Result<i16> {
    let mut p = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one pollfd of ours.
    check(unsafe { libc::poll(&mut p, 1, timeout_ms) })?;
    Ok(p.revents)
}

/// umask(2): the old mask.
pub fn umask(mask: u32) -> u32 {
    // SAFETY: only a number goes over; cannot fail.
    unsafe { libc::umask(mask as _) as u32 }
}

/// mkfifo-free way to make a device node: mknod(2).
pub fn mknod(path: &str, mode: u32, major: u32, minor: u32) -> Result<()> {
    let path = cstr(path)?;
    // SAFETY: the string ends with NUL and outlives the call.
    check(unsafe { libc::mknod(path.as_ptr(), mode as _, libc::makedev(major, minor)) }).map(|_| ())
}
