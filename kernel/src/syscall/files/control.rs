//! What goes with messages besides their bytes: `struct cmsghdr`, cmsg(3).

use super::socket::SOL_SOCKET;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::Fd;
use crate::fs::caller::Creator;
use crate::fs::kinds::socket::{Companions, Outgoing, Rights};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use alloc::vec::Vec;

/// Types of SOL_SOCKET, which no header of system calls has.
const SCM_RIGHTS: u32 = 1;
const SCM_CREDENTIALS: u32 = 2;
/// Open files of one message at most (SCM_MAX_FD).
const MOST_FILES: usize = 253;
/// Bytes of control data at most: ENOBUFS.
const MOST_BYTES: u64 = 20 << 10;
/// Bytes of a header: the length (its own included), level and type.
const HEADER: usize = 16;
/// Bytes of `struct ucred`.
const CREDENTIALS: usize = 12;

bitflags::bitflags! {
    /// MSG_*, which no header of system calls has; unknown ones are ignored.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MessageFlags: u32 {
        /// MSG_OOB: EOPNOTSUPP.
        const OOB = 1;
        /// MSG_PEEK: what is received stays there.
        const PEEK = 2;
        /// MSG_CTRUNC, of an answer: not all control data was there room for.
        const CTRUNC = 8;
        /// MSG_TRUNC: the result is the length of the message, whatever there was room for.
        const TRUNC = 0x20;
        /// MSG_DONTWAIT: EAGAIN instead of waiting.
        const DONTWAIT = 0x40;
        /// MSG_WAITALL: a stream is received until all the room is filled.
        const WAITALL = 0x100;
        /// MSG_NOSIGNAL: no SIGPIPE.
        const NOSIGNAL = 0x4000;
        /// MSG_WAITFORONE: recvmmsg(2) does not wait after the first message.
        const WAITFORONE = 0x1_0000;
        /// MSG_CMSG_CLOEXEC: descriptors that arrive are closed by execve(2).
        const CMSG_CLOEXEC = 0x4000_0000;
    }
}

flag_arguments!(MessageFlags: ignored);

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bytes with what aligns the next header.
fn aligned(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// Reads the control data of sendmsg(2). EINVAL, EBADF, ENOBUFS, ETOOMANYREFS, ENOMEM, EFAULT.
pub fn read(task: &Task, data: UserBytes) -> Result<Outgoing> {
    if data.len > MOST_BYTES {
        return Err(Errno::ENOBUFS);
    }
    let mut bytes = fallible::filled(0, data.len as usize)?;
    data.read(&mut bytes)?;
    let (mut out, mut files) = (Outgoing::default(), Vec::new());
    let mut rest = &bytes[..];
    while rest.len() >= HEADER {
        // The upper half of the length makes it too long.
        let len = word(rest, 0) as usize;
        if word(rest, 4) != 0 || len < HEADER || len > rest.len() {
            return Err(Errno::EINVAL);
        }
        let (level, kind, payload) = (word(rest, 8), word(rest, 12), &rest[HEADER..len]);
        match (level, kind) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                let numbers = payload.chunks_exact(4);
                if files.len() + numbers.len() > MOST_FILES {
                    return Err(Errno::EINVAL);
                }
                for number in numbers {
                    let fd = Fd(word(number, 0) as i32);
                    fallible::push(&mut files, task.files().get(fd)?)?;
                }
            }
            (SOL_SOCKET, SCM_CREDENTIALS) if payload.len() == CREDENTIALS => {
                out.sender = Some(Creator {
                    pid: word(payload, 0) as i32,
                    uid: word(payload, 4),
                    gid: word(payload, 8),
                });
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
        rest = &rest[aligned(len).min(rest.len())..];
    }
    if !files.is_empty() {
        out.rights = Some(Rights::new(files)?);
    }
    Ok(out)
}

/// Where recvmsg(2) puts control data.
pub struct Control {
    room: UserBytes,
    used: usize,
    /// MSG_CTRUNC, and what the caller's flags add.
    pub flags: MessageFlags,
}

impl Control {
    /// Nothing is there yet.
    pub fn new(room: UserBytes) -> Control {
        Control {
            room,
            used: 0,
            flags: MessageFlags::empty(),
        }
    }

    /// Bytes of it all.
    pub fn used(&self) -> usize {
        self.used
    }

    fn left(&self) -> usize {
        self.room.len as usize - self.used
    }

    /// Adds one entry, as much of it as there is room for.
    fn put(&mut self, kind: u32, payload: &[u8]) -> Result {
        let left = self.left();
        if left < HEADER {
            self.flags |= MessageFlags::CTRUNC;
            return Ok(());
        }
        let len = HEADER + payload.len();
        let n = len.min(left);
        self.flags.set(
            MessageFlags::CTRUNC,
            n < len || self.flags.contains(MessageFlags::CTRUNC),
        );
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&(n as u64).to_ne_bytes());
        header[8..12].copy_from_slice(&SOL_SOCKET.to_ne_bytes());
        header[12..].copy_from_slice(&kind.to_ne_bytes());
        let at = self.used as u64;
        self.room.write(at, &header)?;
        self.room
            .write(at + HEADER as u64, &payload[..n - HEADER])?;
        self.used += aligned(n).min(left);
        Ok(())
    }

    /// Adds what came with a message. Open files that find no room or no number are closed.
    pub fn write(&mut self, task: &Task, with: Companions, shows_sender: bool) -> Result {
        if let (true, Some(Creator { pid, uid, gid })) = (shows_sender, with.sender) {
            let mut bytes = [0; CREDENTIALS];
            let words = [pid.to_ne_bytes(), uid.to_ne_bytes(), gid.to_ne_bytes()];
            for (into, word) in bytes.chunks_exact_mut(4).zip(words) {
                into.copy_from_slice(&word);
            }
            self.put(SCM_CREDENTIALS, &bytes)?;
        }
        with.rights
            .map_or(Ok(()), |rights| self.write_rights(task, rights))
    }

    fn write_rights(&mut self, task: &Task, rights: Rights) -> Result {
        let close_on_exec = self.flags.contains(MessageFlags::CMSG_CLOEXEC);
        let fit = self.left().saturating_sub(HEADER) / 4;
        let mut numbers = [0u8; 4 * MOST_FILES];
        let mut files = rights.land();
        let count = files.len();
        files.truncate(fit);
        let mut done = 0;
        for (file, into) in files.into_iter().zip(numbers.chunks_exact_mut(4)) {
            let Ok(fd) = task.files().install(file, close_on_exec) else {
                break;
            };
            into.copy_from_slice(&fd.0.to_ne_bytes());
            done += 1;
        }
        if done < count {
            self.flags |= MessageFlags::CTRUNC;
        }
        match done {
            0 => Ok(()),
            _ => self.put(SCM_RIGHTS, &numbers[..4 * done]),
        }
    }
}

/// The address of control data as a range.
pub fn range(at: UserPtr<u8>, len: u64) -> UserBytes {
    match at.given() {
        Some(at) => UserBytes { first: at, len },
        None => UserBytes { first: at, len: 0 },
    }
}
