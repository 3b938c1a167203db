//! What connected sockets do besides read and write: send(2), recv(2), shutdown(2), socket(7).
use userland::ktap::{Outcome, Stop, in_child, need};
use userland::sys::mem::PAGE;
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    socket_send_and_receive,
    socket_peek,
    socket_truncates,
    socket_waits_for_all,
    socket_messages_in_pieces,
    socket_many_messages,
    socket_shut_down_stream,
    socket_shut_down_packets,
    socket_shut_down_datagrams,
    socket_shut_down_wakes,
    socket_broken,
    socket_addresses,
    socket_options,
    socket_timeout,
    socket_refuses,
];

const KINDS: [i32; 3] = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET];
const DONTWAIT: i32 = libc::MSG_DONTWAIT;

/// A connected pair.
struct Pair {
    a: i32,
    b: i32,
}

fn pair(kind: i32) -> std::result::Result<Pair, Stop> {
    let (a, b) = need(file::socketpair(libc::AF_UNIX, kind, 0), "socketpair")?;
    Ok(Pair { a, b })
}

fn send(fd: i32, bytes: &[u8], flags: i32) -> Result<usize> {
    let at = bytes.as_ptr() as usize;
    call(
        libc::SYS_sendto,
        [fd as usize, at, bytes.len(), flags as usize, 0, 0],
    )
}

fn receive(fd: i32, bytes: &mut [u8], flags: i32) -> Result<usize> {
    let at = bytes.as_mut_ptr() as usize;
    call(
        libc::SYS_recvfrom,
        [fd as usize, at, bytes.len(), flags as usize, 0, 0],
    )
}

/// What is there to receive, without waiting.
fn next(fd: i32) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 64];
    let n = receive(fd, &mut bytes, DONTWAIT)?;
    bytes.truncate(n);
    Ok(bytes)
}

fn shut_down(fd: i32, how: i32) -> Result<usize> {
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
            let sent = (0..100).all(|n| send(a, &[n; 1000], 0) == Ok(1000));
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

/// `struct msghdr` without an address and without control data, in words.
fn header(pieces: &[[usize; 2]]) -> [usize; 7] {
    [0, 0, pieces.as_ptr() as usize, pieces.len(), 0, 0, 0x77]
}

fn piece(bytes: &[u8]) -> [usize; 2] {
    [bytes.as_ptr() as usize, bytes.len()]
}

fn message(nr: i64, fd: i32, header: &mut [usize; 7], flags: i32) -> Result<usize> {
    let at = header.as_mut_ptr() as usize;
    call(nr, [fd as usize, at, flags as usize, 0, 0, 0])
}

fn socket_messages_in_pieces() -> Outcome {
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        let pieces = [piece(b"abc"), piece(b"defg")];
        let mut to_send = header(&pieces);
        check_eq!(message(libc::SYS_sendmsg, a, &mut to_send, 0)?, 7);
        let room = [0u8; 8];
        let places = [piece(&room[..2]), piece(&room[5..])];
        let mut got = header(&places);
        let mut name = [7u8; 16];
        (got[0], got[1]) = (name.as_mut_ptr() as usize, name.len());
        check_eq!(message(libc::SYS_recvmsg, b, &mut got, DONTWAIT)?, 5);
        check_eq!(std::hint::black_box(&room), b"ab\0\0\0cde");
        // Nobody's name, and whether something was lost.
        check_eq!(got[1] as u32, 0);
        let lost = if kind == libc::SOCK_STREAM {
            0
        } else {
            libc::MSG_TRUNC
        };
        check_eq!(got[6] as i32, lost);
        match kind {
            libc::SOCK_STREAM => check_eq!(next(b)?, b"fg"),
            _ => check_err!(next(b), EAGAIN),
        }
        got[1] = u32::MAX as usize;
        check_err!(message(libc::SYS_recvmsg, b, &mut got, DONTWAIT), EINVAL);
        to_send[3] = 2000;
        check_err!(message(libc::SYS_sendmsg, a, &mut to_send, 0), EMSGSIZE);
        let nowhere = call(libc::SYS_sendmsg, [a as usize, 8, 0, 0, 0, 0]);
        check_err!(nowhere, EFAULT);
    }
    Ok(())
}

