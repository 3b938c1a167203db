//! What connected sockets do besides read and write: send(2), recv(2), shutdown(2).
use userland::harness::{Outcome, Stop, in_child, need};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    socket_send_and_receive,
    socket_peek,
    socket_truncates,
    socket_waits_for_all,
    socket_shut_down_stream,
    socket_shut_down_packets,
    socket_shut_down_datagrams,
    socket_shut_down_wakes,
    socket_broken,
];

pub const KINDS: [i32; 3] = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET];
pub const DONTWAIT: i32 = libc::MSG_DONTWAIT;

/// A connected pair.
pub struct Pair {
    pub a: i32,
    pub b: i32,
}

pub fn pair(kind: i32) -> std::result::Result<Pair, Stop> {
    let (a, b) = need(file::socketpair(libc::AF_UNIX, kind, 0), "socketpair")?;
    Ok(Pair { a, b })
}

pub fn send(fd: i32, bytes: &[u8], flags: i32) -> Result<usize> {
    let at = bytes.as_ptr() as usize;
    call(
        libc::SYS_sendto,
        [fd as usize, at, bytes.len(), flags as usize, 0, 0],
    )
}

pub fn receive(fd: i32, bytes: &mut [u8], flags: i32) -> Result<usize> {
    let at = bytes.as_mut_ptr() as usize;
    call(
        libc::SYS_recvfrom,
        [fd as usize, at, bytes.len(), flags as usize, 0, 0],
    )
}

/// What is there to receive, without waiting.
pub fn next(fd: i32) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 64];
    let n = receive(fd, &mut bytes, DONTWAIT)?;
    bytes.truncate(n);
    Ok(bytes)
}

pub fn shut_down(fd: i32, how: i32) -> Result<usize> {
    call(libc::SYS_shutdown, [fd as usize, how as usize, 0, 0, 0, 0])
}

/// poll(2)'s answer to everything one may ask.
fn ready(fd: i32) -> Result<i16> {
    file::poll(fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, 0)
}

fn socket_send_and_receive() -> Outcome {
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        check_eq!(send(a, b"abc", 0)?, 3);
        check_eq!(send(b, b"yes", libc::MSG_NOSIGNAL)?, 3);
        check_eq!(next(b)?, b"abc");
        check_eq!(next(a)?, b"yes");
        check_err!(next(a), EAGAIN);
        check_err!(receive(a, &mut [], DONTWAIT), EAGAIN);
        // An empty message is one, but not of a stream.
        check_eq!(send(a, b"", 0)?, 0);
        match kind {
            libc::SOCK_STREAM => check_err!(next(b), EAGAIN),
            _ => check_eq!(next(b)?, b""),
        }
        // Read and write are the same with other words.
        file::write_all(a, b"word")?;
        check_eq!(next(b)?, b"word");
        // Where memory is missing, a stream keeps what was to be received.
        send(a, b"hello", 0)?;
        let nowhere = call(libc::SYS_recvfrom, [b as usize, 8, 5, 0, 0, 0]);
        check_err!(nowhere, EFAULT);
        match kind {
            libc::SOCK_STREAM => check_eq!(next(b)?, b"hello"),
            _ => check_err!(next(b), EAGAIN),
        }
    }
    Ok(())
}

fn socket_peek() -> Outcome {
    let mut buf = [0; 8];
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        check_err!(receive(b, &mut buf, libc::MSG_PEEK | DONTWAIT), EAGAIN);
        send(a, b"abc", 0)?;
        send(a, b"de", 0)?;
        let all = if kind == libc::SOCK_STREAM { 5 } else { 3 };
        for _ in 0..2 {
            check_eq!(receive(b, &mut buf, libc::MSG_PEEK)?, all);
            check_eq!(&buf[..all], &b"abcde"[..all]);
        }
        check_eq!(receive(b, &mut buf[..2], libc::MSG_PEEK)?, 2);
        check_eq!(receive(b, &mut buf[..3], 0)?, 3);
        check_eq!(receive(b, &mut buf, libc::MSG_PEEK)?, 2);
        check_eq!(&buf[..2], b"de");
        check_eq!(next(b)?, b"de");
    }
    Ok(())
}

fn socket_truncates() -> Outcome {
    let mut buf = [0; 3];
    for kind in [libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        let Pair { a, b } = pair(kind)?;
        send(a, b"abcdefgh", 0)?;
        let flags = libc::MSG_PEEK | libc::MSG_TRUNC;
        check_eq!(receive(b, &mut buf, flags)?, 8);
        check_eq!(receive(b, &mut buf, libc::MSG_TRUNC)?, 8);
        check_eq!(&buf, b"abc");
        check_err!(next(b), EAGAIN);
    }
    Ok(())
}

