//! Messages: send(2), recv(2) and their relatives.

use super::address::{self, Address};
use super::control::{self, Control, MessageFlags};
use super::socket::SocketFile;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr, UserSlice};
use crate::fs::Fd;
use crate::fs::kinds::socket::{Endpoint, How, Outgoing, Received, Style};
use crate::fs::open::io::{IoVec, Sink, Source};
use crate::process::task::Task;
use crate::sched;
use crate::syscall::time::Timespec;
use alloc::sync::Arc;
use linux_raw_sys::general as c;

/// `struct msghdr` in words: name, its length, pieces, their count, control data, its length,
/// flags.
type HeaderWords = [u64; 7];
/// `struct mmsghdr`: a header, and the length of what was sent or received.
type MultipleWords = [u64; 8];

/// `struct msghdr`, as far as it is read.
struct Header {
    name: UserPtr<u8>,
    name_len: i32,
    pieces: UserSlice<IoVec>,
    control: UserBytes,
}

impl Header {
    /// Where fields stand that are written back; `struct mmsghdr` has a length behind the header.
    const NAME_LEN: u64 = 8;
    const CONTROL_LEN: u64 = 40;
    const FLAGS: u64 = 48;
    const SIZE: u64 = 56;

    /// EFAULT; EMSGSIZE for more pieces than writev(2) takes; EINVAL for a name of negative length.
    fn read(at: UserPtr<HeaderWords>) -> Result<Header> {
        let [name, name_len, pieces, count, control, control_len, _] = at.read()?;
        if count > u64::from(c::UIO_MAXIOV) {
            return Err(Errno::EMSGSIZE);
        }
        let name_len = name_len as i32;
        if name_len < 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Header {
            name: name.into(),
            name_len,
            pieces: UserSlice {
                first: pieces.into(),
                len: count,
            },
            control: control::range(control.into(), control_len),
        })
    }
}

fn how(file: &SocketFile, flags: MessageFlags) -> Result<How> {
    if flags.contains(MessageFlags::OOB) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(How {
        wait: !flags.contains(MessageFlags::DONTWAIT) && !file.nonblocking(),
        peek: flags.contains(MessageFlags::PEEK),
        fill: flags.contains(MessageFlags::WAITALL),
        quiet: flags.contains(MessageFlags::NOSIGNAL),
    })
}

/// Where a message with an address goes: only a datagram goes there. A stream does not take one:
/// EISCONN, EOPNOTSUPP; packets ignore it. The errors of [`Address::find`].
fn receiver(task: &Task, file: &SocketFile, address: &Address) -> Result<Option<Arc<Endpoint>>> {
    let socket = file.socket();
    match socket.style() {
        Style::Packets => Ok(None),
        Style::Stream if socket.peer_name().is_ok() => Err(Errno::EISCONN),
        Style::Stream => Err(Errno::EOPNOTSUPP),
        Style::Datagram => address.find(task, Style::Datagram).map(Some),
    }
}

/// sendto(2).
pub fn sendto(
    task: &Task,
    fd: Fd,
    from: UserBytes,
    flags: MessageFlags,
    address: UserPtr<u8>,
    address_len: i32,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    let how = how(&file, flags)?;
    let mut out = Outgoing::default();
    if address.given().is_some() {
        let address = Address::read(address, address_len)?;
        out.to = receiver(task, &file, &address)?;
    }
    let mut source = Source::user(from)?;
    Ok(file.socket().send(how, &mut source, out)? as u64)
}

/// The result of recv(2): with MSG_TRUNC the length of the message, whatever there was room for.
fn result_of(received: &Received, flags: MessageFlags) -> u64 {
    match flags.contains(MessageFlags::TRUNC) {
        false => received.bytes as u64,
        true => received.message as u64,
    }
}

/// recvfrom(2): a sender without a name has an address of length 0.
pub fn recvfrom(
    task: &Task,
    fd: Fd,
    into: UserBytes,
    flags: MessageFlags,
    address: UserPtr<u8>,
    address_len: UserPtr<i32>,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    let how = how(&file, flags)?;
    let mut sink = Sink::user(into)?;
    let received = file.socket().receive(how, &mut sink)?;
    if address.given().is_some() {
        match &received.with.from {
            Some(name) => address::write(Some(name), address, address_len)?,
            None if address_len.read()? < 0 => return Err(Errno::EINVAL),
            None => address_len.write(&0)?,
        }
    }
    Ok(result_of(&received, flags))
}

