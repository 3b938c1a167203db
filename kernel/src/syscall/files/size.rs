//! A file's size and contents: truncate(2), fallocate(2), fsync(2), posix_fadvise(2).

use super::{locate_here, usable};
use crate::base::errno::{Errno, Result};
use crate::base::machine::Object;
use crate::base::user_ptr::UserStr;
use crate::fs::Fd;
use crate::fs::room;
use crate::fs::tree::inode::{FileKind, Inode};
use crate::process::task::Task;
use crate::sched;
use crate::syscall::door::flag_arguments;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;
use mm::addr::{Order, PAGE_SIZE};

/// Bytes that are allocated at once.
const PIECE: u64 = 32 * PAGE_SIZE;

/// truncate(2).
pub fn truncate(task: &Task, path: UserStr, len: i64) -> Result<u64> {
    let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
    let place = locate_here(task, path)?;
    if place.inode.node().kind == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    place.check_content_writable()?;
    let _changing = place.inode.node().change_content()?;
    place.inode.resize(len).map(|()| 0)
}

/// ftruncate(2).
pub fn ftruncate(task: &Task, fd: Fd, len: i64) -> Result<u64> {
    let file = usable(task, fd)?;
    let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
    if !file.writable() {
        return Err(Errno::EINVAL);
    }
    let _changing = file.place.inode.node().change_content()?;
    file.place.inode.resize(len).map(|()| 0)
}

bitflags::bitflags! {
    /// FALLOC_FL_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AllocateMode: u32 {
        /// FALLOC_FL_KEEP_SIZE: the file does not grow.
        const KEEP_SIZE = c::FALLOC_FL_KEEP_SIZE;
        /// FALLOC_FL_PUNCH_HOLE: gives the pages back.
        const PUNCH_HOLE = c::FALLOC_FL_PUNCH_HOLE;
        /// FALLOC_FL_ZERO_RANGE.
        const ZERO_RANGE = c::FALLOC_FL_ZERO_RANGE;
    }
}

flag_arguments!(AllocateMode: kept);

/// fallocate(2): allocating, with or without FALLOC_FL_KEEP_SIZE, zeroing and punching holes.
pub fn fallocate(task: &Task, fd: Fd, mode: AllocateMode, offset: i64, len: i64) -> Result<u64> {
    let file = usable(task, fd)?;
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    if offset < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    let end = offset.checked_add(len).ok_or(Errno::EFBIG)? as u64;
    let (offset, len) = (offset as u64, len as u64);
    let inode = &file.place.inode;
    let object = inode.object().ok_or(match inode.node().kind {
        FileKind::Fifo => Errno::ESPIPE,
        FileKind::Directory => Errno::EISDIR,
        _ => Errno::ENODEV,
    })?;
    let _changing = inode.node().change_content()?;
    let keep = mode.contains(AllocateMode::KEEP_SIZE);
    let mode = mode - AllocateMode::KEEP_SIZE;
    let zeros = mode.intersects(AllocateMode::ZERO_RANGE | AllocateMode::PUNCH_HOLE);
    if zeros && sealed(&**inode, c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE) {
        return Err(Errno::EPERM);
    }
    if mode != AllocateMode::PUNCH_HOLE {
        // As in Linux, what the size may not be is not allocated either, KEEP_SIZE or not.
        inode.check_size(end.max(object.len()))?;
    }
    match mode {
        plain if plain.is_empty() => {
            inode.check_space(len.div_ceil(PAGE_SIZE))?;
            allocate(object, offset, end)?;
        }
        AllocateMode::ZERO_RANGE if object.huge_order().is_none() => {
            object.punch(offset, end.min(object.len()).saturating_sub(offset));
        }
        AllocateMode::PUNCH_HOLE if keep => object.punch(offset, len),
        _ => return Err(Errno::EOPNOTSUPP),
    }
    if !keep {
        // Not in whole huge pages: a file of such may end in one, if it is made longer so.
        object.grow_to(end);
    }
    inode.node().touch_modified();
    Ok(0)
}

/// Allocates the pages of a range of bytes, piece by piece. ENOSPC when there are not as many
/// frames as are missing, and nothing is allocated; EINTR when the thread is to end, and some are.
fn allocate(object: &Object, from: u64, end: u64) -> Result {
    let pages = end.div_ceil(PAGE_SIZE) - from / PAGE_SIZE;
    let huge = object.huge_order();
    if huge.is_none() && pages.saturating_sub(object.pages()) > room::left_for_files() {
        return Err(Errno::ENOSPC);
    }
    let most = huge.map_or(PIECE, Order::bytes);
    let mut at = from;
    while at < end {
        let piece = (most - at % most).min(end - at);
        if huge.is_none() {
            room::check_files(piece.div_ceil(PAGE_SIZE))?;
        }
        object.reserve(at, piece).map_err(|_| Errno::ENOSPC)?;
        at += piece;
        if at < end && sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}

fn sealed(inode: &dyn Inode, seals: u32) -> bool {
    // Relaxed: each call reads it on its own.
    inode
        .seals()
        .is_some_and(|has| has.load(Ordering::Relaxed) & seals != 0)
}

/// fsync(2): there is no disk. EINVAL for what has no contents to keep.
pub fn fsync(task: &Task, fd: Fd) -> Result<u64> {
    let inode = &usable(task, fd)?.place.inode;
    match inode.node().kind {
        FileKind::Directory | FileKind::Block => Ok(0),
        FileKind::Regular if inode.object().is_some() => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// syncfs(2): there is no disk.
pub fn syncfs(task: &Task, fd: Fd) -> Result<u64> {
    usable(task, fd).map(|_| 0)
}

/// sync_file_range(2): there is no disk. EINVAL for unknown flags and a range that is none, ESPIPE
/// for what has no contents to keep.
pub fn sync_file_range(task: &Task, fd: Fd, offset: i64, len: i64, flags: u32) -> Result<u64> {
    let inode = &usable(task, fd)?.place.inode;
    let all =
        c::SYNC_FILE_RANGE_WAIT_BEFORE | c::SYNC_FILE_RANGE_WRITE | c::SYNC_FILE_RANGE_WAIT_AFTER;
    if flags & !all != 0 || offset < 0 || len < 0 || offset.checked_add(len).is_none() {
        return Err(Errno::EINVAL);
    }
    match inode.node().kind {
        FileKind::Directory | FileKind::Block | FileKind::Regular => Ok(0),
        _ => Err(Errno::ESPIPE),
    }
}

/// posix_fadvise(2): without effect. ESPIPE for a pipe, EINVAL for unknown advice.
pub fn fadvise(task: &Task, fd: Fd, _offset: i64, _len: i64, advice: u32) -> Result<u64> {
    let file = usable(task, fd)?;
    if file.place.inode.node().kind == FileKind::Fifo {
        return Err(Errno::ESPIPE);
    }
    match advice {
        c::POSIX_FADV_NORMAL..=c::POSIX_FADV_NOREUSE => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}
