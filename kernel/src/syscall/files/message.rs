//! send(2), recv(2) and their relatives.

use super::socket::{AF_UNIX, SocketFile};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::Fd;
use crate::fs::kinds::socket::{How, Received, Style};
use crate::fs::open::io::{Sink, Source};
use crate::fs::tree::path::{self, Last};
use crate::process::task::Task;
use crate::sched;
use linux_raw_sys::general as c;

/// MSG_*, which no header of system calls has.
const MSG_OOB: u32 = 1;
const MSG_PEEK: u32 = 2;
const MSG_TRUNC: u32 = 0x20;
const MSG_DONTWAIT: u32 = 0x40;
const MSG_WAITALL: u32 = 0x100;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_WAITFORONE: u32 = 0x1_0000;
/// The longest address, `struct sockaddr_storage`, and the longest of AF_UNIX, `struct
/// sockaddr_un`.
const LONGEST: usize = 128;
const LONGEST_UNIX: usize = 110;

/// `struct msghdr`.
struct Header {
    name: u64,
    name_len: i32,
    pieces: u64,
    count: u64,
    control: u64,
    control_len: u64,
}

impl Header {
    /// Where fields stand that are written back, and the size of `struct msghdr`; `struct mmsghdr`
    /// has a length behind it.
    const NAME_LEN: u64 = 8;
    const CONTROL_LEN: u64 = 40;
    const FLAGS: u64 = 48;
    const SIZE: u64 = 56;
    const MULTIPLE: u64 = 64;

    /// EFAULT; EMSGSIZE for more pieces than writev(2) takes; EINVAL for a name of negative length.
    fn read(at: u64) -> Result<Header> {
        let [name, name_len, pieces, count, control, control_len, _] =
            uaccess::read::<[u64; 7]>(at)?;
        if count > u64::from(c::UIO_MAXIOV) {
            return Err(Errno::EMSGSIZE);
        }
        let name_len = name_len as i32;
        if name_len < 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Header {
            name,
            name_len,
            pieces,
            count,
            control,
            control_len,
        })
    }
}

fn how(file: &SocketFile, flags: u32) -> Result<How> {
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(How {
        wait: flags & MSG_DONTWAIT == 0 && !file.nonblocking(),
        peek: flags & MSG_PEEK != 0,
        fill: flags & MSG_WAITALL != 0,
        quiet: flags & MSG_NOSIGNAL != 0,
    })
}

/// A receiver that is named although the socket is connected. A stream has one already, packets go
/// where they go; of datagrams another would get it, but no socket here has a name: EISCONN,
/// EINVAL, ENOENT, ECONNREFUSED, EFAULT.
fn check_receiver(task: &Task, style: Style, address: u64, len: usize) -> Result {
    let mut bytes = [0; LONGEST];
    uaccess::read_bytes(address, &mut bytes[..len])?;
    match style {
        Style::Packets => return Ok(()),
        Style::Stream => return Err(Errno::EISCONN),
        Style::Datagram => {}
    }
    if len <= 2
        || len > LONGEST_UNIX
        || u64::from(u16::from_ne_bytes([bytes[0], bytes[1]])) != AF_UNIX
    {
        return Err(Errno::EINVAL);
    }
    let name = bytes[2..len].split(|b| *b == 0).next().unwrap_or_default();
    // A name that begins with NUL is in no directory.
    if !name.is_empty() {
        let context = task.fs();
        path::resolve(&context, context.cwd(), name, Last::Follow)?;
    }
    Err(Errno::ECONNREFUSED)
}

/// The arguments of sendto(2) and recvfrom(2): some memory and the other side's address.
struct Transfer {
    fd: Fd,
    at: u64,
    len: u64,
    flags: u32,
    address: u64,
    /// The length itself, or where it stands.
    address_len: u64,
}

impl From<&[u64; 6]> for Transfer {
    fn from(&[fd, at, len, flags, address, address_len]: &[u64; 6]) -> Transfer {
        Transfer {
            fd: fd.into(),
            at,
            len,
            flags: flags as u32,
            address,
            address_len,
        }
    }
}

