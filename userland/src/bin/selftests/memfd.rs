//! memfd_create(2): seals, which fail what they forbid, and holes, fallocate(2).
use userland::harness::{Outcome, need};
use userland::sys::file::{PUNCH, fallocate};
use userland::sys::mem::{PAGE, RW, load, mmap, mprotect, munmap, store};
use userland::sys::{Result, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    memfd_flags,
    memfd_seal_write,
    memfd_seal_future_write,
    memfd_seal_size,
    memfd_seal_seal,
    memfd_seal_exec,
    memfd_punch,
    memfd_punch_keeps_copies,
    memfd_holes_are_found,
];

const SHARED: i32 = libc::MAP_SHARED;
const READ: i32 = libc::PROT_READ;
const NOEXEC_SEAL: u32 = libc::MFD_NOEXEC_SEAL;
/// fcntl(2)'s seal of Linux 6.3.
const SEAL_EXEC: i32 = 0x20;

/// A file of `pages` that may be sealed.
pub fn sealable(pages: usize) -> std::result::Result<i32, userland::harness::Stop> {
    let fd = need(file::memfd(libc::MFD_ALLOW_SEALING), "memfd_create")?;
    file::ftruncate(fd, (pages * PAGE) as i64)?;
    Ok(fd)
}

pub fn seal(fd: i32, seals: i32) -> Result<()> {
    file::fcntl(fd, libc::F_ADD_SEALS, seals.into()).map(drop)
}

fn seals(fd: i32) -> Result<i32> {
    file::fcntl(fd, libc::F_GET_SEALS, 0)
}

fn memfd_flags() -> Outcome {
    check_err!(file::memfd(0x8000), EINVAL);
    check_err!(file::memfd(NOEXEC_SEAL | libc::MFD_EXEC), EINVAL);
    check_eq!(seals(file::memfd(0)?)?, libc::F_SEAL_SEAL);
    check_eq!(seals(file::memfd(libc::MFD_ALLOW_SEALING)?)?, 0);
    let fd = file::memfd(0)?;
    check_err!(seal(fd, libc::F_SEAL_GROW), EPERM);
    check_err!(seal(fd, 0), EPERM);
    let (_, tell) = file::pipe(0)?;
    check_err!(seals(tell), EINVAL);
    check_err!(seal(tell, libc::F_SEAL_GROW), EINVAL);
    let null = file::open("/dev/null", libc::O_RDONLY, 0)?;
    check_err!(seal(null, libc::F_SEAL_GROW), EPERM);
    Ok(())
}

