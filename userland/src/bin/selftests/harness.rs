//! What test harnesses ask for: vmsplice(2), socketpair(2), pidfd_open(2) with poll(2) and
//! waitid(2), getdents64(2), fallocate(2).
use userland::harness::{Outcome, Stop, in_child, need};
use userland::sys::mem::{PAGE, anon, copy_to, mmap};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, call, file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    vmsplice_fills_the_pipe,
    vmsplice_pieces,
    vmsplice_of_a_readers_end,
    vmsplice_refuses,
    socketpair_stream,
    socketpair_ends,
    socketpair_messages,
    socketpair_waits,
    socketpair_refuses,
    pidfd_poll_and_wait,
    pidfd_refuses,
    getdents_in_pieces,
    fallocate_grows,
];

/// SPLICE_F_NONBLOCK.
const NONBLOCK: usize = 2;

fn vmsplice_fills_the_pipe() -> Outcome {
    let at = anon(32)?;
    let (hear, tell) = file::pipe(0)?;
    let taken = need(file::vmsplice(tell, at, 32 * PAGE, 0), "vmsplice")?;
    check_eq!(taken, 16 * PAGE);
    check_err!(file::vmsplice(tell, at, PAGE, NONBLOCK), EAGAIN);
    check_eq!(file::poll(tell, libc::POLLOUT, 0)?, 0);
    let mut buf = vec![1u8; 32 * PAGE];
    check_eq!(file::read(hear, &mut buf)?, 16 * PAGE);
    check!(buf[..16 * PAGE].iter().all(|b| *b == 0));
    check_eq!(file::poll(tell, libc::POLLOUT, 0)?, libc::POLLOUT);
    Ok(())
}

/// vmsplice(2) of several pieces.
fn vmsplice_of(fd: i32, pieces: &[[usize; 2]], flags: usize) -> Result<usize, Errno> {
    let list = pieces.as_ptr() as usize;
    call(
        libc::SYS_vmsplice,
        [fd as usize, list, pieces.len(), flags, 0, 0],
    )
}

fn vmsplice_pieces() -> Outcome {
    let at = anon(4)?;
    copy_to(at, &[b'a'; 4096]);
    copy_to(at + PAGE, &[b'b'; 4096]);
    let (hear, tell) = file::pipe(0)?;
    file::write_all(tell, b"<")?;
    // Inside a page, across two, and a byte.
    let pieces = [[at + 5, 3], [at + PAGE - 2, 4], [at + PAGE + 9, 1]];
    check_eq!(need(vmsplice_of(tell, &pieces, 0), "vmsplice")?, 8);
    file::write_all(tell, b">")?;
    let mut left = 0i32;
    let argument = &raw mut left as usize;
    let fionread = libc::FIONREAD as usize;
    call(
        libc::SYS_ioctl,
        [hear as usize, fionread, argument, 0, 0, 0],
    )?;
    check_eq!(left, 10);
    let mut buf = [0u8; 16];
    // A part of a piece, then the rest.
    check_eq!(file::read(hear, &mut buf[..3])?, 3);
    check_eq!(file::read(hear, &mut buf[3..])?, 7);
    check_eq!(&buf[..10], b"<aaaaabbb>");
    // However small, a piece takes a page of the pipe.
    let many: Vec<[usize; 2]> = (0..40).map(|n| [at + 100 * n, 1]).collect();
    check_eq!(vmsplice_of(tell, &many, NONBLOCK)?, 16);
    check_eq!(file::read(hear, &mut [0; 64])?, 16);
    check_eq!(vmsplice_of(tell, &[], 0)?, 0);
    check_eq!(vmsplice_of(tell, &[[at, 0]], 0)?, 0);
    // What comes before a bad address is taken.
    check_eq!(vmsplice_of(tell, &[[at, 10], [PAGE, 8]], 0)?, 10);
    check_eq!(file::read(hear, &mut [0; 64])?, 10);
    Ok(())
}

fn vmsplice_of_a_readers_end() -> Outcome {
    let at = anon(1)?;
    let (hear, tell) = file::pipe(0)?;
    file::write_all(tell, b"hello")?;
    check_eq!(need(file::vmsplice(hear, at, 5, 0), "vmsplice")?, 5);
    check_eq!(userland::sys::mem::byte(at + 1), b'e');
    check_err!(file::vmsplice(hear, at, 5, NONBLOCK), EAGAIN);
    Ok(())
}

