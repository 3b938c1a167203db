//! Sockets with names: bind(2), listen(2), connect(2), accept(2), and datagrams that have an
//! address.
use crate::sockets::{DONTWAIT, Pair, next, pair, send, shut_down};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    socket_by_path,
    socket_by_abstract_name,
    socket_name_refuses,
    socket_listen_refuses,
    socket_backlog,
    socket_listener_closes,
    socket_accept_waits,
    socket_accept_without_a_number,
    socket_not_connected,
    socket_datagrams_by_name,
    socket_datagrams_connected,
    socket_packets_by_name,
    socket_peer_process,
    socket_watched,
    socket_families,
    socket_full,
];

pub fn socket(kind: i32) -> Result<i32> {
    let fd = call(libc::SYS_socket, [1, kind as usize, 0, 0, 0, 0])?;
    Ok(fd as i32)
}

/// `struct sockaddr_un` with these bytes as `sun_path`.
fn address(name: &[u8]) -> Vec<u8> {
    [&(libc::AF_UNIX as u16).to_ne_bytes(), name].concat()
}

/// bind(2), connect(2).
fn with_address(nr: i64, fd: i32, name: &[u8]) -> Result<usize> {
    let bytes = address(name);
    let at = bytes.as_ptr() as usize;
    call(nr, [fd as usize, at, bytes.len(), 0, 0, 0])
}

pub fn bind(fd: i32, name: &[u8]) -> Result<usize> {
    with_address(libc::SYS_bind, fd, name)
}

pub fn connect(fd: i32, name: &[u8]) -> Result<usize> {
    with_address(libc::SYS_connect, fd, name)
}

pub fn listen(fd: i32, most: i32) -> Result<usize> {
    call(libc::SYS_listen, [fd as usize, most as usize, 0, 0, 0, 0])
}

pub fn accept(fd: i32, flags: i32) -> Result<i32> {
    let accepted = call(libc::SYS_accept4, [fd as usize, 0, 0, flags as usize, 0, 0])?;
    Ok(accepted as i32)
}

/// getsockname(2), getpeername(2): the name, without the family.
fn name(nr: i64, fd: i32) -> Result<Vec<u8>> {
    let (mut bytes, mut len) = ([0u8; 120], 120i32);
    let (at, len_at) = (bytes.as_mut_ptr() as usize, &raw mut len as usize);
    call(nr, [fd as usize, at, len_at, 0, 0, 0])?;
    let len = std::hint::black_box(len) as usize;
    Ok(std::hint::black_box(bytes)[2..len].to_vec())
}

/// sendto(2).
fn send_to(fd: i32, bytes: &[u8], to: &[u8]) -> Result<usize> {
    let to = address(to);
    let (from, at) = (bytes.as_ptr() as usize, to.as_ptr() as usize);
    let flags = DONTWAIT as usize;
    call(
        libc::SYS_sendto,
        [fd as usize, from, bytes.len(), flags, at, to.len()],
    )
}

/// recvfrom(2) without waiting: the bytes and the sender's name.
fn receive_from(fd: i32) -> Result<(Vec<u8>, Vec<u8>)> {
    let (mut bytes, mut from, mut len) = ([0u8; 64], [0u8; 120], 120i32);
    let (into, at) = (bytes.as_mut_ptr() as usize, from.as_mut_ptr() as usize);
    let (flags, len_at) = (DONTWAIT as usize, &raw mut len as usize);
    let n = call(
        libc::SYS_recvfrom,
        [fd as usize, into, bytes.len(), flags, at, len_at],
    )?;
    let len = (std::hint::black_box(len) as usize).max(2);
    let from = std::hint::black_box(from)[2..len].to_vec();
    Ok((std::hint::black_box(bytes)[..n].to_vec(), from))
}

/// A listener of this kind under a name.
fn listener(kind: i32, at: &[u8], most: i32) -> Result<i32> {
    let fd = socket(kind)?;
    bind(fd, at)?;
    listen(fd, most)?;
    Ok(fd)
}

/// A socket that has connected.
fn client(kind: i32, at: &[u8]) -> Result<i32> {
    let fd = socket(kind)?;
    connect(fd, at)?;
    Ok(fd)
}