fn memfd_seal_write() -> Outcome {
    let fd = sealable(2)?;
    check_err!(seal(fd, 0x100), EINVAL);
    // Not while there is a shared mapping that may be made writable.
    for prot in [RW, READ] {
        let at = mmap(0, 2 * PAGE, prot, SHARED, fd, 0)?;
        check_err!(seal(fd, libc::F_SEAL_WRITE), EBUSY);
        check_err!(seal(fd, libc::F_SEAL_WRITE | libc::F_SEAL_GROW), EBUSY);
        check_eq!(seals(fd)?, 0);
        munmap(at, 2 * PAGE)?;
    }
    let private = mmap(0, PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    seal(fd, libc::F_SEAL_WRITE)?;
    store(private, 1);
    check_err!(file::write(fd, b"x"), EPERM);
    check_err!(file::pwrite(fd, b"x", 100_000), EPERM);
    check_eq!(file::pwrite(fd, b"", 0)?, 0);
    check_err!(fallocate(fd, PUNCH, 0, PAGE), EPERM);
    check_err!(mmap(0, PAGE, RW, SHARED, fd, 0), EPERM);
    check_err!(mmap(0, PAGE, libc::PROT_WRITE, SHARED, fd, 0), EPERM);
    let at = mmap(0, PAGE, READ, SHARED, fd, 0)?;
    check_err!(mprotect(at, PAGE, RW), EACCES);
    check_eq!(load(at), 0);
    // Its size may change.
    fallocate(fd, 0, 0, 4 * PAGE)?;
    file::ftruncate(fd, PAGE as i64)?;
    // An open file of its own obeys them, too.
    let again = file::open(&format!("/proc/self/fd/{fd}"), libc::O_RDWR, 0)?;
    check_err!(file::write(again, b"x"), EPERM);
    check_eq!(seals(again)?, libc::F_SEAL_WRITE);
    Ok(())
}

fn memfd_seal_future_write() -> Outcome {
    let fd = sealable(2)?;
    let at = mmap(0, 2 * PAGE, RW, SHARED, fd, 0)?;
    seal(fd, libc::F_SEAL_FUTURE_WRITE)?;
    check_eq!(seals(fd)?, libc::F_SEAL_FUTURE_WRITE);
    // What is mapped stays as it is.
    store(at, 5);
    mprotect(at, PAGE, READ)?;
    mprotect(at, PAGE, RW)?;
    store(at, 6);
    check_err!(file::write(fd, b"x"), EPERM);
    check_err!(mmap(0, PAGE, RW, SHARED, fd, 0), EPERM);
    check_err!(fallocate(fd, PUNCH, 0, PAGE), EPERM);
    let reader = mmap(0, PAGE, READ, SHARED, fd, 0)?;
    check_eq!(load(reader), 6);
    check_err!(mprotect(reader, PAGE, RW), EACCES);
    let copy = mmap(0, PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    store(copy, 7);
    check_eq!(load(at), 6);
    Ok(())
}

fn memfd_seal_size() -> Outcome {
    let fd = sealable(2)?;
    let size = || file::lseek(fd, 0, libc::SEEK_END);
    seal(fd, libc::F_SEAL_GROW)?;
    check_err!(file::ftruncate(fd, 2 * PAGE as i64 + 1), EPERM);
    file::ftruncate(fd, 100)?;
    check_err!(file::ftruncate(fd, 101), EPERM);
    check_err!(file::pwrite(fd, &[1; 200], 0), EPERM);
    check_err!(file::pwrite(fd, &[1], 100), EPERM);
    check_eq!(file::pwrite(fd, &[1; 100], 0)?, 100);
    check_eq!(fallocate(fd, 0, 0, 100)?, 0);
    check_err!(fallocate(fd, 0, 0, 101), EPERM);
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    check_err!(fallocate(fd, keep, 0, PAGE), EPERM);
    check_eq!(size()?, 100);
    seal(fd, libc::F_SEAL_SHRINK)?;
    check_err!(file::ftruncate(fd, 99), EPERM);
    file::ftruncate(fd, 100)?;
    fallocate(fd, PUNCH, 0, PAGE)?;
    let emptied = file::open(
        &format!("/proc/self/fd/{fd}"),
        libc::O_RDWR | libc::O_TRUNC,
        0,
    );
    check_err!(emptied, EPERM);
    check_eq!(size()?, 100);
    Ok(())
}

fn memfd_seal_seal() -> Outcome {
    let fd = sealable(1)?;
    let reader = file::open(&format!("/proc/self/fd/{fd}"), libc::O_RDONLY, 0)?;
    check_err!(seal(reader, libc::F_SEAL_GROW), EPERM);
    seal(fd, libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK)?;
    check_err!(seal(fd, libc::F_SEAL_GROW), EPERM);
    check_err!(seal(fd, 0), EPERM);
    check_eq!(seals(reader)?, libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK);
    Ok(())
}

fn memfd_seal_exec() -> Outcome {
    let chmod = |fd: i32, mode| call(libc::SYS_fchmod, [fd as usize, mode, 0, 0, 0, 0]);
    let data = file::memfd(NOEXEC_SEAL)?;
    check_eq!(seals(data)?, SEAL_EXEC);
    check_err!(chmod(data, 0o777), EPERM);
    chmod(data, 0o600)?;
    seal(data, libc::F_SEAL_GROW)?;
    // What is a program stays one, and as it is.
    let program = sealable(1)?;
    seal(program, SEAL_EXEC)?;
    check_err!(chmod(program, 0o666), EPERM);
    let write = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
    let size = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    check_eq!(seals(program)?, SEAL_EXEC | write | size);
    check_err!(file::write(program, b"x"), EPERM);
    Ok(())
}

fn memfd_punch() -> Outcome {
    let fd = need(file::memfd(0), "memfd_create")?;
    file::write_all(fd, &[7; 3 * 4096])?;
    check_err!(fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE, 0, 1), EOPNOTSUPP);
    check_err!(fallocate(fd, PUNCH, 0, 0), EINVAL);
    fallocate(fd, PUNCH, 100, 200)?;
    let mut buf = [0u8; 4096];
    file::pread(fd, &mut buf, 0)?;
    check!((0..4096).all(|n| (buf[n] == 0) == (100..300).contains(&n)));
    // All of it, and what lies behind; the size stays.
    let blocks = || {
        std::fs::metadata(format!("/proc/self/fd/{fd}")).map(|m| {
            use std::os::unix::fs::MetadataExt;
            (m.len(), m.blocks())
        })
    };
    fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 8 * PAGE)?;
    check_eq!(blocks()?, (3 * 4096, 8 * PAGE as u64 / 512));
    fallocate(fd, PUNCH, 0, 1 << 40)?;
    check_eq!(blocks()?, (3 * 4096, 0));
    Ok(())
}

