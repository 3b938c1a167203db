//! socket(2), bind(2), connect(2), accept(2), shutdown(2), getsockopt(2) and their relatives.

use super::address::{self, AF_UNIX, Address};
use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::caller::{self, Creator};
use crate::fs::kinds::socket::{
    self, Directions, Endpoint, How, OptionValue, Options, Style, endpoint_of,
};
use crate::fs::{Fd, OpenFile, OpenFlags};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use alloc::sync::Arc;
use linux_raw_sys::general as c;

/// Types of socket(2), which no header of system calls has: SOCK_STREAM, SOCK_DGRAM, SOCK_RAW (a
/// unix(7) socket takes it for SOCK_DGRAM), SOCK_SEQPACKET.
const STREAM: u32 = 1;
const DGRAM: u32 = 2;
const RAW: u32 = 3;
const SEQPACKET: u32 = 5;
/// One past the last type.
const TYPES: u32 = 11;
/// SHUT_RD, SHUT_WR, SHUT_RDWR.
const SHUT_RD: u32 = 0;
const SHUT_WR: u32 = 1;
const SHUT_RDWR: u32 = 2;
/// The level of options and control data.
pub const SOL_SOCKET: u32 = 1;

bitflags::bitflags! {
    /// A type of sockets, and SOCK_*: flags besides it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SocketType: u32 {
        /// The type's number.
        const NUMBER = 0xf;
        /// SOCK_CLOEXEC, which is open(2)'s bit.
        const CLOEXEC = c::O_CLOEXEC;
        /// SOCK_NONBLOCK, which is open(2)'s bit.
        const NONBLOCK = c::O_NONBLOCK;
    }
}

flag_arguments!(SocketType: invalid);

/// The style that a family, a type and a protocol mean. EAFNOSUPPORT: not AF_UNIX; EINVAL: no such
/// type; EPROTONOSUPPORT, ESOCKTNOSUPPORT: not for AF_UNIX.
fn style_of(family: u32, kind: SocketType, protocol: u32) -> Result<Style> {
    let kind = (kind & SocketType::NUMBER).bits();
    if family != AF_UNIX.into() {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind >= TYPES {
        return Err(Errno::EINVAL);
    }
    if protocol != 0 && protocol != AF_UNIX.into() {
        return Err(Errno::EPROTONOSUPPORT);
    }
    match kind {
        STREAM => Ok(Style::Stream),
        DGRAM | RAW => Ok(Style::Datagram),
        SEQPACKET => Ok(Style::Packets),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn install(task: &Task, endpoint: Arc<Endpoint>, flags: SocketType) -> Result<Fd> {
    let file = socket::open(endpoint, flags.contains(SocketType::NONBLOCK));
    task.files()
        .install(file, flags.contains(SocketType::CLOEXEC))
}

/// socket(2); the errors of [`style_of`], EMFILE, ENOMEM.
pub fn socket(task: &Task, family: u32, kind: SocketType, protocol: u32) -> Result<u64> {
    let endpoint = Endpoint::new(style_of(family, kind, protocol)?)?;
    Ok(install(task, endpoint, kind)?.to_return())
}

/// socketpair(2): a connected pair. As [`socket`], EFAULT.
pub fn socketpair(
    task: &Task,
    family: u32,
    kind: SocketType,
    protocol: u32,
    into: UserPtr<[i32; 2]>,
) -> Result<u64> {
    let style = style_of(family, kind, protocol)?;
    let [one, other] = socket::pair(style, caller::creator())?;
    let files = task.files();
    let first = install(task, one, kind)?;
    let second = match install(task, other, kind) {
        Ok(second) => second,
        Err(error) => return files.close(first).and(Err(error)),
    };
    match into.write(&[first.0, second.0]) {
        Ok(()) => Ok(0),
        Err(error) => files.close(first).and(files.close(second)).and(Err(error)),
    }
}

/// An open file that is a socket.
pub struct SocketFile(Arc<OpenFile>);

impl SocketFile {
    /// EBADF, ENOTSOCK.
    pub fn get(task: &Task, fd: Fd) -> Result<SocketFile> {
        let file = usable(task, fd)?;
        match endpoint_of(&file) {
            Some(_) => Ok(SocketFile(file)),
            None => Err(Errno::ENOTSOCK),
        }
    }

    /// O_NONBLOCK.
    pub fn nonblocking(&self) -> bool {
        self.0.flags().contains(OpenFlags::NONBLOCK)
    }

    /// The socket.
    pub fn socket(&self) -> &Arc<Endpoint> {
        endpoint_of(&self.0).expect("it was asked when it was made")
    }

    fn how(&self) -> How {
        How::waiting(!self.nonblocking())
    }
}

/// bind(2). EBADF, ENOTSOCK, and the errors of [`Address::bind`].
pub fn bind(task: &Task, fd: Fd, at: UserPtr<u8>, len: i32) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    let address = Address::read(at, len)?;
    address.bind(task, file.socket()).map(|()| 0)
}

/// listen(2); [`Endpoint::listen`].
pub fn listen(task: &Task, fd: Fd, most: i32) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    file.socket().listen(most, caller::creator()).map(|()| 0)
}

/// connect(2); [`Address::find`], [`Endpoint::connect`].
pub fn connect(task: &Task, fd: Fd, at: UserPtr<u8>, len: i32) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    let address = Address::read(at, len)?;
    let socket = file.socket();
    if socket.style() == Style::Datagram && address.is_unspecified() {
        return socket.disconnect().map(|()| 0);
    }
    let to = address.find(task, socket.style())?;
    socket
        .connect(&to, file.how(), caller::creator())
        .map(|()| 0)
}

