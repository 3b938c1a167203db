//! socketpair(2).

use crate::errno::{Errno, Result};
use crate::fs::socket::{self, OPEN_FLAGS, Style};
use crate::fs::{OpenFile, anonymous};
use crate::task::Task;
use crate::uaccess;
use linux_raw_sys::general as c;

/// socket(2)'s numbers, which no header of system calls has.
const AF_UNIX: u64 = 1;
/// SOCK_STREAM, SOCK_DGRAM, SOCK_RAW (a unix(7) socket takes it for SOCK_DGRAM), SOCK_SEQPACKET.
const STREAM: u32 = 1;
const DGRAM: u32 = 2;
const RAW: u32 = 3;
const SEQPACKET: u32 = 5;
const TYPE: u32 = 0xf;
/// One past the last type that there is.
const TYPES: u32 = 11;

/// A connected pair. EAFNOSUPPORT: not AF_UNIX; EINVAL: no such type or flag; EPROTONOSUPPORT, ESOCKTNOSUPPORT: not for AF_UNIX;
/// EMFILE, EFAULT.
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
    let [one, other] = socket::pair(style);
    let first = install((one.0, one.1))?;
    let second = match install((other.0, other.1)) {
        Ok(second) => second,
        Err(error) => return files.close(first).and(Err(error)),
    };
    match uaccess::write(at, &[first, second]) {
        Ok(()) => Ok(0),
        Err(error) => files.close(first).and(files.close(second)).and(Err(error)),
    }
}
