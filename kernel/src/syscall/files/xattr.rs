//! Extended attributes, xattr(7): no file has any, and none takes one, as on a file system without.

use super::{AtFlags, locate, usable};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserStr;
use crate::fs::{DirFd, Fd};
use crate::process::task::Task;

/// getxattr(2), setxattr(2), removexattr(2). EOPNOTSUPP for a file that is there.
pub fn of_path(task: &Task, path: UserStr) -> Result<u64> {
    list(task, path).and(Err(Errno::EOPNOTSUPP))
}

/// The same of a symbolic link itself.
pub fn of_link(task: &Task, path: UserStr) -> Result<u64> {
    list_of_link(task, path).and(Err(Errno::EOPNOTSUPP))
}

/// The same of an open file.
pub fn of_open(task: &Task, fd: Fd) -> Result<u64> {
    list_of_open(task, fd).and(Err(Errno::EOPNOTSUPP))
}

/// listxattr(2): an empty list.
pub fn list(task: &Task, path: UserStr) -> Result<u64> {
    locate(task, DirFd::Cwd, path, AtFlags::empty()).map(|_| 0)
}

/// llistxattr(2).
pub fn list_of_link(task: &Task, path: UserStr) -> Result<u64> {
    locate(task, DirFd::Cwd, path, AtFlags::SYMLINK_NOFOLLOW).map(|_| 0)
}

/// flistxattr(2).
pub fn list_of_open(task: &Task, fd: Fd) -> Result<u64> {
    usable(task, fd).map(|_| 0)
}
