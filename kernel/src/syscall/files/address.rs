//! Addresses of sockets, `struct sockaddr_un`.

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::kinds::socket::{Endpoint, Key, Name, Style, find};
use crate::fs::tree::inode::{Device, FileKind, New};
use crate::fs::tree::names;
use crate::fs::tree::path::{self, Last};
use crate::process::task::Task;
use alloc::sync::Arc;

/// The family, which no header of system calls has.
pub const AF_UNIX: u16 = 1;
/// The longest address, `struct sockaddr_storage`, and the longest of AF_UNIX, `struct
/// sockaddr_un`.
pub const LONGEST: usize = 128;
const LONGEST_UNIX: usize = 110;
/// Where the name begins, behind the family.
const NAME: usize = 2;
const AF_UNSPEC: u16 = 0;

/// An address that a program passed: its family and its name.
pub struct Address {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Address {
    /// EINVAL for a length that is negative or too long; EFAULT.
    pub fn read(at: UserPtr<u8>, len: i32) -> Result<Address> {
        let len = usize::try_from(len).ok().filter(|len| *len <= LONGEST);
        let len = len.ok_or(Errno::EINVAL)?;
        let mut bytes = [0; LONGEST];
        let given = UserBytes {
            first: at,
            len: len as u64,
        };
        given.read(&mut bytes[..len])?;
        Ok(Address { bytes, len })
    }

    fn family(&self) -> u16 {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]])
    }

    /// connect(2) with it ends a connection.
    pub fn is_unspecified(&self) -> bool {
        self.len >= NAME && self.family() == AF_UNSPEC
    }

    /// bind(2) with it finds a free name.
    fn is_nameless(&self) -> bool {
        self.len == NAME && self.family() == AF_UNIX
    }

    /// EINVAL: another family, too long, or no name.
    fn name(&self) -> Result<&[u8]> {
        match self.len <= NAME || self.len > LONGEST_UNIX || self.family() != AF_UNIX {
            true => Err(Errno::EINVAL),
            false => Ok(&self.bytes[NAME..self.len]),
        }
    }

    /// The path; `None`: an abstract name.
    fn path(name: &[u8]) -> Option<&[u8]> {
        name.split(|byte| *byte == 0)
            .next()
            .filter(|path| !path.is_empty())
    }

    /// The socket of a style that has this name. EINVAL, ECONNREFUSED, and what a path may lead to.
    pub fn find(&self, task: &Task, style: Style) -> Result<Arc<Endpoint>> {
        let name = self.name()?;
        let Some(path) = Self::path(name) else {
            return find(&Key::Abstract(style, Name::from(name)));
        };
        let context = task.fs();
        let place = path::resolve(&context, context.cwd(), path, Last::Follow)?;
        match place.inode.node().kind {
            FileKind::Socket => find(&Key::of(&place.inode)),
            _ => Err(Errno::ECONNREFUSED),
        }
    }

    /// bind(2). EINVAL, EADDRINUSE, and what making a file may say.
    pub fn bind(&self, task: &Task, endpoint: &Endpoint) -> Result {
        if self.is_nameless() {
            return endpoint.bind_any();
        }
        let name = self.name()?;
        endpoint.check_nameless()?;
        let Some(path) = Self::path(name) else {
            let name = Name::from(name);
            return endpoint.bind(name.clone(), Key::Abstract(endpoint.style(), name), None);
        };
        let context = task.fs();
        let walked = path::walk(&context, context.cwd(), path, Last::Keep)?;
        let new = New::Special(FileKind::Socket, Device::default());
        let place = names::create(&walked, new, 0o777 & !context.umask());
        let place = place.map_err(|error| match error {
            Errno::EEXIST => Errno::EADDRINUSE,
            other => other,
        })?;
        // A path is told with its NUL.
        let name = fallible::collect(path.iter().copied().chain([0]))?;
        endpoint.bind(Name::from(name), Key::of(&place.inode), Some(place.inode))
    }
}

/// Writes an address, as much of it as there is room for; the length becomes that of all. EINVAL
/// for a negative length.
pub fn write(name: Option<&Name>, at: UserPtr<u8>, len: UserPtr<i32>) -> Result {
    let room = usize::try_from(len.read()?).map_err(|_| Errno::EINVAL)?;
    let total = write_within(name, at, room)?;
    len.write(&(total as i32))
}

/// As [`write`]; the length of all.
pub fn write_within(name: Option<&Name>, at: UserPtr<u8>, room: usize) -> Result<usize> {
    let mut bytes = [0; LONGEST_UNIX];
    bytes[..NAME].copy_from_slice(&AF_UNIX.to_ne_bytes());
    let name = name.map_or(&[][..], |name| name);
    let total = NAME + name.len();
    // A path that fills `sun_path` has no NUL there, but one here.
    let n = name.len().min(LONGEST_UNIX - NAME);
    bytes[NAME..NAME + n].copy_from_slice(&name[..n]);
    let into = UserBytes {
        first: at,
        len: room as u64,
    };
    into.write(0, &bytes[..room.min(total).min(LONGEST_UNIX)])?;
    Ok(total)
}
