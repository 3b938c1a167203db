//! mount, umount.

use super::{check_flags, locate, read_path};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::DirFd;
use crate::fs::tree::mount::{self, KEPT_FLAGS, Location, Mount, same_file};
use crate::fs::tree::types;
use crate::process::task::Task;
use alloc::string::String;
use alloc::vec::Vec;
use linux_raw_sys::general as c;

/// Flags in the upper half are a magic number of old times.
const MAGIC_MASK: u64 = 0xffff_0000;
const MAGIC: u64 = 0xc0ed_0000;

/// mount(2).
pub fn mount(task: &Task, args: &[u64; 6]) -> Result<u64> {
    let [source, target, kind, flags, data, _] = *args;
    let flags = if flags & MAGIC_MASK == MAGIC {
        flags & !MAGIC_MASK
    } else {
        flags
    } as u32;
    let point = locate(task, DirFd::Cwd, target, 0)?;
    if flags & c::MS_REMOUNT != 0 {
        return remount(&point, flags);
    }
    if flags & c::MS_BIND != 0 {
        let from = locate(task, DirFd::Cwd, source, 0)?;
        let new = Mount::new(
            from.mount.fs.clone(),
            from.inode.clone(),
            from.mount.source.clone(),
            from.mount.flags(),
        );
        return mount::attach(new, point).map(|()| 0);
    }
    if flags & c::MS_MOVE != 0 {
        return move_mount(locate(task, DirFd::Cwd, source, 0)?, point);
    }
    if flags & (c::MS_SHARED | c::MS_PRIVATE | c::MS_SLAVE | c::MS_UNBINDABLE) != 0 {
        // There is one namespace: nothing is ever propagated.
        return Ok(0);
    }
    let kind = optional_string(kind)?;
    let options = if data == 0 {
        Vec::new()
    } else {
        uaccess::read_cstr(data, 4096)?
    };
    let fs = types::get(&kind, &options)?;
    let name = optional_string(source)?;
    let name = if name.is_empty() {
        "none".into()
    } else {
        String::from_utf8_lossy(&name).into_owned()
    };
    // The same file system twice on one directory is refused, as Linux does.
    if same_file(&point.inode, &fs.root) {
        return Err(Errno::EBUSY);
    }
    let root = fs.root.clone();
    mount::attach(Mount::new(fs, root, name, flags), point).map(|()| 0)
}

fn optional_string(at: u64) -> Result<Vec<u8>> {
    if at == 0 {
        Ok(Vec::new())
    } else {
        read_path(at)
    }
}

fn check_top(place: &Location) -> Result {
    if same_file(&place.inode, &place.mount.root) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn remount(place: &Location, flags: u32) -> Result<u64> {
    check_top(place)?;
    place.mount.set_flags(flags & KEPT_FLAGS);
    Ok(0)
}

fn move_mount(from: Location, point: Location) -> Result<u64> {
    check_top(&from)?;
    mount::relocate(&from.mount, point).map(|()| 0)
}

/// umount2(2).
pub fn umount(task: &Task, path: u64, flags: u64) -> Result<u64> {
    let flags = check_flags(
        flags,
        c::MNT_FORCE | c::MNT_DETACH | c::MNT_EXPIRE | c::UMOUNT_NOFOLLOW,
    )?;
    let follow = if flags & c::UMOUNT_NOFOLLOW != 0 {
        c::AT_SYMLINK_NOFOLLOW
    } else {
        0
    };
    let place = locate(task, DirFd::Cwd, path, follow.into())?;
    mount::detach(place, flags & c::MNT_DETACH != 0).map(|()| 0)
}