fn socket_waits_for_all() -> Outcome {
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    let pid = match proc::fork()? {
        Fork::Child => {
            let _ = file::close(b);
            // The receiver finds little at a time.
            let sent = (0..100).all(|n| {
                proc::sched_yield();
                send(a, &[n; 1000], 0) == Ok(1000)
            });
            proc::exit_now(sent as i32)
        }
        Fork::Parent(pid) => pid,
    };
    file::close(a)?;
    let mut buf = vec![0; 70_000];
    check_eq!(receive(b, &mut buf, libc::MSG_WAITALL)?, 70_000);
    check!(
        buf.iter()
            .enumerate()
            .all(|(n, byte)| *byte == (n / 1000) as u8)
    );
    // The end comes first.
    check_eq!(receive(b, &mut buf, libc::MSG_WAITALL)?, 30_000);
    check_eq!(receive(b, &mut buf, libc::MSG_WAITALL)?, 0);
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    Ok(())
}

fn socket_shut_down_stream() -> Outcome {
    sig::ignore(libc::SIGPIPE)?;
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    let (input, output) = (libc::POLLIN, libc::POLLOUT);
    let end = libc::POLLRDHUP;
    send(a, b"abc", 0)?;
    shut_down(a, libc::SHUT_WR)?;
    check_err!(send(a, b"d", 0), EPIPE);
    check_err!(file::write(a, b"d"), EPIPE);
    // What was sent arrives, then the end; the other way stays open.
    check_eq!(next(b)?, b"abc");
    check_eq!(next(b)?, b"");
    check_eq!(file::read(b, &mut [0; 4])?, 0);
    send(b, b"xyz", 0)?;
    check_eq!(
        [ready(a)?, ready(b)?],
        [input | output, input | output | end]
    );
    shut_down(b, libc::SHUT_WR)?;
    let all = input | output | end | libc::POLLHUP;
    check_eq!([ready(a)?, ready(b)?], [all, all]);
    check_eq!(next(a)?, b"xyz");
    check_eq!(next(a)?, b"");
    // After SHUT_RD the data that arrived stays readable, and the other side gets an error.
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    send(b, b"xyz", 0)?;
    shut_down(a, libc::SHUT_RD)?;
    check_err!(send(b, b"d", 0), EPIPE);
    check_eq!(next(a)?, b"xyz");
    check_eq!(next(a)?, b"");
    send(a, b"abc", 0)?;
    check_eq!(
        [ready(a)?, ready(b)?],
        [input | output | end, input | output]
    );
    check_eq!(next(b)?, b"abc");
    check_err!(next(b), EAGAIN);
    Ok(())
}

fn socket_shut_down_packets() -> Outcome {
    // No SIGPIPE: the default action would end the test.
    let Pair { a, b } = pair(libc::SOCK_SEQPACKET)?;
    send(a, b"abc", 0)?;
    shut_down(a, libc::SHUT_RDWR)?;
    check_err!(send(a, b"d", 0), EPIPE);
    check_err!(send(b, b"d", 0), EPIPE);
    check_eq!(next(b)?, b"abc");
    check_eq!(next(b)?, b"");
    check_eq!(next(a)?, b"");
    check!(ready(a)? & libc::POLLHUP != 0 && ready(b)? & libc::POLLHUP != 0);
    Ok(())
}

fn socket_shut_down_datagrams() -> Outcome {
    let Pair { a, b } = pair(libc::SOCK_DGRAM)?;
    send(a, b"abc", 0)?;
    shut_down(a, libc::SHUT_WR)?;
    check_err!(send(a, b"d", 0), EPIPE);
    // The other side does not learn of it.
    check_eq!(next(b)?, b"abc");
    check_err!(next(b), EAGAIN);
    check_eq!(ready(b)?, libc::POLLOUT);
    send(b, b"xyz", 0)?;
    shut_down(a, libc::SHUT_RD)?;
    check_err!(send(b, b"d", 0), EPIPE);
    check_eq!(next(a)?, b"xyz");
    check_err!(next(a), EAGAIN);
    check_eq!(receive(a, &mut [0; 4], 0)?, 0);
    check!(ready(a)? & libc::POLLHUP != 0);
    Ok(())
}

fn socket_shut_down_wakes() -> Outcome {
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        let Pair { a, b } = pair(kind)?;
        let pid = match proc::fork()? {
            Fork::Child => {
                let _ = time::sleep(20_000_000);
                let _ = shut_down(a, libc::SHUT_WR);
                proc::exit_now(0)
            }
            Fork::Parent(pid) => pid,
        };
        check_eq!(receive(b, &mut [0; 4], 0)?, 0);
        proc::wait_for(pid)?;
    }
    Ok(())
}

fn socket_broken() -> Outcome {
    // A child that sends without a receiver, with the default action of SIGPIPE.
    let broken = |kind, flags| {
        in_child(|| {
            sig::default(libc::SIGPIPE)?;
            let Pair { a, b } = pair(kind)?;
            file::close(b)?;
            let Err(Errno(error)) = send(a, b"x", flags) else {
                return Ok(0);
            };
            Ok(error)
        })
    };
    check_eq!(broken(libc::SOCK_STREAM, 0)?, Status::Killed(libc::SIGPIPE));
    let refused = Status::Exited(libc::ECONNREFUSED);
    let pipe = Status::Exited(libc::EPIPE);
    check_eq!(broken(libc::SOCK_STREAM, libc::MSG_NOSIGNAL)?, pipe);
    check_eq!(broken(libc::SOCK_SEQPACKET, 0)?, pipe);
    check_eq!(broken(libc::SOCK_DGRAM, 0)?, refused);
    Ok(())
}
