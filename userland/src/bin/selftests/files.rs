//! Files, directories, links, devices, descriptors.
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use userland::harness::{Outcome, need};
use userland::sys::{Errno, call, file, tty};
use userland::{check, check_eq, check_err};

userland::tests![
    open_flags,
    open_refuses,
    read_write_seek,
    read_write_at,
    append_goes_to_the_end,
    truncate_and_extend,
    sparse_file_reads_zero,
    vectors_read_and_write,
    stat_says,
    chmod_and_umask,
    dup_shares_position,
    fcntl_flags,
    device_null_zero_full,
    device_random,
    tty_calls_on_files,
    times_of_files,
    flock_excludes,
    fsync_and_fadvise,
];

fn open_flags() -> Outcome {
    let fd = file::open("f", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644)?;
    file::write_all(fd, b"hello")?;
    check_err!(file::read(fd, &mut [0; 4]), EBADF);
    check_err!(
        file::open("f", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o644),
        EEXIST
    );
    let fd = file::open("f", libc::O_RDONLY, 0)?;
    check_err!(file::write(fd, b"x"), EBADF);
    check_eq!(fs::read("f")?, b"hello");
    let fd = file::open("f", libc::O_RDWR | libc::O_TRUNC, 0)?;
    check_eq!(file::lseek(fd, 0, libc::SEEK_END)?, 0);
    // The lowest free number is taken.
    let (a, b) = (file::dup(fd)?, file::dup(fd)?);
    file::close(a)?;
    check_eq!(file::dup(fd)?, a);
    file::close(b)?;
    check_err!(file::close(b), EBADF);
    Ok(())
}

fn open_refuses() -> Outcome {
    check_err!(file::open("none", libc::O_RDONLY, 0), ENOENT);
    check_err!(
        file::open("none/f", libc::O_RDWR | libc::O_CREAT, 0o600),
        ENOENT
    );
    check_err!(file::open("", libc::O_RDONLY, 0), ENOENT);
    fs::write("f", "")?;
    check_err!(file::open("f/x", libc::O_RDONLY, 0), ENOTDIR);
    check_err!(
        file::open("f", libc::O_RDONLY | libc::O_DIRECTORY, 0),
        ENOTDIR
    );
    check_err!(file::open(".", libc::O_RDWR, 0), EISDIR);
    let dir = file::open(".", libc::O_RDONLY, 0)?;
    check_err!(file::read(dir, &mut [0; 8]), EISDIR);
    symlink("f", "l")?;
    check_err!(file::open("l", libc::O_RDONLY | libc::O_NOFOLLOW, 0), ELOOP);
    Ok(())
}

fn read_write_seek() -> Outcome {
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    let data: Vec<u8> = (0..20_000u32).map(|n| (n * 7) as u8).collect();
    file::write_all(fd, &data)?;
    check_eq!(file::lseek(fd, 0, libc::SEEK_CUR)?, 20_000);
    check_eq!(file::read(fd, &mut [0; 8])?, 0);
    check_eq!(file::lseek(fd, 4090, libc::SEEK_SET)?, 4090);
    let mut buf = [0u8; 12];
    check_eq!(file::read(fd, &mut buf)?, 12);
    check_eq!(&buf[..], &data[4090..4102]);
    check_eq!(file::lseek(fd, -3, libc::SEEK_END)?, 19_997);
    check_eq!(file::read(fd, &mut buf)?, 3);
    check_err!(file::lseek(fd, -1, libc::SEEK_SET), EINVAL);
    check_err!(file::lseek(fd, 0, 77), EINVAL);
    check_err!(file::lseek(999, 0, libc::SEEK_SET), EBADF);
    // Behind the end a write leaves a hole.
    file::lseek(fd, 30_000, libc::SEEK_SET)?;
    file::write_all(fd, b"end")?;
    let all = fs::read("f")?;
    check_eq!(all.len(), 30_003);
    check!(all[20_000..30_000].iter().all(|&b| b == 0));
    Ok(())
}

