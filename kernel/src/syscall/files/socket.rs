//! socketpair(2), shutdown(2), getsockname(2), getsockopt(2) and their relatives.

use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::kinds::anonymous;
use crate::fs::kinds::socket::{
    self, Creator, Directions, OPEN_FLAGS, OptionValue, Options, Socket, Style,
};
use crate::fs::{Fd, OpenFile, OpenFlags};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use alloc::sync::Arc;
use core::any::Any;
use linux_raw_sys::general as c;

/// socket(2)'s numbers, which no header of system calls has.
pub const AF_UNIX: u16 = 1;
/// SOCK_STREAM, SOCK_DGRAM, SOCK_RAW (a unix(7) socket takes it for SOCK_DGRAM), SOCK_SEQPACKET.
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
const SOL_SOCKET: u32 = 1;

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

/// A connected pair. EAFNOSUPPORT: not AF_UNIX; EINVAL: no such type or flag; EPROTONOSUPPORT,
/// ESOCKTNOSUPPORT: not for AF_UNIX; EMFILE, EFAULT.
pub fn socketpair(
    task: &Task,
    family: u32,
    kind: SocketType,
    protocol: u32,
    into: UserPtr<[i32; 2]>,
) -> Result<u64> {
    let flags = kind - SocketType::NUMBER;
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
    let style = match kind {
        STREAM => Style::Stream,
        DGRAM | RAW => Style::Datagram,
        SEQPACKET => Style::Packets,
        _ => return Err(Errno::ESOCKTNOSUPPORT),
    };
    let files = task.files();
    let install = |(inode, socket)| {
        let mut open_flags = OPEN_FLAGS;
        open_flags.set(OpenFlags::NONBLOCK, flags.contains(SocketType::NONBLOCK));
        let file = OpenFile::new(anonymous::place(inode), socket, open_flags);
        files.install(file, flags.contains(SocketType::CLOEXEC))
    };
    let process = task.process();
    let creator = process.credentials(|c| Creator {
        pid: process.pid(),
        uid: c.uid[1],
        gid: c.gid[1],
    });
    let [one, other] = socket::pair(style, creator);
    let first = install((one.0, one.1))?;
    let second = match install((other.0, other.1)) {
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
        let ops: &dyn Any = file.ops();
        match ops.is::<Socket>() {
            true => Ok(SocketFile(file)),
            false => Err(Errno::ENOTSOCK),
        }
    }

    /// O_NONBLOCK.
    pub fn nonblocking(&self) -> bool {
        self.0.flags().contains(OpenFlags::NONBLOCK)
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        let ops: &dyn Any = self.0.ops();
        ops.downcast_ref().expect("it was asked when it was made")
    }
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

/// listen(2) and accept(2): only for sockets with a name. EINVAL, EOPNOTSUPP for datagrams.
pub fn listen(task: &Task, fd: Fd) -> Result<u64> {
    match SocketFile::get(task, fd)?.socket().style() {
        Style::Datagram => Err(Errno::EOPNOTSUPP),
        Style::Stream | Style::Packets => Err(Errno::EINVAL),
    }
}

/// getsockname(2) and getpeername(2): neither side has a name, so there is the family alone. EINVAL
/// for a length below 0.
pub fn name(task: &Task, fd: Fd, address: UserPtr<u8>, len: UserPtr<i32>) -> Result<u64> {
    SocketFile::get(task, fd)?;
    let value = AF_UNIX.to_ne_bytes();
    let room = room_of(len)?;
    let into = UserBytes {
        first: address,
        len: room as u64,
    };
    into.write(0, &value[..room.min(value.len())])?;
    len.write(&(value.len() as i32))?;
    Ok(0)
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
    let value = socket.options(|options| options.get(socket.style(), option))?;
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
            let Creator { pid, uid, gid } = socket.creator();
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
