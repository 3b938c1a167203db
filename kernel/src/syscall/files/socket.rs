//! socketpair(2), and what such sockets are asked besides messages: shutdown(2), getsockname(2),
//! getsockopt(2).

use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::Fd;
use crate::fs::OpenFile;
use crate::fs::kinds::anonymous;
use crate::fs::kinds::socket::{
    self, Creator, Directions, OPEN_FLAGS, OptionValue, Options, Socket, Style,
};
use crate::process::task::Task;
use alloc::sync::Arc;
use core::any::Any;
use linux_raw_sys::general as c;

/// socket(2)'s numbers, which no header of system calls has.
pub const AF_UNIX: u64 = 1;
/// SOCK_STREAM, SOCK_DGRAM, SOCK_RAW (a unix(7) socket takes it for SOCK_DGRAM), SOCK_SEQPACKET.
const STREAM: u32 = 1;
const DGRAM: u32 = 2;
const RAW: u32 = 3;
const SEQPACKET: u32 = 5;
const TYPE: u32 = 0xf;
/// One past the last type that there is.
const TYPES: u32 = 11;
/// SHUT_RD, SHUT_WR, SHUT_RDWR.
const SHUT_RD: u64 = 0;
const SHUT_WR: u64 = 1;
const SHUT_RDWR: u64 = 2;
const SOL_SOCKET: u64 = 1;

/// A connected pair. EAFNOSUPPORT: not AF_UNIX; EINVAL: no such type or flag; EPROTONOSUPPORT,
/// ESOCKTNOSUPPORT: not for AF_UNIX; EMFILE, EFAULT.
pub fn socketpair(task: &Task, family: u64, kind: u64, protocol: u64, at: u64) -> Result<u64> {
    let (kind, flags) = (kind as u32 & TYPE, kind as u32 & !TYPE);
    // SOCK_CLOEXEC and SOCK_NONBLOCK are open(2)'s bits.
    if flags & !(c::O_CLOEXEC | c::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if family != AF_UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind >= TYPES {
        return Err(Errno::EINVAL);
    }
    if protocol != 0 && protocol != AF_UNIX {
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
        let file = OpenFile::new(
            anonymous::place(inode),
            socket,
            OPEN_FLAGS | flags & c::O_NONBLOCK,
        );
        files.install(file, flags & c::O_CLOEXEC != 0)
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
    match uaccess::write(at, &[first.0, second.0]) {
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
        self.0.flags() & c::O_NONBLOCK != 0
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        let ops: &dyn Any = self.0.ops();
        ops.downcast_ref().expect("it was asked when it was made")
    }
}

/// shutdown(2). EINVAL for a direction that there is not.
pub fn shutdown(task: &Task, fd: Fd, how: u64) -> Result<u64> {
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
pub fn name(task: &Task, fd: Fd, address: u64, len: u64) -> Result<u64> {
    SocketFile::get(task, fd)?;
    give(address, len, &(AF_UNIX as u16).to_ne_bytes())?;
    Ok(0)
}

/// Copies as much of a value as the caller has room for, and tells its length at `len`.
fn give(at: u64, len: u64, value: &[u8]) -> Result {
    let room: i32 = uaccess::read(len)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    uaccess::write_bytes(at, &value[..room.min(value.len())])?;
    uaccess::write(len, &(value.len() as i32))
}

/// getsockopt(2): the length becomes what was copied. EOPNOTSUPP: another level than SOL_SOCKET.
pub fn getsockopt(task: &Task, fd: Fd, [level, option, at, len]: [u64; 4]) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    let socket = file.socket();
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    let room: i32 = uaccess::read(len)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let value = socket.options(|options| options.get(socket.style(), option as u32))?;
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
    uaccess::write_bytes(at, &bytes[..n])?;
    uaccess::write(len, &(n as i32)).map(|()| 0)
}

/// setsockopt(2). EOPNOTSUPP as above, EINVAL for a value that is too short.
pub fn setsockopt(task: &Task, fd: Fd, [level, option, at, len]: [u64; 4]) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    let long_enough = |size: i32| match len as i32 >= size {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    };
    long_enough(4)?;
    let value = match Options::form(option as u32)? {
        OptionValue::Time(_) => {
            long_enough(16)?;
            OptionValue::Time(uaccess::read(at)?)
        }
        OptionValue::Linger(_) => {
            long_enough(8)?;
            OptionValue::Linger(uaccess::read(at)?)
        }
        _ => OptionValue::Number(uaccess::read(at)?),
    };
    file.socket()
        .options(|options| options.set(option as u32, value))
        .map(|()| 0)
}