fn read_write_at() -> Outcome {
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, b"0123456789")?;
    let mut buf = [0u8; 4];
    check_eq!(file::pread(fd, &mut buf, 3)?, 4);
    check_eq!(&buf, b"3456");
    file::pwrite(fd, b"ab", 5)?;
    check_eq!(file::lseek(fd, 0, libc::SEEK_CUR)?, 10);
    check_eq!(fs::read("f")?, b"01234ab789");
    check_err!(file::pread(fd, &mut buf, -1), EINVAL);
    let (hear, _tell) = file::pipe(0)?;
    check_err!(file::pread(hear, &mut buf, 0), ESPIPE);
    check_err!(file::lseek(hear, 0, libc::SEEK_SET), ESPIPE);
    Ok(())
}

fn append_goes_to_the_end() -> Outcome {
    fs::write("f", "one ")?;
    let a = file::open("f", libc::O_WRONLY | libc::O_APPEND, 0)?;
    let b = file::open("f", libc::O_WRONLY | libc::O_APPEND, 0)?;
    file::write_all(a, b"two ")?;
    file::write_all(b, b"three ")?;
    file::lseek(a, 0, libc::SEEK_SET)?;
    file::write_all(a, b"four")?;
    check_eq!(fs::read_to_string("f")?, "one two three four");
    Ok(())
}

fn truncate_and_extend() -> Outcome {
    fs::write("f", vec![b'x'; 10_000])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    file::ftruncate(fd, 5000)?;
    file::ftruncate(fd, 9000)?;
    let all = fs::read("f")?;
    check_eq!(all.len(), 9000);
    check!(all[..5000].iter().all(|&b| b == b'x') && all[5000..].iter().all(|&b| b == 0));
    check_err!(file::ftruncate(fd, -1), EINVAL);
    let ro = file::open("f", libc::O_RDONLY, 0)?;
    check_err!(file::ftruncate(ro, 0), EINVAL);
    Ok(())
}

fn sparse_file_reads_zero() -> Outcome {
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::pwrite(fd, b"x", 1 << 30)?;
    check_eq!(fs::metadata("f")?.len(), (1 << 30) + 1);
    let mut buf = [1u8; 4096];
    check_eq!(file::pread(fd, &mut buf, 500 << 20)?, 4096);
    check!(buf.iter().all(|&b| b == 0));
    // A GiB of nothing does not take a GiB.
    check!(fs::metadata("f")?.blocks() < 100_000);
    Ok(())
}

fn vectors_read_and_write() -> Outcome {
    use std::io::{IoSlice, IoSliceMut, Read, Write};
    let mut f = fs::File::create("f")?;
    let n = f.write_vectored(&[
        IoSlice::new(b"abc"),
        IoSlice::new(b""),
        IoSlice::new(b"defgh"),
    ])?;
    check_eq!(n, 8);
    let (mut a, mut b) = ([0u8; 5], [0u8; 10]);
    let n = fs::File::open("f")?
        .read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)])?;
    check_eq!((n, &a, &b[..3]), (8, b"abcde", &b"fgh"[..]));
    Ok(())
}

fn stat_says() -> Outcome {
    fs::write("f", vec![0u8; 5000])?;
    let m = fs::metadata("f")?;
    check!(m.is_file());
    check_eq!(
        (m.len(), m.nlink(), m.mode() & libc::S_IFMT),
        (5000, 1, libc::S_IFREG)
    );
    check!(m.blksize() >= 512 && m.ino() != 0);
    check_eq!(m.uid(), userland::sys::proc::geteuid());
    let d = fs::metadata("/dev/null")?;
    check!(d.file_type().is_char_device());
    check_eq!((libc::major(d.rdev()), libc::minor(d.rdev())), (1, 3));
    check_eq!(fs::metadata("/dev/zero")?.rdev(), libc::makedev(1, 5));
    Ok(())
}