/// sendmsg(2), with what [`control::read`] takes.
pub fn sendmsg(
    task: &Task,
    fd: Fd,
    header: UserPtr<HeaderWords>,
    flags: MessageFlags,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    send_one(task, &file, header, flags)
}

fn send_one(
    task: &Task,
    file: &SocketFile,
    at: UserPtr<HeaderWords>,
    flags: MessageFlags,
) -> Result<u64> {
    let header = Header::read(at)?;
    let how = how(file, flags)?;
    let mut out = control::read(task, header.control)?;
    if header.name.given().is_some() && header.name_len > 0 {
        // A name that is too long is cut.
        let address = Address::read(header.name, header.name_len.min(address::LONGEST as i32))?;
        out.to = receiver(task, file, &address)?;
    }
    let mut source = Source::user_list(header.pieces)?;
    Ok(file.socket().send(how, &mut source, out)? as u64)
}

/// recvmsg(2).
pub fn recvmsg(
    task: &Task,
    fd: Fd,
    header: UserPtr<HeaderWords>,
    flags: MessageFlags,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    receive_one(task, &file, header, flags)
}

fn receive_one(
    task: &Task,
    file: &SocketFile,
    at: UserPtr<HeaderWords>,
    flags: MessageFlags,
) -> Result<u64> {
    let header = Header::read(at)?;
    let how = how(file, flags)?;
    let mut sink = Sink::user_list(header.pieces)?;
    let received = file.socket().receive(how, &mut sink)?;
    let result = result_of(&received, flags);
    if header.name.given().is_some() {
        let len = match &received.with.from {
            Some(name) => address::write_within(Some(name), header.name, header.name_len as usize)?,
            None => 0,
        };
        at.field(Header::NAME_LEN).write(&(len as i32))?;
    }
    let mut control = Control::new(header.control);
    control.flags = flags & MessageFlags::CMSG_CLOEXEC;
    let shows_sender = file
        .socket()
        .options(|options| options.passes_credentials());
    let lost = received.message > received.bytes;
    control.write(task, received.with, shows_sender)?;
    let mut answer = control.flags;
    answer.set(MessageFlags::TRUNC, lost);
    at.field(Header::CONTROL_LEN)
        .write(&(control.used() as u64))?;
    at.field(Header::FLAGS).write(&answer.bits())?;
    Ok(result)
}

/// Calls `one` with the address of each `struct msghdr`, until one fails; how many did not, or the
/// error of the first.
fn each(
    list: UserPtr<MultipleWords>,
    count: u32,
    mut one: impl FnMut(UserPtr<HeaderWords>, bool) -> Result<u64>,
) -> Result<u64> {
    let count = u64::from(count.min(c::UIO_MAXIOV));
    for done in 0..count {
        let at = list.element(done);
        let result =
            one(at.field(0), done == 0).and_then(|n| at.field(Header::SIZE).write(&(n as u32)));
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
pub fn sendmmsg(
    task: &Task,
    fd: Fd,
    list: UserPtr<MultipleWords>,
    count: u32,
    flags: MessageFlags,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    each(list, count, |at, _| send_one(task, &file, at, flags))
}

/// recvmmsg(2) without a time limit: EINVAL with one.
pub fn recvmmsg(
    task: &Task,
    fd: Fd,
    list: UserPtr<MultipleWords>,
    count: u32,
    flags: MessageFlags,
    timeout: UserPtr<Timespec>,
) -> Result<u64> {
    let file = SocketFile::get(task, fd)?;
    if timeout.given().is_some() {
        return Err(Errno::EINVAL);
    }
    let mut after_one = flags;
    if flags.contains(MessageFlags::WAITFORONE) {
        after_one |= MessageFlags::DONTWAIT;
    }
    each(list, count, |at, first| {
        receive_one(task, &file, at, if first { flags } else { after_one })
    })
}