fn socket_by_path() -> Outcome {
    let server = listener(libc::SOCK_STREAM, b"door", 5)?;
    check_eq!(name(libc::SYS_getsockname, server)?, b"door\0");
    check_err!(name(libc::SYS_getpeername, server), ENOTCONN);
    let one = client(libc::SOCK_STREAM, b"door\0rest")?;
    send(one, b"early", 0)?;
    let other = accept(server, libc::SOCK_CLOEXEC)?;
    check_eq!(file::fcntl(other, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
    check_eq!(next(other)?, b"early");
    send(other, b"answer", 0)?;
    // A stream tells the sender's name, too.
    check_eq!(receive_from(one)?, (b"answer".to_vec(), b"door\0".to_vec()));
    check_eq!(name(libc::SYS_getpeername, one)?, b"door\0");
    check_eq!(name(libc::SYS_getsockname, one)?, b"");
    check_eq!(name(libc::SYS_getpeername, other)?, b"");
    check_eq!(name(libc::SYS_getsockname, other)?, b"door\0");
    // The file is of its own kind, cannot be opened, and stays when the socket is closed.
    let kind = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata("door")?);
    check_eq!(kind & libc::S_IFMT, libc::S_IFSOCK);
    check_err!(file::open("door", libc::O_RDWR, 0), ENXIO);
    check_err!(bind(socket(libc::SOCK_STREAM)?, b"door"), EADDRINUSE);
    file::close(server)?;
    check_err!(connect(socket(libc::SOCK_STREAM)?, b"door"), ECONNREFUSED);
    check_err!(bind(socket(libc::SOCK_STREAM)?, b"door"), EADDRINUSE);
    // Connections stay.
    send(one, b"still", 0)?;
    check_eq!(next(other)?, b"still");
    std::fs::remove_file("door")?;
    check_err!(connect(socket(libc::SOCK_STREAM)?, b"door"), ENOENT);
    let server = listener(libc::SOCK_STREAM, b"door", 5)?;
    // Without its file it is not found, by another name it is.
    std::fs::rename("door", "gate")?;
    client(libc::SOCK_STREAM, b"gate")?;
    std::os::unix::fs::symlink("gate", "link")?;
    client(libc::SOCK_STREAM, b"link")?;
    std::fs::remove_file("gate")?;
    check_err!(connect(socket(libc::SOCK_STREAM)?, b"door"), ENOENT);
    file::close(server)?;
    Ok(())
}

fn socket_by_abstract_name() -> Outcome {
    let own = format!("\0quire-{}", proc::getpid()).into_bytes();
    let server = listener(libc::SOCK_STREAM, &own, 5)?;
    check_eq!(name(libc::SYS_getsockname, server)?, own.clone());
    let one = client(libc::SOCK_STREAM, &own)?;
    let other = accept(server, 0)?;
    send(other, b"x", 0)?;
    check_eq!(next(one)?, b"x");
    check_err!(bind(socket(libc::SOCK_STREAM)?, &own), EADDRINUSE);
    // NULs count, and each kind has names of its own.
    let longer = [&own[..], b"\0"].concat();
    check_err!(connect(socket(libc::SOCK_STREAM)?, &longer), ECONNREFUSED);
    check_err!(connect(socket(libc::SOCK_DGRAM)?, &own), ECONNREFUSED);
    bind(socket(libc::SOCK_DGRAM)?, &own)?;
    // The name is free once the listener is closed, whatever its connections do.
    file::close(server)?;
    check_err!(connect(socket(libc::SOCK_STREAM)?, &own), ECONNREFUSED);
    listener(libc::SOCK_STREAM, &own, 5)?;
    // Without a name one is found.
    let fd = socket(libc::SOCK_STREAM)?;
    bind(fd, b"")?;
    let found = name(libc::SYS_getsockname, fd)?;
    check!(found.len() == 6 && found[0] == 0, "{found:?}");
    check!(found[1..].iter().all(u8::is_ascii_hexdigit), "{found:?}");
    Ok(())
}

fn socket_name_refuses() -> Outcome {
    let fd = socket(libc::SOCK_STREAM)?;
    check_err!(bind(fd, &[b'x'; 109]), EINVAL);
    check_err!(connect(fd, &[b'x'; 109]), EINVAL);
    check_err!(connect(fd, b""), EINVAL);
    check_err!(bind(fd, b"no/such/place"), ENOENT);
    check_err!(bind(fd, b"."), EADDRINUSE);
    let call_with = |nr, at: usize, len: usize| call(nr, [fd as usize, at, len, 0, 0, 0]);
    let other = [2u8, 0, b'x', 0];
    let at = other.as_ptr() as usize;
    check_err!(call_with(libc::SYS_bind, at, 4), EINVAL);
    check_err!(call_with(libc::SYS_connect, at, 4), EINVAL);
    check_err!(call_with(libc::SYS_bind, 8, 20), EFAULT);
    check_err!(call_with(libc::SYS_bind, at, 129), EINVAL);
    check_err!(call_with(libc::SYS_bind, at, usize::MAX), EINVAL);
    std::fs::write("regular", "")?;
    check_err!(connect(fd, b"regular"), ECONNREFUSED);
    bind(fd, b"one")?;
    check_err!(bind(fd, b"two"), EINVAL);
    check!(std::fs::metadata("two").is_err(), "a file without a socket");
    let (hear, _tell) = file::pipe(0)?;
    check_err!(bind(hear, b"three"), ENOTSOCK);
    check_err!(connect(1000, b"one"), EBADF);
    // All of `sun_path`, without a NUL.
    let fd = socket(libc::SOCK_STREAM)?;
    let long = [b'y'; 108];
    bind(fd, &long)?;
    let (mut bytes, mut len) = ([7u8; 120], 120i32);
    let (at, len_at) = (bytes.as_mut_ptr() as usize, &raw mut len as usize);
    call(libc::SYS_getsockname, [fd as usize, at, len_at, 0, 0, 0])?;
    check_eq!(std::hint::black_box(len), 111);
    check_eq!(std::hint::black_box(bytes)[109], b'y');
    Ok(())
}

fn socket_listen_refuses() -> Outcome {
    let fd = socket(libc::SOCK_STREAM)?;
    check_err!(listen(fd, 1), EINVAL);
    check_err!(accept(fd, 0), EINVAL);
    check_err!(accept(fd, 1), EINVAL);
    bind(fd, b"door")?;
    check_err!(connect(socket(libc::SOCK_STREAM)?, b"door"), ECONNREFUSED);
    listen(fd, 1)?;
    listen(fd, 2)?;
    check_err!(connect(fd, b"door"), EINVAL);
    check_err!(connect(socket(libc::SOCK_DGRAM)?, b"door"), EPROTOTYPE);
    check_err!(connect(socket(libc::SOCK_SEQPACKET)?, b"door"), EPROTOTYPE);
    let one = client(libc::SOCK_STREAM, b"door")?;
    check_err!(connect(one, b"door"), EISCONN);
    check_err!(listen(one, 1), EINVAL);
    let datagrams = socket(libc::SOCK_DGRAM)?;
    check_err!(listen(datagrams, 1), EOPNOTSUPP);
    check_err!(accept(datagrams, 0), EOPNOTSUPP);
    let (mut flag, mut len) = (7i32, 4i32);
    let (at, len_at) = (&raw mut flag as usize, &raw mut len as usize);
    let level = libc::SOL_SOCKET as usize;
    let accepts = libc::SO_ACCEPTCONN as usize;
    call(
        libc::SYS_getsockopt,
        [fd as usize, level, accepts, at, len_at, 0],
    )?;
    check_eq!(std::hint::black_box(flag), 1);
    Ok(())
}

fn socket_backlog() -> Outcome {
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    // One more than was asked for.
    let waiting = [
        client(libc::SOCK_STREAM, b"door")?,
        client(libc::SOCK_STREAM, b"door")?,
    ];
    let third = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    check_err!(connect(third, b"door"), EAGAIN);
    let connects = std::thread::spawn(|| client(libc::SOCK_STREAM, b"door"));
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    for one in waiting {
        let other = accept(server, 0)?;
        send(one, b"first come", 0)?;
        check_eq!(next(other)?, b"first come");
    }
    let one = connects
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))??;
    let other = accept(server, 0)?;
    send(other, b"x", 0)?;
    check_eq!(next(one)?, b"x");
    connect(third, b"door")?;
    Ok(())
}

