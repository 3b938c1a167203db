//! Options of sockets, socket(7), and what is refused.
use crate::sockets::{DONTWAIT, KINDS, Pair, pair, receive, send, shut_down};
use userland::harness::Outcome;
use userland::sys::mem::PAGE;
use userland::sys::{Errno, Result, call, file, proc, time};
use userland::{check, check_eq, check_err};

userland::tests![socket_options, socket_timeout, socket_refuses,];

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
    // Sending stops when there is no room and no reader.
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