fn socket_many_messages() -> Outcome {
    let Pair { a, b } = pair(libc::SOCK_SEQPACKET)?;
    let (one, two) = ([piece(b"first")], [piece(b"second")]);
    let with_length = |pieces: &[[usize; 2]]| {
        let [n, nl, p, c, ctl, cl, f] = header(pieces);
        [n, nl, p, c, ctl, cl, f, 0]
    };
    let mut list = [with_length(&one), with_length(&two)];
    let many = |nr, fd: i32, list: &mut [[usize; 8]], count, flags: i32| {
        let at = list.as_mut_ptr() as usize;
        call(nr, [fd as usize, at, count, flags as usize, 0, 0])
    };
    check_eq!(many(libc::SYS_sendmmsg, a, &mut list, 2, 0)?, 2);
    check_eq!([list[0][7], list[1][7]], [5, 6]);
    let rooms = [[0u8; 8]; 3];
    let places = rooms.each_ref().map(|room| [piece(room)]);
    let mut list = places.each_ref().map(|place| with_length(place));
    check_eq!(
        many(libc::SYS_recvmmsg, b, &mut list, 3, libc::MSG_WAITFORONE)?,
        2
    );
    check_eq!([list[0][7], list[1][7]], [5, 6]);
    check_eq!(&std::hint::black_box(&rooms)[1][..6], b"second");
    check_err!(many(libc::SYS_recvmmsg, b, &mut list, 3, DONTWAIT), EAGAIN);
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
    // Who does not receive any more keeps what is there, and the other side notices.
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
    // A child that sends where nobody receives, with the default action of SIGPIPE.
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

fn socket_addresses() -> Outcome {
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        for nr in [libc::SYS_getsockname, libc::SYS_getpeername] {
            let name = |room: i32| -> Result<([u8; 4], i32)> {
                let (mut name, mut len) = ([7u8; 4], room);
                let (at, len_at) = (name.as_mut_ptr() as usize, &raw mut len as usize);
                call(nr, [a as usize, at, len_at, 0, 0, 0])?;
                Ok((std::hint::black_box(name), std::hint::black_box(len)))
            };
            check_eq!(name(4)?, ([libc::AF_UNIX as u8, 0, 7, 7], 2));
            check_eq!(name(1)?, ([libc::AF_UNIX as u8, 7, 7, 7], 2));
            check_err!(name(-1), EINVAL);
        }
        // A receiver although there is one.
        let mut address = [0u8; 128];
        address[0] = libc::AF_UNIX as u8;
        address[2..10].copy_from_slice(b"/nowhere");
        let send_to = |len: usize| {
            let at = address.as_ptr() as usize;
            call(libc::SYS_sendto, [a as usize, at, 1, 0, at, len])
        };
        check_err!(send_to(200), EINVAL);
        let nowhere = call(
            libc::SYS_sendto,
            [a as usize, address.as_ptr() as usize, 1, 0, 8, 16],
        );
        check_err!(nowhere, EFAULT);
        match kind {
            libc::SOCK_STREAM => check_err!(send_to(20), EISCONN),
            libc::SOCK_DGRAM => {
                check_err!(send_to(1), EINVAL);
                check_err!(send_to(20), ENOENT);
            }
            _ => check_eq!(send_to(20)?, 1),
        }
        // Nobody's name comes with what is received.
        send(a, b"x", 0)?;
        let (mut name, mut len, mut byte) = ([7u8; 16], 16i32, [0u8; 1]);
        let (at, len_at) = (name.as_mut_ptr() as usize, &raw mut len as usize);
        let byte_at = byte.as_mut_ptr() as usize;
        check_eq!(
            call(libc::SYS_recvfrom, [b as usize, byte_at, 1, 0, at, len_at])?,
            1
        );
        check_eq!(
            (std::hint::black_box(name), std::hint::black_box(len)),
            ([7; 16], 0)
        );
    }
    Ok(())
}

fn get_option(fd: i32, option: i32, words: &mut [i32]) -> Result<i32> {
    let mut len = 4 * words.len() as i32;
    let (at, len_at) = (words.as_mut_ptr() as usize, &raw mut len as usize);
    let level = libc::SOL_SOCKET as usize;
    call(
        libc::SYS_getsockopt,
        [fd as usize, level, option as usize, at, len_at, 0],
    )?;
    Ok(std::hint::black_box(len))
}

fn number(fd: i32, option: i32) -> Result<i32> {
    let mut word = [-77];
    get_option(fd, option, &mut word)?;
    Ok(std::hint::black_box(word)[0])
}

fn set_option(fd: i32, option: i32, words: &[i32]) -> Result<usize> {
    let (at, level) = (words.as_ptr() as usize, libc::SOL_SOCKET as usize);
    call(
        libc::SYS_setsockopt,
        [fd as usize, level, option as usize, at, 4 * words.len(), 0],
    )
}