fn chmod_and_umask() -> Outcome {
    file::umask(0o027);
    file::close(file::open("f", libc::O_CREAT | libc::O_WRONLY, 0o666)?)?;
    check_eq!(fs::metadata("f")?.mode() & 0o7777, 0o640);
    fs::create_dir("d")?;
    check_eq!(fs::metadata("d")?.mode() & 0o777, 0o750);
    check_eq!(file::umask(0), 0o027);
    fs::set_permissions("f", fs::Permissions::from_mode(0o751))?;
    check_eq!(fs::metadata("f")?.mode() & 0o7777, 0o751);
    Ok(())
}

fn dup_shares_position() -> Outcome {
    fs::write("f", "0123456789")?;
    let a = file::open("f", libc::O_RDONLY, 0)?;
    let b = file::dup(a)?;
    let c = file::open("f", libc::O_RDONLY, 0)?;
    file::read(a, &mut [0; 4])?;
    check_eq!(file::lseek(b, 0, libc::SEEK_CUR)?, 4);
    check_eq!(file::lseek(c, 0, libc::SEEK_CUR)?, 0);
    userland::harness::in_child(|| {
        file::read(b, &mut [0; 4])?;
        Ok(0)
    })?;
    check_eq!(file::lseek(a, 0, libc::SEEK_CUR)?, 8);
    check_eq!(file::dup2(a, 100)?, 100);
    check_eq!(file::dup2(100, 100)?, 100);
    check_err!(file::dup2(999, 5), EBADF);
    check_err!(file::dup(999), EBADF);
    check_err!(
        call(libc::SYS_dup3, [a as usize, a as usize, 0, 0, 0, 0]),
        EINVAL
    );
    Ok(())
}

