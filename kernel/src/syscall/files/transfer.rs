//! Transfers between a file and memory: read(2), write(2) and their relatives; lseek(2).

use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserSlice};
use crate::fs::kinds::ramfile::MAX_SIZE;
use crate::fs::open::io::{IoVec, Sink, Source};
use crate::fs::tree::inode::FileKind;
use crate::fs::{Fd, OpenFile};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use linux_raw_sys::general as c;

/// read(2).
pub fn read(task: &Task, fd: Fd, into: UserBytes) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.read(&mut Sink::user(into)?))
}

/// write(2).
pub fn write(task: &Task, fd: Fd, from: UserBytes) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.write(&mut Source::user(from)?))
}

/// readv(2).
pub fn readv(task: &Task, fd: Fd, list: UserSlice<IoVec>) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.read(&mut Sink::user_list(list)?))
}

/// writev(2).
pub fn writev(task: &Task, fd: Fd, list: UserSlice<IoVec>) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.write(&mut Source::user_list(list)?))
}

/// pread(2).
pub fn pread(task: &Task, fd: Fd, into: UserBytes, position: u64) -> Result<u64> {
    let file = positioned(task, fd, position)?;
    done(file.read_at(position, &mut Sink::user(into)?))
}

/// pwrite(2).
pub fn pwrite(task: &Task, fd: Fd, from: UserBytes, position: u64) -> Result<u64> {
    let file = positioned(task, fd, position)?;
    done(file.write_at(position, &mut Source::user(from)?))
}

/// preadv(2).
pub fn preadv(task: &Task, fd: Fd, list: UserSlice<IoVec>, position: u64) -> Result<u64> {
    preadv2(task, fd, list, position, 0, TransferFlags::empty())
}

/// preadv2(2): position -1 means the file's own. It has two registers, of which 64-bit machines use
/// one.
pub fn preadv2(
    task: &Task,
    fd: Fd,
    list: UserSlice<IoVec>,
    position: u64,
    _: u64,
    flags: TransferFlags,
) -> Result<u64> {
    flags.check()?;
    if position == u64::MAX {
        return readv(task, fd, list);
    }
    let file = positioned(task, fd, position)?;
    done(file.read_at(position, &mut Sink::user_list(list)?))
}

/// pwritev(2).
pub fn pwritev(task: &Task, fd: Fd, list: UserSlice<IoVec>, position: u64) -> Result<u64> {
    pwritev2(task, fd, list, position, 0, TransferFlags::empty())
}

/// pwritev2(2), as [`preadv2`].
pub fn pwritev2(
    task: &Task,
    fd: Fd,
    list: UserSlice<IoVec>,
    position: u64,
    _: u64,
    flags: TransferFlags,
) -> Result<u64> {
    flags.check()?;
    if position == u64::MAX {
        return writev(task, fd, list);
    }
    let file = positioned(task, fd, position)?;
    done(file.write_at(position, &mut Source::user_list(list)?))
}

bitflags::bitflags! {
    /// RWF_*: files in memory do what these ask for anyway.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct TransferFlags: u32 {
        /// RWF_HIPRI.
        const HIPRI = 1;
        /// RWF_DSYNC.
        const DSYNC = 2;
        /// RWF_SYNC.
        const SYNC = 4;
    }
}

flag_arguments!(TransferFlags: kept);

impl TransferFlags {
    /// EOPNOTSUPP for unknown ones.
    fn check(self) -> Result {
        match Self::all().contains(self) {
            true => Ok(()),
            false => Err(Errno::EOPNOTSUPP),
        }
    }
}

fn done(result: Result<usize>) -> Result<u64> {
    result.map(|n| n as u64)
}

fn positioned(task: &Task, fd: Fd, position: u64) -> Result<alloc::sync::Arc<OpenFile>> {
    let file = usable(task, fd)?;
    if position > MAX_SIZE {
        return Err(Errno::EINVAL);
    }
    if file.ops().is_stream() {
        return Err(Errno::ESPIPE);
    }
    Ok(file)
}

/// Where the next data, or the next hole, is of a file that has some before its end.
fn seek_content(file: &OpenFile, offset: u64, whence: u32) -> Result<u64> {
    let inode = &file.place.inode;
    let found = match (inode.object(), whence == c::SEEK_DATA) {
        (Some(object), true) => object.next_data(offset),
        (Some(object), false) => object.next_hole(offset),
        // What has no pages is taken to have no holes, as lseek(2) allows.
        (None, true) => Some(offset),
        (None, false) => Some(inode.end()),
    };
    found.ok_or(Errno::ENXIO)
}

/// lseek(2).
pub fn lseek(task: &Task, fd: Fd, offset: i64, whence: u32) -> Result<u64> {
    let file = usable(task, fd)?;
    if file.ops().is_stream() {
        return Err(Errno::ESPIPE);
    }
    let size = file.place.inode.end() as i64;
    let target = match whence {
        c::SEEK_SET => Some(offset),
        c::SEEK_CUR => (file.position() as i64).checked_add(offset),
        c::SEEK_END => size.checked_add(offset),
        c::SEEK_DATA | c::SEEK_HOLE if offset < 0 || offset >= size => return Err(Errno::ENXIO),
        c::SEEK_DATA | c::SEEK_HOLE => Some(seek_content(&file, offset as u64, whence)? as i64),
        _ => return Err(Errno::EINVAL),
    };
    if file.place.inode.node().kind == FileKind::Char {
        return Ok(0);
    }
    let target = target.ok_or(Errno::EOVERFLOW)?;
    let target = u64::try_from(target).map_err(|_| Errno::EINVAL)?;
    file.set_position(target);
    Ok(target)
}
