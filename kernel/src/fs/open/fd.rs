//! File descriptor numbers.

use crate::base::errno::{Errno, Result};
use linux_raw_sys::general::AT_FDCWD;

/// A descriptor number, which may or may not be in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fd(pub i32);

/// As in a register, of which the lower half counts.
impl From<u64> for Fd {
    #[inline]
    fn from(register: u64) -> Fd {
        Fd(register as i32)
    }
}

impl Fd {
    /// The return value of a system call that opens it.
    #[inline]
    pub fn to_return(self) -> u64 {
        self.0 as u64
    }

    /// The place in a table; `None` for a negative number.
    #[inline]
    pub fn index(self) -> Option<usize> {
        usize::try_from(self.0).ok()
    }
}

/// Where a relative path begins.
#[derive(Clone, Copy, Debug)]
pub enum DirFd {
    /// AT_FDCWD: in the working directory.
    Cwd,
    /// In an open directory.
    Open(Fd),
}

impl From<u64> for DirFd {
    #[inline]
    fn from(register: u64) -> DirFd {
        match Fd::from(register) {
            Fd(AT_FDCWD) => DirFd::Cwd,
            fd => DirFd::Open(fd),
        }
    }
}

impl DirFd {
    /// The number, where an open file is meant itself; EBADF for the working directory.
    pub fn open(self) -> Result<Fd> {
        match self {
            DirFd::Cwd => Err(Errno::EBADF),
            DirFd::Open(fd) => Ok(fd),
        }
    }
}