fn vmsplice_refuses() -> Outcome {
    let at = anon(1)?;
    let (hear, tell) = file::pipe(0)?;
    need(file::vmsplice(tell, at, 1, 0), "vmsplice")?;
    check_err!(file::vmsplice(tell, at, 1, 0x10), EINVAL);
    check_err!(file::vmsplice(99, at, 1, 0), EBADF);
    let null = file::open("/dev/null", libc::O_WRONLY, 0)?;
    check_err!(file::vmsplice(null, at, 1, 0), EBADF);
    check_err!(file::vmsplice(tell, PAGE, 1, 0), EFAULT);
    check_err!(file::vmsplice(tell, at, usize::MAX, 0), EINVAL);
    let closed = mmap(0, PAGE, libc::PROT_NONE, userland::sys::mem::ANON, -1, 0)?;
    check_err!(file::vmsplice(tell, closed, 1, 0), EFAULT);
    let nowhere = call(libc::SYS_vmsplice, [tell as usize, PAGE, 1, 0, 0, 0]);
    check_err!(nowhere, EFAULT);
    let many = call(libc::SYS_vmsplice, [tell as usize, PAGE, 1025, 0, 0, 0]);
    check_err!(many, EINVAL);
    file::close(hear)?;
    sig::ignore(libc::SIGPIPE)?;
    check_err!(file::vmsplice(tell, at, 1, 0), EPIPE);
    Ok(())
}

const UNIX: i32 = libc::AF_UNIX;

fn socketpair_stream() -> Outcome {
    let (a, b) = need(file::socketpair(UNIX, libc::SOCK_STREAM, 0), "socketpair")?;
    file::write_all(a, b"hello ")?;
    file::write_all(a, b"there")?;
    file::write_all(b, b"yes")?;
    let mut buf = [0u8; 64];
    check_eq!(file::read(b, &mut buf[..4])?, 4);
    check_eq!(file::read(b, &mut buf[4..])?, 7);
    check_eq!(&buf[..11], b"hello there");
    check_eq!(file::read(a, &mut buf)?, 3);
    check_eq!(
        file::poll(a, libc::POLLIN | libc::POLLOUT, 0)?,
        libc::POLLOUT
    );
    file::write_all(b, b"!")?;
    let both = libc::POLLIN | libc::POLLOUT;
    check_eq!(file::poll(a, both, 0)?, both);
    check_err!(file::lseek(a, 0, libc::SEEK_SET), ESPIPE);
    let name = std::fs::read_link(format!("/proc/self/fd/{a}"))?;
    check!(name.to_string_lossy().starts_with("socket:["), "{name:?}");
    Ok(())
}

fn socketpair_ends() -> Outcome {
    sig::ignore(libc::SIGPIPE)?;
    let (a, b) = need(file::socketpair(UNIX, libc::SOCK_STREAM, 0), "socketpair")?;
    file::write_all(a, b"abc")?;
    file::close(a)?;
    check!(
        file::poll(b, libc::POLLIN, 0)? & (libc::POLLIN | libc::POLLHUP)
            == libc::POLLIN | libc::POLLHUP
    );
    let mut buf = [0u8; 8];
    check_eq!(file::read(b, &mut buf)?, 3);
    check_eq!(file::read(b, &mut buf)?, 0);
    check_err!(file::write(b, b"x"), EPIPE);
    // A reader that ends without reading is reported, once.
    let (a, b) = file::socketpair(UNIX, libc::SOCK_STREAM, 0)?;
    file::write_all(b, b"unread")?;
    file::close(a)?;
    check_err!(file::read(b, &mut buf), ECONNRESET);
    check_eq!(file::read(b, &mut buf)?, 0);
    Ok(())
}

