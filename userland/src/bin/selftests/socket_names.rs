//! Sockets with names: bind(2), listen(2), connect(2), accept(2).
use crate::sockets::{DONTWAIT, next, send, shut_down};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Result, call, file, sig, time};
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
pub fn name(nr: i64, fd: i32) -> Result<Vec<u8>> {
    let (mut bytes, mut len) = ([0u8; 120], 120i32);
    let (at, len_at) = (bytes.as_mut_ptr() as usize, &raw mut len as usize);
    call(nr, [fd as usize, at, len_at, 0, 0, 0])?;
    let len = std::hint::black_box(len) as usize;
    Ok(std::hint::black_box(bytes)[2..len].to_vec())
}

/// sendto(2).
pub fn send_to(fd: i32, bytes: &[u8], to: &[u8]) -> Result<usize> {
    let to = address(to);
    let (from, at) = (bytes.as_ptr() as usize, to.as_ptr() as usize);
    let flags = DONTWAIT as usize;
    call(
        libc::SYS_sendto,
        [fd as usize, from, bytes.len(), flags, at, to.len()],
    )
}

/// recvfrom(2) without waiting: the bytes and the sender's name.
pub fn receive_from(fd: i32) -> Result<(Vec<u8>, Vec<u8>)> {
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
pub fn listener(kind: i32, at: &[u8], most: i32) -> Result<i32> {
    let fd = socket(kind)?;
    bind(fd, at)?;
    listen(fd, most)?;
    Ok(fd)
}

/// A socket that has connected.
pub fn client(kind: i32, at: &[u8]) -> Result<i32> {
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