fn memfd_punch_keeps_copies() -> Outcome {
    let fd = need(file::memfd(0), "memfd_create")?;
    file::write_all(fd, &[7; 4 * 4096])?;
    let sevens = u64::from_ne_bytes([7; 8]);
    let shared = mmap(0, 4 * PAGE, RW, SHARED, fd, 0)?;
    let private = mmap(0, 4 * PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    (0..4).for_each(|n| store(private + n * PAGE, n as u64));
    check_eq!(load(shared + 3 * PAGE), sevens);
    fallocate(fd, PUNCH, PAGE, 2 * PAGE)?;
    // The file's pages went out of both mappings, the copies did not, nor did what lies behind the
    // hole.
    let words = |at: usize| [0, 1, 2, 3].map(|n| load(at + n * PAGE));
    check_eq!(words(shared), [sevens, 0, 0, sevens]);
    check_eq!(words(private), [0, 1, 2, 3]);
    Ok(())
}

/// SEEK_DATA and SEEK_HOLE go by pages.
fn memfd_holes_are_found() -> Outcome {
    const PAGES: usize = 1000;
    let fd = file::memfd(0)?;
    file::ftruncate(fd, (PAGES * PAGE + 100) as i64)?;
    let end = (PAGES * PAGE + 100) as u64;
    let data = |from: usize| file::lseek(fd, from as i64, libc::SEEK_DATA);
    let hole = |from: usize| file::lseek(fd, from as i64, libc::SEEK_HOLE);
    check_err!(data(0), ENXIO);
    check_eq!((hole(0)?, hole(5)?), (0, 5));
    for page in (2..600).chain(700..701).chain(PAGES..PAGES + 1) {
        file::pwrite(fd, &[1], (page * PAGE) as i64)?;
    }
    let at = |page: usize| (page * PAGE) as u64;
    check_eq!((data(7)?, data(3 * PAGE + 5)?), (at(2), at(3) + 5));
    check_eq!((hole(7)?, hole(3 * PAGE + 5)?), (7, at(600)));
    check_eq!((data(600 * PAGE)?, hole(700 * PAGE)?), (at(700), at(701)));
    check_eq!((data(701 * PAGE)?, hole(PAGES * PAGE)?), (at(PAGES), end));
    // The position is where it was found, or unchanged.
    check_eq!(file::lseek(fd, 0, libc::SEEK_CUR)?, end);
    check_err!(data(end as usize), ENXIO);
    check_err!(hole(end as usize), ENXIO);
    check_eq!(file::lseek(fd, 0, libc::SEEK_CUR)?, end);
    Ok(file::close(fd)?)
}