fn socketpair_messages() -> Outcome {
    sig::ignore(libc::SIGPIPE)?;
    let mut buf = [0u8; 8];
    for kind in [libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        let kind = kind | libc::SOCK_NONBLOCK;
        let (a, b) = need(file::socketpair(UNIX, kind, 0), "socketpair")?;
        file::write(a, b"abc")?;
        file::write(a, b"defg")?;
        check_eq!(file::read(b, &mut buf[..2])?, 2);
        check_eq!(file::read(b, &mut buf)?, 4);
        check_eq!(&buf[..4], b"defg");
        check_err!(file::read(b, &mut buf), EAGAIN);
        check_err!(file::write(a, &vec![0; 1 << 20]), EMSGSIZE);
        file::close(a)?;
        if kind & !libc::SOCK_NONBLOCK == libc::SOCK_DGRAM {
            check_err!(file::read(b, &mut buf), EAGAIN);
            check_err!(file::write(b, b"x"), ECONNREFUSED);
        } else {
            check_eq!(file::read(b, &mut buf)?, 0);
            check_err!(file::write(b, b"x"), EPIPE);
        }
    }
    Ok(())
}

fn socketpair_waits() -> Outcome {
    let (a, b) = need(file::socketpair(UNIX, libc::SOCK_STREAM, 0), "socketpair")?;
    const LEN: usize = 1 << 20;
    let pid = match proc::fork()? {
        Fork::Child => {
            let _ = file::close(a);
            let bytes: Vec<u8> = (0..LEN).map(|n| (n % 251) as u8).collect();
            proc::exit_now(file::write_all(b, &bytes).is_ok() as i32)
        }
        Fork::Parent(pid) => pid,
    };
    file::close(b)?;
    let (mut buf, mut n) = (vec![0u8; 10_000], 0);
    loop {
        let got = file::read(a, &mut buf)?;
        if got == 0 {
            break;
        }
        let right = |(i, byte): (usize, &u8)| *byte == ((n + i) % 251) as u8;
        check!(buf[..got].iter().enumerate().all(right), "wrong after {n}");
        n += got;
    }
    check_eq!(n, LEN);
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    Ok(())
}