fn fcntl_flags() -> Outcome {
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC, 0o600)?;
    check_eq!(file::fcntl(fd, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    file::fcntl(fd, libc::F_SETFD, 0)?;
    check_eq!(file::fcntl(fd, libc::F_GETFD, 0)?, 0);
    check_eq!(
        file::fcntl(fd, libc::F_GETFL, 0)? & libc::O_ACCMODE,
        libc::O_RDWR
    );
    file::fcntl(
        fd,
        libc::F_SETFL,
        (libc::O_APPEND | libc::O_NONBLOCK) as i64,
    )?;
    let flags = file::fcntl(fd, libc::F_GETFL, 0)?;
    check_eq!(
        flags & (libc::O_APPEND | libc::O_NONBLOCK),
        libc::O_APPEND | libc::O_NONBLOCK
    );
    check_eq!(file::fcntl(fd, libc::F_DUPFD, 50)?, 50);
    check_eq!(file::fcntl(fd, libc::F_DUPFD_CLOEXEC, 50)?, 51);
    check_eq!(file::fcntl(51, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    check_err!(file::fcntl(999, libc::F_GETFD, 0), EBADF);
    check_err!(file::fcntl(fd, 9999, 0), EINVAL);
    Ok(())
}

fn device_null_zero_full() -> Outcome {
    let mut buf = [1u8; 10_000];
    let null = file::open("/dev/null", libc::O_RDWR, 0)?;
    check_eq!(
        (file::read(null, &mut buf)?, file::write(null, &buf)?),
        (0, 10_000)
    );
    let zero = file::open("/dev/zero", libc::O_RDWR, 0)?;
    check_eq!(
        (file::read(zero, &mut buf)?, file::write(zero, &buf)?),
        (10_000, 10_000)
    );
    check!(buf.iter().all(|&b| b == 0));
    let full = file::open("/dev/full", libc::O_RDWR, 0)?;
    check_err!(file::write(full, b"x"), ENOSPC);
    check_eq!(file::read(full, &mut buf)?, 10_000);
    Ok(())
}

fn device_random() -> Outcome {
    for name in ["/dev/urandom", "/dev/random"] {
        let fd = file::open(name, libc::O_RDONLY, 0)?;
        let (mut a, mut b) = ([0u8; 64], [0u8; 64]);
        check_eq!((file::read(fd, &mut a)?, file::read(fd, &mut b)?), (64, 64));
        check!(a != b && a != [0; 64]);
    }
    Ok(())
}

fn tty_calls_on_files() -> Outcome {
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    check_err!(tty::get_modes(fd), ENOTTY);
    check_err!(tty::size(fd), ENOTTY);
    let (hear, _tell) = file::pipe(0)?;
    check_err!(tty::get_modes(hear), ENOTTY);
    check!(!tty::is_tty(file::open("/dev/null", libc::O_RDWR, 0)?));
    check_err!(tty::get_modes(999), EBADF);
    Ok(())
}

fn times_of_files() -> Outcome {
    use std::time::{Duration, UNIX_EPOCH};
    let f = fs::File::create("f")?;
    let when = UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    match f.set_modified(when).map_err(Errno::from) {
        Err(e @ Errno(libc::ENOSYS)) => drop(need::<()>(Err(e), "utimensat")?),
        other => other?,
    }
    check_eq!(
        (f.metadata()?.mtime(), f.metadata()?.mtime_nsec()),
        (1_000_000_000, 5)
    );
    Ok(())
}

/// flock(2) locks belong to open files, not to processes.
fn flock_excludes() -> Outcome {
    let flock = |fd: i32, how: i32| call(libc::SYS_flock, [fd as usize, how as usize, 0, 0, 0, 0]);
    let open = || file::open("locked", libc::O_RDWR | libc::O_CREAT, 0o600);
    let (first, second) = (open()?, open()?);
    flock(first, libc::LOCK_SH)?;
    flock(second, libc::LOCK_SH)?;
    check_err!(flock(first, libc::LOCK_EX | libc::LOCK_NB), EAGAIN);
    flock(second, libc::LOCK_UN)?;
    flock(first, libc::LOCK_EX | libc::LOCK_NB)?;
    check_err!(flock(second, libc::LOCK_SH | libc::LOCK_NB), EAGAIN);
    // Closing the last descriptor of an open file releases its lock.
    let copy = file::dup(first)?;
    file::close(first)?;
    check_err!(flock(second, libc::LOCK_EX | libc::LOCK_NB), EAGAIN);
    file::close(copy)?;
    flock(second, libc::LOCK_EX | libc::LOCK_NB)?;
    check_err!(flock(second, 0), EINVAL);
    Ok(())
}

fn fsync_and_fadvise() -> Outcome {
    let sync = |fd: i32| call(libc::SYS_fsync, [fd as usize, 0, 0, 0, 0, 0]);
    let advise =
        |fd: i32, advice: usize| call(libc::SYS_fadvise64, [fd as usize, 0, 0, advice, 0, 0]);
    let range = |fd: i32, at: usize, len: usize, flags: usize| {
        call(
            libc::SYS_sync_file_range,
            [fd as usize, at, len, flags, 0, 0],
        )
    };
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    let dir = file::open(".", libc::O_RDONLY, 0)?;
    for fd in [fd, dir] {
        check_eq!(sync(fd)?, 0);
        check_eq!(range(fd, 0, 0, 7)?, 0);
        check_err!(range(fd, 0, 0, 8), EINVAL);
        check_err!(range(fd, usize::MAX, 1, 7), EINVAL);
        check_err!(range(fd, 1, i64::MAX as usize, 7), EINVAL);
        check_eq!(advise(fd, libc::POSIX_FADV_WILLNEED as usize)?, 0);
        check_err!(advise(fd, 99), EINVAL);
    }
    let (hear, _) = file::pipe(0)?;
    check_err!(advise(hear, 0), ESPIPE);
    check_err!(range(hear, 0, 1, 7), ESPIPE);
    let null = file::open("/dev/null", libc::O_RDWR, 0)?;
    let maps = file::open("/proc/self/maps", libc::O_RDONLY, 0)?;
    for fd in [hear, null, maps] {
        check_err!(sync(fd), EINVAL);
    }
    let place = file::open(".", libc::O_PATH, 0)?;
    for fd in [99, place] {
        check_err!(sync(fd), EBADF);
        check_err!(advise(fd, 0), EBADF);
    }
    Ok(())
}