fn socket_options() -> Outcome {
    for kind in KINDS {
        let Pair { a, .. } = pair(kind)?;
        check_eq!(number(a, libc::SO_TYPE)?, kind);
        check_eq!(number(a, libc::SO_DOMAIN)?, libc::AF_UNIX);
        for zero in [
            libc::SO_ERROR,
            libc::SO_ACCEPTCONN,
            libc::SO_PROTOCOL,
            libc::SO_KEEPALIVE,
        ] {
            check_eq!(number(a, zero)?, 0);
        }
        check_eq!(number(a, libc::SO_SNDBUF)?, number(a, libc::SO_RCVBUF)?);
        set_option(a, libc::SO_SNDBUF, &[5000])?;
        check_eq!(number(a, libc::SO_SNDBUF)?, 10_000);
        set_option(a, libc::SO_RCVBUF, &[1])?;
        check_eq!(number(a, libc::SO_RCVBUF)?, 2304);
        set_option(a, libc::SO_REUSEADDR, &[1])?;
        check_eq!(number(a, libc::SO_REUSEADDR)?, 1);
        let mut peer = [0; 3];
        check_eq!(get_option(a, libc::SO_PEERCRED, &mut peer)?, 12);
        check_eq!(peer[0], proc::getpid());
        let mut linger = [7; 4];
        check_eq!(get_option(a, libc::SO_LINGER, &mut linger)?, 8);
        check_eq!(linger, [0, 0, 7, 7]);
        check_err!(number(a, 9999), ENOPROTOOPT);
        check_err!(set_option(a, 9999, &[1]), ENOPROTOOPT);
        check_err!(set_option(a, libc::SO_TYPE, &[1]), ENOPROTOOPT);
        check_err!(set_option(a, libc::SO_KEEPALIVE, &[]), EINVAL);
        let other_level = call(libc::SYS_getsockopt, [a as usize, 6, 1, PAGE, PAGE, 0]);
        check_err!(other_level, EOPNOTSUPP);
        if kind != libc::SOCK_STREAM {
            check_err!(file::write(a, &[0; 20_000]), EMSGSIZE);
        }
    }
    Ok(())
}

fn socket_timeout() -> Outcome {
    let Pair { a, .. } = pair(libc::SOCK_STREAM)?;
    let seconds = |micros: i32| [0, 0, micros, 0];
    set_option(a, libc::SO_RCVTIMEO, &seconds(50_000))?;
    let start = time::now();
    check_err!(receive(a, &mut [0; 4], 0), EAGAIN);
    check!(time::now() - start >= 50_000_000);
    check_err!(set_option(a, libc::SO_RCVTIMEO, &seconds(2_000_000)), EDOM);
    check_err!(set_option(a, libc::SO_RCVTIMEO, &[1, 0]), EINVAL);
    // Sending stops when there is no room, and nobody makes some.
    set_option(a, libc::SO_SNDTIMEO, &seconds(20_000))?;
    let mut sent = 0;
    let stopped = loop {
        match send(a, &[1; 1000], 0) {
            Ok(n) => sent += n,
            Err(error) => break error,
        }
        check!(sent < 100 << 20, "{sent} bytes and no end");
    };
    check_eq!(stopped, Errno(libc::EAGAIN));
    Ok(())
}

fn socket_refuses() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    check_err!(send(tell, b"x", 0), ENOTSOCK);
    check_err!(receive(hear, &mut [0], DONTWAIT), ENOTSOCK);
    check_err!(shut_down(hear, libc::SHUT_RD), ENOTSOCK);
    check_err!(number(hear, libc::SO_TYPE), ENOTSOCK);
    check_err!(send(99, b"x", 0), EBADF);
    check_err!(shut_down(99, 0), EBADF);
    for kind in KINDS {
        let Pair { a, .. } = pair(kind)?;
        check_err!(shut_down(a, 3), EINVAL);
        check_err!(shut_down(a, -1), EINVAL);
        let listen = call(libc::SYS_listen, [a as usize, 1, 0, 0, 0, 0]);
        let accept = call(libc::SYS_accept4, [a as usize, 0, 0, 0, 0, 0]);
        if kind == libc::SOCK_DGRAM {
            check_err!(listen, EOPNOTSUPP);
            check_err!(accept, EOPNOTSUPP);
        } else {
            check_err!(listen, EINVAL);
            check_err!(accept, EINVAL);
        }
    }
    Ok(())
}