fn socketpair_refuses() -> Outcome {
    need(file::socketpair(UNIX, libc::SOCK_STREAM, 0), "socketpair")?;
    check_err!(file::socketpair(99, libc::SOCK_STREAM, 0), EAFNOSUPPORT);
    check_err!(file::socketpair(UNIX, 77, 0), EINVAL);
    check_err!(file::socketpair(UNIX, 0, 0), ESOCKTNOSUPPORT);
    check_err!(
        file::socketpair(UNIX, libc::SOCK_STREAM | 0x1000, 0),
        EINVAL
    );
    check_err!(
        file::socketpair(UNIX, libc::SOCK_STREAM, 5),
        EPROTONOSUPPORT
    );
    let nowhere = call(libc::SYS_socketpair, [UNIX as usize, 1, 0, PAGE, 0, 0]);
    check_err!(nowhere, EFAULT);
    let (a, _) = file::socketpair(UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 1)?;
    check_eq!(file::fcntl(a, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    Ok(())
}

fn pidfd_open(pid: i32, flags: usize) -> Result<i32, Errno> {
    call(libc::SYS_pidfd_open, [pid as usize, flags, 0, 0, 0, 0]).map(|fd| fd as i32)
}

fn pidfd_poll_and_wait() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let pid = match proc::fork()? {
        Fork::Child => {
            let _ = file::close(tell);
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(7)
        }
        Fork::Parent(pid) => pid,
    };
    let fd = need(pidfd_open(pid, 0), "pidfd_open")?;
    check_eq!(file::fcntl(fd, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    check_eq!(file::poll(fd, libc::POLLIN, 0)?, 0);
    let nothing = proc::waitid(libc::P_PIDFD, fd as u32, libc::WEXITED | libc::WNOHANG)?;
    check_eq!(nothing.pid, 0);
    file::close(tell)?;
    check_eq!(
        file::poll(fd, libc::POLLIN, 10_000)? & libc::POLLIN,
        libc::POLLIN
    );
    let seen = proc::waitid(libc::P_PIDFD, fd as u32, libc::WEXITED | libc::WNOWAIT)?;
    check_eq!(
        (seen.pid, seen.code, seen.status),
        (pid, libc::CLD_EXITED, 7)
    );
    check_eq!(
        proc::wait(pid, libc::WNOHANG)?,
        Some((pid, Status::Exited(7)))
    );
    // It stays readable.
    check_eq!(
        file::poll(fd, libc::POLLIN, 0)? & libc::POLLIN,
        libc::POLLIN
    );
    check_err!(
        proc::waitid(libc::P_PIDFD, fd as u32, libc::WEXITED),
        ECHILD
    );
    Ok(())
}

fn pidfd_refuses() -> Outcome {
    need(pidfd_open(proc::getpid(), 0), "pidfd_open")?;
    check_err!(pidfd_open(-1, 0), EINVAL);
    check_err!(pidfd_open(0, 0), EINVAL);
    check_err!(pidfd_open(proc::getpid(), 1), EINVAL);
    check_err!(pidfd_open(4_194_303, 0), ESRCH);
    let (hear, _) = file::pipe(0)?;
    check_err!(
        proc::waitid(libc::P_PIDFD, hear as u32, libc::WEXITED),
        EBADF
    );
    check_err!(proc::waitid(libc::P_PIDFD, 99, libc::WEXITED), EBADF);
    Ok(())
}

fn getdents_in_pieces() -> Outcome {
    std::fs::create_dir("d")?;
    let wanted: Vec<String> = (0..40).map(|n| format!("name{n:02}")).collect();
    for name in &wanted {
        std::fs::write(format!("d/{name}"), [])?;
    }
    let dir = file::open("d", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let (mut buf, mut found) = ([0u8; 128], Vec::new());
    let mut list = |len: usize| {
        let at = buf.as_mut_ptr() as usize;
        call(libc::SYS_getdents64, [dir as usize, at, len, 0, 0, 0]).map(|n| buf[..n].to_vec())
    };
    // Too small for one entry.
    check_err!(list(20), EINVAL);
    loop {
        let piece = list(128)?;
        if piece.is_empty() {
            break;
        }
        let mut at = 0;
        while at < piece.len() {
            // struct linux_dirent64: inode, offset, length, type, name.
            let len = u16::from_ne_bytes([piece[at + 16], piece[at + 17]]) as usize;
            let name = piece[at + 19..at + len].split(|b| *b == 0).next();
            found.push(String::from_utf8_lossy(name.unwrap_or_default()).into_owned());
            at += len;
        }
    }
    found.retain(|name| name != "." && name != "..");
    found.sort();
    check_eq!(found, wanted);
    check_eq!(file::lseek(dir, 0, libc::SEEK_SET)?, 0);
    check!(!list(128)?.is_empty());
    let plain = file::open("d/name00", libc::O_RDONLY, 0)?;
    let at = &raw mut found as usize;
    check_err!(
        call(libc::SYS_getdents64, [plain as usize, at, 8, 0, 0, 0]),
        ENOTDIR
    );
    Ok(())
}

fn fallocate_grows() -> Outcome {
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, b"begin")?;
    match file::fallocate(fd, 0, 0, 3 * PAGE) {
        Err(Errno(libc::EOPNOTSUPP)) => return Err(Stop::Skip("not on this file system".into())),
        other => other?,
    };
    let size = || std::fs::metadata("f").map(|m| m.len() as usize);
    check_eq!(size()?, 3 * PAGE);
    file::fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 9 * PAGE)?;
    check_eq!(size()?, 3 * PAGE);
    file::pwrite(fd, &[7; 2 * PAGE], PAGE as i64)?;
    file::fallocate(fd, file::PUNCH, PAGE, PAGE)?;
    let bytes = std::fs::read("f")?;
    check!(&bytes[..5] == b"begin" && bytes[5..2 * PAGE].iter().all(|b| *b == 0));
    check!(bytes[2 * PAGE..].iter().all(|b| *b == 7) && bytes.len() == 3 * PAGE);
    check_err!(file::fallocate(fd, 0, usize::MAX, 1), EINVAL);
    check_err!(file::fallocate(fd, 0, 0, 0), EINVAL);
    check_err!(file::fallocate(99, 0, 0, 1), EBADF);
    let reader = file::open("f", libc::O_RDONLY, 0)?;
    check_err!(file::fallocate(reader, 0, 0, 1), EBADF);
    let (_, tell) = file::pipe(0)?;
    check_err!(file::fallocate(tell, 0, 0, 1), ESPIPE);
    check_eq!(
        in_child(|| Ok(size()? as i32 / PAGE as i32))?,
        Status::Exited(3)
    );
    Ok(())
}