/// sendto(2).
pub fn sendto(task: &Task, args: &[u64; 6]) -> Result<u64> {
    let what = Transfer::from(args);
    let file = SocketFile::get(task, what.fd)?;
    let how = how(&file, what.flags)?;
    if what.address != 0 {
        let len = usize::try_from(what.address_len as i32).unwrap_or(usize::MAX);
        if len > LONGEST {
            return Err(Errno::EINVAL);
        }
        check_receiver(task, file.socket().style(), what.address, len)?;
    }
    let mut source = Source::user(what.at, what.len)?;
    Ok(file.socket().send(how, &mut source)? as u64)
}

/// What recv(2) returns: with MSG_TRUNC the length of the message, whatever there was room for.
fn told(received: Received, flags: u32) -> u64 {
    match flags & MSG_TRUNC {
        0 => received.bytes as u64,
        _ => received.message as u64,
    }
}

/// recvfrom(2): the other side has no name, so its length is 0.
pub fn recvfrom(task: &Task, args: &[u64; 6]) -> Result<u64> {
    let what = Transfer::from(args);
    let file = SocketFile::get(task, what.fd)?;
    let how = how(&file, what.flags)?;
    let mut sink = Sink::user(what.at, what.len)?;
    let received = file.socket().receive(how, &mut sink)?;
    if what.address != 0 {
        if uaccess::read::<i32>(what.address_len)? < 0 {
            return Err(Errno::EINVAL);
        }
        uaccess::write(what.address_len, &0i32)?;
    }
    Ok(told(received, what.flags))
}

/// sendmsg(2). EOPNOTSUPP with control data, and nothing is sent: neither descriptors (SCM_RIGHTS)
/// nor credentials travel here.
pub fn sendmsg(task: &Task, fd: Fd, header: u64, flags: u64) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    send_one(task, &file, header, flags as u32)
}

fn send_one(task: &Task, file: &SocketFile, at: u64, flags: u32) -> Result<u64> {
    let header = Header::read(at)?;
    let how = how(file, flags)?;
    if header.name != 0 && header.name_len > 0 {
        let len = LONGEST.min(header.name_len as usize);
        check_receiver(task, file.socket().style(), header.name, len)?;
    }
    if header.control != 0 && header.control_len > 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut source = Source::user_list(header.pieces, header.count)?;
    Ok(file.socket().send(how, &mut source)? as u64)
}

/// recvmsg(2).
pub fn recvmsg(task: &Task, fd: Fd, header: u64, flags: u64) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    receive_one(&file, header, flags as u32)
}

fn receive_one(file: &SocketFile, at: u64, flags: u32) -> Result<u64> {
    let header = Header::read(at)?;
    let how = how(file, flags)?;
    let mut sink = Sink::user_list(header.pieces, header.count)?;
    let received = file.socket().receive(how, &mut sink)?;
    if header.name != 0 {
        uaccess::write(at + Header::NAME_LEN, &0i32)?;
    }
    let cut = if received.message > received.bytes {
        MSG_TRUNC
    } else {
        0
    };
    uaccess::write(at + Header::CONTROL_LEN, &0u64)?;
    uaccess::write(at + Header::FLAGS, &cut)?;
    Ok(told(received, flags))
}

/// Calls `one` with the address of each `struct msghdr`, until one fails; how many did not, or the
/// error of the first.
fn each(list: u64, count: u64, mut one: impl FnMut(u64, bool) -> Result<u64>) -> Result<u64> {
    let count = count.min(u64::from(c::UIO_MAXIOV));
    for done in 0..count {
        let at = list + done * Header::MULTIPLE;
        let result =
            one(at, done == 0).and_then(|n| uaccess::write(at + Header::SIZE, &(n as u32)));
        match result {
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
            // One may have 1024 pieces.
            Ok(()) if sched::breathe() => return Ok(done + 1),
            Ok(()) => {}
        }
    }
    Ok(count)
}

/// sendmmsg(2).
pub fn sendmmsg(task: &Task, fd: Fd, list: u64, count: u64, flags: u64) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    each(list, count, |at, _| send_one(task, &file, at, flags as u32))
}

/// recvmmsg(2) without a time limit: EINVAL with one.
pub fn recvmmsg(task: &Task, fd: Fd, [list, count, flags, timeout]: [u64; 4]) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    if timeout != 0 {
        return Err(Errno::EINVAL);
    }
    let flags = flags as u32;
    let after_one = match flags & MSG_WAITFORONE {
        0 => flags,
        _ => flags | MSG_DONTWAIT,
    };
    each(list, count, |at, first| {
        receive_one(&file, at, if first { flags } else { after_one })
    })
}
