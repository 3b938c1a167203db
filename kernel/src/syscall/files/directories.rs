//! Directories: reading them, the working directory, chroot(2).

use super::{locate_here, usable};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr, UserStr};
use crate::fs::Fd;
use crate::fs::open::io::Sink;
use crate::fs::tree::inode::{DirEntry, FileKind};
use crate::process::task::Task;
use alloc::vec::Vec;

/// At most this much is returned at once.
const MAX_BUFFER: usize = 32 << 10;
/// "." and ".." come before a directory's own entries: positions 1 and 2.
const DOTS: u64 = 2;

/// Layout of a record: that of getdents64, or x86_64's older one with the type in the last byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    New,
    #[cfg(target_arch = "x86_64")]
    Old,
}

/// getdents64(2).
pub fn getdents64(task: &Task, fd: Fd, into: UserPtr<u8>, size: u32) -> Result<u64> {
    read_entries(task, fd, into, size, Layout::New)
}

/// getdents(2).
#[cfg(target_arch = "x86_64")]
pub fn getdents(task: &Task, fd: Fd, into: UserPtr<u8>, size: u32) -> Result<u64> {
    read_entries(task, fd, into, size, Layout::Old)
}

fn read_entries(task: &Task, fd: Fd, into: UserPtr<u8>, size: u32, layout: Layout) -> Result<u64> {
    let file = usable(task, fd)?;
    let directory = file.place.inode.directory().ok_or(Errno::ENOTDIR)?;
    let room = MAX_BUFFER.min(size as usize);
    let mut out = Vec::new();
    let mut position = file.position();
    let (mut full, mut short) = (false, false);
    let mut emit = |entry: DirEntry<'_>| {
        let next = entry.next;
        let appended = append(&mut out, room, entry, layout);
        short = appended.is_err();
        full = appended != Ok(true);
        if !full {
            position = next;
        }
        !full
    };
    let parent = file.place.parent(&task.fs().root());
    let dots = [(1, &b"."[..], &file.place), (2, b"..", &parent)];
    let start = file.position();
    let mut go_on = true;
    for (next, name, place) in dots.into_iter().filter(|dot| dot.0 > start) {
        let number = place.inode.node().number;
        go_on = go_on
            && emit(DirEntry {
                next,
                number,
                kind: FileKind::Directory,
                name,
            });
    }
    if go_on {
        directory.entries(start.saturating_sub(DOTS), &mut |entry| {
            emit(DirEntry {
                next: entry.next + DOTS,
                ..entry
            })
        });
    }
    if full && out.is_empty() {
        return Err(if short { Errno::ENOMEM } else { Errno::EINVAL });
    }
    let into = UserBytes {
        first: into,
        len: out.len() as u64,
    };
    Sink::user(into)?.give(&out)?;
    file.set_position(position);
    Ok(out.len() as u64)
}

/// Adds a record; `false` when there is no room for it. ENOMEM.
fn append(out: &mut Vec<u8>, room: usize, entry: DirEntry<'_>, layout: Layout) -> Result<bool> {
    // d_ino, d_off, d_reclen; then the type and the name with its NUL, in the one or the other
    // order.
    let len = (8 + 8 + 2 + 1 + entry.name.len() + 1).next_multiple_of(8);
    if out.len() + len > room {
        return Ok(false);
    }
    fallible::reserve(out, len)?;
    let end = out.len() + len;
    out.extend_from_slice(&entry.number.to_ne_bytes());
    out.extend_from_slice(&entry.next.to_ne_bytes());
    out.extend_from_slice(&(len as u16).to_ne_bytes());
    let kind = entry.kind.dirent_type();
    if layout == Layout::New {
        out.push(kind);
    }
    out.extend_from_slice(entry.name);
    out.resize(end, 0);
    if layout != Layout::New {
        out[end - 1] = kind;
    }
    Ok(true)
}

/// getcwd(2): the length with the NUL; ERANGE.
pub fn getcwd(task: &Task, into: UserBytes) -> Result<u64> {
    let context = task.fs();
    let mut path = context.cwd().path_from(&context.root())?;
    path.push(0);
    if path.len() as u64 > into.len {
        return Err(Errno::ERANGE);
    }
    let into = UserBytes {
        len: path.len() as u64,
        ..into
    };
    Ok(Sink::user(into)?.give(&path)? as u64)
}

/// chdir(2).
pub fn chdir(task: &Task, path: UserStr) -> Result<u64> {
    task.fs().set_cwd(locate_here(task, path)?).map(|()| 0)
}

/// fchdir(2).
pub fn fchdir(task: &Task, fd: Fd) -> Result<u64> {
    let place = task.files().get(fd)?.place.clone();
    task.fs().set_cwd(place).map(|()| 0)
}

/// chroot(2).
pub fn chroot(task: &Task, path: UserStr) -> Result<u64> {
    task.fs().set_root(locate_here(task, path)?).map(|()| 0)
}
