//! What goes through sockets with names: datagrams, packets, who the peer is, readiness, and how
//! much fits.
use crate::socket_names::*;
use crate::sockets::{DONTWAIT, Pair, next, pair, send};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, Result, call, file, time};
use userland::{check, check_eq, check_err};

userland::tests![
    socket_datagrams_by_name,
    socket_datagrams_connected,
    socket_packets_by_name,
    socket_peer_process,
    socket_watched,
    socket_families,
    socket_full,
];

fn socket_datagrams_by_name() -> Outcome {
    let (one, other) = (socket(libc::SOCK_DGRAM)?, socket(libc::SOCK_DGRAM)?);
    bind(one, b"one")?;
    check_err!(send_to(other, b"x", b"two"), ENOENT);
    send_to(other, b"no name", b"one")?;
    check_eq!(receive_from(one)?, (b"no name".to_vec(), vec![]));
    bind(other, b"other")?;
    send_to(other, b"named", b"one")?;
    check_eq!(receive_from(one)?, (b"named".to_vec(), b"other\0".to_vec()));
    send_to(one, b"back", b"other")?;
    check_eq!(receive_from(other)?, (b"back".to_vec(), b"one\0".to_vec()));
    // Too many for one that does not look.
    let mut sent = 0;
    let full = loop {
        match send_to(other, b"x", b"one") {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    check_eq!(full.0, libc::EAGAIN);
    for _ in 0..sent {
        check_eq!(next(one)?, b"x");
    }
    check_err!(next(one), EAGAIN);
    send_to(other, b"again", b"one")?;
    file::close(one)?;
    check_err!(send_to(other, b"x", b"one"), ECONNREFUSED);
    let stream = socket(libc::SOCK_STREAM)?;
    bind(stream, b"stream")?;
    check_err!(send_to(other, b"x", b"stream"), EPROTOTYPE);
    Ok(())
}

fn socket_datagrams_connected() -> Outcome {
    let (server, one) = (socket(libc::SOCK_DGRAM)?, socket(libc::SOCK_DGRAM)?);
    bind(server, b"server")?;
    connect(one, b"server")?;
    send(one, b"x", 0)?;
    check_eq!(next(server)?, b"x");
    check_eq!(name(libc::SYS_getpeername, one)?, b"server\0");
    // A connected one hears its peer alone.
    bind(one, b"one")?;
    check_err!(send_to(socket(libc::SOCK_DGRAM)?, b"x", b"one"), EPERM);
    check_err!(connect(socket(libc::SOCK_DGRAM)?, b"one"), EPERM);
    send_to(server, b"back", b"one")?;
    check_eq!(next(one)?, b"back");
    // It connects anew, or not at all.
    let second = socket(libc::SOCK_DGRAM)?;
    bind(second, b"second")?;
    connect(one, b"second")?;
    send(one, b"y", 0)?;
    check_eq!(next(second)?, b"y");
    let nothing = [0u8; 2];
    let at = nothing.as_ptr() as usize;
    call(libc::SYS_connect, [one as usize, at, 2, 0, 0, 0])?;
    check_err!(send(one, b"z", 0), ENOTCONN);
    // The end of the other side is an error once, then there is none.
    connect(one, b"second")?;
    file::close(second)?;
    check_err!(send(one, b"z", 0), ECONNREFUSED);
    check_err!(send(one, b"z", 0), ENOTCONN);
    Ok(())
}

fn socket_packets_by_name() -> Outcome {
    let server = listener(libc::SOCK_SEQPACKET, b"door", 1)?;
    let one = client(libc::SOCK_SEQPACKET, b"door")?;
    let other = accept(server, 0)?;
    send(one, b"abc", 0)?;
    send(one, b"de", 0)?;
    check_eq!(next(other)?, b"abc");
    check_eq!(next(other)?, b"de");
    file::close(one)?;
    check_eq!(next(other)?, b"");
    check_err!(send(other, b"x", 0), EPIPE);
    Ok(())
}

fn socket_peer_process() -> Outcome {
    let peer = |fd: i32| -> Result<[i32; 3]> {
        let (mut peer, mut len) = ([7i32; 3], 12i32);
        let (at, len_at) = (peer.as_mut_ptr() as usize, &raw mut len as usize);
        let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_PEERCRED as usize);
        call(
            libc::SYS_getsockopt,
            [fd as usize, level, option, at, len_at, 0],
        )?;
        Ok(std::hint::black_box(peer))
    };
    check_eq!(peer(socket(libc::SOCK_STREAM)?)?, [0, -1, -1]);
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    let (me, user) = (proc::getpid(), proc::geteuid() as i32);
    let (hear, tell) = file::pipe(0)?;
    let status = in_child(|| {
        let one = client(libc::SOCK_STREAM, b"door")?;
        check_eq!(peer(one)?[..2], [me, user]);
        file::write_all(tell, &proc::getpid().to_ne_bytes())?;
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    let mut child = [0; 4];
    file::read(hear, &mut child)?;
    let other = accept(server, 0)?;
    check_eq!(peer(other)?[..2], [i32::from_ne_bytes(child), user]);
    Ok(())
}

fn socket_watched() -> Outcome {
    let set = call(libc::SYS_epoll_create1, [0; 6])?;
    let watch = |fd: i32, events: u32| {
        let event = libc::epoll_event {
            events,
            u64: fd as u64,
        };
        let (add, at) = (libc::EPOLL_CTL_ADD as usize, (&raw const event) as usize);
        call(libc::SYS_epoll_ctl, [set, add, fd as usize, at, 0, 0])
    };
    let now = || -> Result<Vec<(u32, i32)>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        let at = events.as_mut_ptr() as usize;
        let n = call(libc::SYS_epoll_pwait, [set, at, 8, 0, 0, 8])?;
        let events = std::hint::black_box(events);
        Ok(events[..n]
            .iter()
            .map(|e| (e.events, e.u64 as i32))
            .collect())
    };
    let input = libc::EPOLLIN as u32;
    let edge = libc::EPOLLET as u32;
    let end = (libc::EPOLLRDHUP | libc::EPOLLHUP) as u32;
    let server = listener(libc::SOCK_STREAM, b"door", 5)?;
    watch(server, input)?;
    check_eq!(now()?, vec![]);
    let one = client(libc::SOCK_STREAM, b"door")?;
    check_eq!(now()?, vec![(input, server)]);
    let other = accept(server, 0)?;
    check_eq!(now()?, vec![]);
    watch(other, input | edge | libc::EPOLLRDHUP as u32)?;
    check_eq!(now()?, vec![]);
    for _ in 0..2 {
        send(one, b"x", 0)?;
        check_eq!(now()?, vec![(input, other)]);
        check_eq!(now()?, vec![]);
    }
    // What this side sends, and what the other reads of it, is no edge.
    send(other, b"back", 0)?;
    check_eq!(next(one)?, b"back");
    check_eq!(now()?, vec![]);
    check_eq!(next(other)?, b"xx");
    file::close(one)?;
    check_eq!(now()?, vec![(input | end, other)]);
    check_eq!(now()?, vec![]);
    Ok(())
}

fn socket_families() -> Outcome {
    let make = |family: i32, kind: i32, protocol: usize| {
        call(
            libc::SYS_socket,
            [family as usize, kind as usize, protocol, 0, 0, 0],
        )
    };
    check_err!(make(1000, libc::SOCK_STREAM, 0), EAFNOSUPPORT);
    check_err!(make(libc::AF_UNIX, 11, 0), EINVAL);
    check_err!(make(libc::AF_UNIX, libc::SOCK_RDM, 0), ESOCKTNOSUPPORT);
    check_err!(make(libc::AF_UNIX, libc::SOCK_STREAM, 7), EPROTONOSUPPORT);
    check_err!(make(libc::AF_UNIX, libc::SOCK_STREAM | 0x100, 0), EINVAL);
    let fd = make(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 1)? as i32;
    check_eq!(file::fcntl(fd, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    if userland::counters::on_quire() {
        // There is no network.
        for family in [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK] {
            check_err!(make(family, libc::SOCK_STREAM, 0), EAFNOSUPPORT);
        }
    }
    Ok(())
}

fn socket_full() -> Outcome {
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    let one = client(libc::SOCK_STREAM, b"door")?;
    let other = accept(server, 0)?;
    let bytes = vec![7; 1 << 16];
    let mut sent = 0;
    let full = loop {
        match send(one, &bytes, DONTWAIT) {
            Ok(n) => sent += n,
            Err(error) => break error,
        }
    };
    check_eq!(full.0, libc::EAGAIN);
    check_eq!(file::poll(one, libc::POLLOUT, 0)?, 0);
    // One that waits for room is woken, and one whose other side is closed.
    let sends = std::thread::spawn(move || send(one, b"more", 0));
    let mut buf = vec![0; 1 << 16];
    let mut got = 0;
    while got < sent + 4 {
        got += file::read(other, &mut buf)?;
    }
    let more = sends
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))?;
    check_eq!((more?, got), (4, sent + 4));
    while send(one, &bytes, DONTWAIT).is_ok() {}
    let sends = std::thread::spawn(move || send(one, &[7; 1 << 16], libc::MSG_NOSIGNAL));
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    file::close(other)?;
    let more = sends
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))?;
    // A call that waits learns that there were bytes which nobody read, a later one that there is
    // nobody.
    check!(
        [Err(Errno(libc::ECONNRESET)), Err(Errno(libc::EPIPE))].contains(&more),
        "{more:?}"
    );
    check_err!(send(one, b"x", libc::MSG_NOSIGNAL), EPIPE);
    let all = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    send(a, b"x", 0)?;
    file::close(b)?;
    check_eq!(file::poll(a, all, 0)?, all | libc::POLLHUP | libc::POLLERR);
    check_err!(next(a), ECONNRESET);
    check_eq!(file::poll(a, all, 0)?, all | libc::POLLHUP);
    Ok(())
}