/// accept4(2); [`Endpoint::accept`], EMFILE, EFAULT.
pub fn accept4(
    task: &Task,
    fd: Fd,
    at: UserPtr<u8>,
    len: UserPtr<i32>,
    flags: SocketType,
) -> Result<u64> {
    if flags.intersects(SocketType::NUMBER) {
        return Err(Errno::EINVAL);
    }
    let file = SocketFile::get(task, fd)?;
    task.files().check_free()?;
    let accepted = file.socket().accept(file.how())?;
    let name = accepted.peer_name()?;
    // Dropped unless it is installed: closed for the other side, too.
    let opened = socket::open(accepted, flags.contains(SocketType::NONBLOCK));
    if at.given().is_some() {
        address::write(name.as_ref(), at, len)?;
    }
    let close_on_exec = flags.contains(SocketType::CLOEXEC);
    Ok(task.files().install(opened, close_on_exec)?.to_return())
}

/// accept(2).
pub fn accept(task: &Task, fd: Fd, at: UserPtr<u8>, len: UserPtr<i32>) -> Result<u64> {
    accept4(task, fd, at, len, SocketType::empty())
}

/// shutdown(2). EINVAL for an unknown direction.
pub fn shutdown(task: &Task, fd: Fd, how: u32) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    if how > SHUT_RDWR {
        return Err(Errno::EINVAL);
    }
    file.socket().shut_down(Directions {
        receive: matches!(how, SHUT_RD | SHUT_RDWR),
        send: matches!(how, SHUT_WR | SHUT_RDWR),
    });
    Ok(0)
}

/// getsockname(2): the family alone when it has no name. EINVAL for a length below 0.
pub fn getsockname(task: &Task, fd: Fd, at: UserPtr<u8>, len: UserPtr<i32>) -> Result<u64> {
    let name = SocketFile::get(task, fd)?.socket().name();
    address::write(name.as_ref(), at, len).map(|()| 0)
}

/// getpeername(2): as [`getsockname`]. ENOTCONN.
pub fn getpeername(task: &Task, fd: Fd, at: UserPtr<u8>, len: UserPtr<i32>) -> Result<u64> {
    let name = SocketFile::get(task, fd)?.socket().peer_name()?;
    address::write(name.as_ref(), at, len).map(|()| 0)
}

/// How many bytes of a value the caller has room for. EINVAL for a negative number.
fn room_of(len: UserPtr<i32>) -> Result<usize> {
    usize::try_from(len.read()?).map_err(|_| Errno::EINVAL)
}

/// getsockopt(2): the length becomes what was copied. EOPNOTSUPP: another level than SOL_SOCKET.
pub fn getsockopt(
    task: &Task,
    fd: Fd,
    level: u32,
    option: u32,
    into: UserPtr<u8>,
    len: UserPtr<i32>,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    let socket = file.socket();
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    let room = room_of(len)?;
    let value = socket.option(option)?;
    let mut bytes = [0; 16];
    let words = |words: &[i32], bytes: &mut [u8; 16]| {
        for (into, word) in bytes.chunks_exact_mut(4).zip(words) {
            into.copy_from_slice(&word.to_ne_bytes());
        }
        4 * words.len()
    };
    let size = match value {
        OptionValue::Number(n) => words(&[n], &mut bytes),
        OptionValue::Linger(linger) => words(&linger, &mut bytes),
        OptionValue::Peer => {
            let Creator { pid, uid, gid } = socket.peer_process();
            words(&[pid, uid as i32, gid as i32], &mut bytes)
        }
        OptionValue::Time([seconds, micros]) => {
            bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
            bytes[8..].copy_from_slice(&micros.to_ne_bytes());
            16
        }
    };
    let n = size.min(room);
    let into = UserBytes {
        first: into,
        len: n as u64,
    };
    into.write(0, &bytes[..n])?;
    len.write(&(n as i32)).map(|()| 0)
}

/// setsockopt(2). EOPNOTSUPP as above, EINVAL for a value that is too short.
pub fn setsockopt(
    task: &Task,
    fd: Fd,
    level: u32,
    option: u32,
    at: UserPtr<i32>,
    len: i32,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    let long_enough = |size: i32| match len >= size {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    };
    long_enough(4)?;
    let value = match Options::form(option)? {
        OptionValue::Time(_) => {
            long_enough(16)?;
            OptionValue::Time(at.field(0).read()?)
        }
        OptionValue::Linger(_) => {
            long_enough(8)?;
            OptionValue::Linger(at.field(0).read()?)
        }
        _ => OptionValue::Number(at.read()?),
    };
    file.socket()
        .options(|options| options.set(option, value))
        .map(|()| 0)
}