fn socket_listener_closes() -> Outcome {
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    let waiting = client(libc::SOCK_STREAM, b"door")?;
    file::close(server)?;
    check_err!(next(waiting), ECONNRESET);
    check_eq!(next(waiting)?, b"");
    check_err!(send(waiting, b"x", libc::MSG_NOSIGNAL), EPIPE);
    // One that is shut down refuses, and accepts nothing more.
    std::fs::remove_file("door")?;
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    let accepts = std::thread::spawn(move || accept(server, 0));
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    shut_down(server, libc::SHUT_RD)?;
    let accepted = accepts
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))?;
    check_err!(accepted, EINVAL);
    check_err!(connect(socket(libc::SOCK_STREAM)?, b"door"), ECONNREFUSED);
    // A client that closes first leaves what it sent.
    std::fs::remove_file("door")?;
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    let one = client(libc::SOCK_STREAM, b"door")?;
    send(one, b"bye", 0)?;
    file::close(one)?;
    let other = accept(server, 0)?;
    check_eq!(next(other)?, b"bye");
    check_eq!(next(other)?, b"");
    Ok(())
}

fn socket_accept_waits() -> Outcome {
    let server = listener(libc::SOCK_STREAM, b"door", 1)?;
    file::fcntl(server, libc::F_SETFL, libc::O_NONBLOCK.into())?;
    check_err!(accept(server, 0), EAGAIN);
    file::fcntl(server, libc::F_SETFL, 0)?;
    let status = in_child(|| {
        sig::count(libc::SIGALRM, 0, &[])?;
        time::itimer(5_000, 0)?;
        check_err!(accept(server, 0), EINTR);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    let status = in_child(|| {
        let one = client(libc::SOCK_STREAM, b"door")?;
        send(one, b"x", 0)?;
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    let other = accept(server, libc::SOCK_NONBLOCK)?;
    let flags = file::fcntl(other, libc::F_GETFL, 0)?;
    check_eq!(flags & libc::O_NONBLOCK, libc::O_NONBLOCK);
    check_eq!(next(other)?, b"x");
    Ok(())
}

/// The connection waits until there is a number for it.
fn socket_accept_without_a_number() -> Outcome {
    let status = in_child(|| {
        let server = listener(libc::SOCK_STREAM, b"door", 1)?;
        let one = client(libc::SOCK_STREAM, b"door")?;
        send(one, b"x", 0)?;
        let (soft, hard) = proc::getrlimit(libc::RLIMIT_NOFILE)?;
        proc::setrlimit(libc::RLIMIT_NOFILE, one as u64 + 1, hard)?;
        check_err!(accept(server, 0), EMFILE);
        proc::setrlimit(libc::RLIMIT_NOFILE, soft, hard)?;
        let other = accept(server, libc::SOCK_NONBLOCK)?;
        check_eq!(next(other)?, b"x");
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn socket_not_connected() -> Outcome {
    let stream = socket(libc::SOCK_STREAM)?;
    check_err!(next(stream), EINVAL);
    check_err!(send(stream, b"x", libc::MSG_NOSIGNAL), ENOTCONN);
    check_err!(send_to(stream, b"x", b"nowhere"), EOPNOTSUPP);
    check_err!(name(libc::SYS_getpeername, stream), ENOTCONN);
    let all = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
    check_eq!(file::poll(stream, all, 0)?, libc::POLLOUT | libc::POLLHUP);
    let packets = socket(libc::SOCK_SEQPACKET)?;
    check_err!(next(packets), ENOTCONN);
    check_err!(send(packets, b"x", 0), ENOTCONN);
    let datagrams = socket(libc::SOCK_DGRAM)?;
    check_err!(next(datagrams), EAGAIN);
    check_err!(send(datagrams, b"x", 0), ENOTCONN);
    check_eq!(file::poll(datagrams, all, 0)?, libc::POLLOUT);
    Ok(())
}

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
