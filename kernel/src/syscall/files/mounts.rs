//! mount(2) and umount2(2).

use super::{AtFlags, locate, locate_here, read_path};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserStr;
use crate::fs::DirFd;
use crate::fs::tree::inode::{Location, Mount};
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::mounts;
use crate::fs::tree::node::same_file;
use crate::fs::tree::types;
use crate::process::task::Task;
use crate::syscall::door::{Argument, Registers, flag_arguments};
use alloc::string::String;
use alloc::vec::Vec;
use linux_raw_sys::general as c;

impl Argument<'_> for MountFlags {
    /// Without the magic number in the upper half that old programs pass.
    #[inline]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        const MAGIC_MASK: u32 = 0xffff_0000;
        const MAGIC: u32 = 0xc0ed_0000;
        let bits = registers.next() as u32;
        Ok(Self::from_bits_retain(match bits & MAGIC_MASK {
            MAGIC => bits & !MAGIC_MASK,
            _ => bits,
        }))
    }
}

bitflags::bitflags! {
    /// Flags of umount2(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UnmountFlags: u32 {
        /// MNT_FORCE, without effect.
        const FORCE = c::MNT_FORCE;
        /// MNT_DETACH: also when it is in use.
        const DETACH = c::MNT_DETACH;
        /// MNT_EXPIRE, without effect.
        const EXPIRE = c::MNT_EXPIRE;
        /// UMOUNT_NOFOLLOW.
        const NOFOLLOW = c::UMOUNT_NOFOLLOW;
    }
}

flag_arguments!(UnmountFlags: invalid);

/// Flags that say where later mounts appear.
const PROPAGATION: MountFlags = MountFlags::SHARED
    .union(MountFlags::PRIVATE)
    .union(MountFlags::SLAVE)
    .union(MountFlags::UNBINDABLE);

/// mount(2).
pub fn mount(
    task: &Task,
    source: UserStr,
    target: UserStr,
    kind: UserStr,
    flags: MountFlags,
    data: UserStr,
) -> Result<u64> {
    let point = locate_here(task, target)?;
    if flags.contains(MountFlags::REMOUNT) {
        return remount(&point, flags);
    }
    if flags.contains(MountFlags::BIND) {
        let from = locate_here(task, source)?;
        let new = Mount::new(
            from.mount.fs.clone(),
            from.inode.clone(),
            from.mount.source.clone(),
            from.mount.flags(),
        );
        return mounts::attach(new, point).map(|()| 0);
    }
    if flags.contains(MountFlags::MOVE) {
        return move_mount(locate_here(task, source)?, point);
    }
    if flags.intersects(PROPAGATION) {
        // There is one namespace: nothing is ever propagated.
        return Ok(0);
    }
    let kind = optional_string(kind)?;
    let options = optional_string(data)?;
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
    mounts::attach(Mount::new(fs, root, name, flags), point).map(|()| 0)
}

fn optional_string(string: UserStr) -> Result<Vec<u8>> {
    string.given().map_or(Ok(Vec::new()), read_path)
}

fn check_top(place: &Location) -> Result {
    if same_file(&place.inode, &place.mount.root) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn remount(place: &Location, flags: MountFlags) -> Result<u64> {
    check_top(place)?;
    place.mount.set_flags(flags);
    Ok(0)
}

fn move_mount(from: Location, point: Location) -> Result<u64> {
    check_top(&from)?;
    mounts::relocate(&from.mount, point).map(|()| 0)
}

/// umount2(2).
pub fn umount(task: &Task, path: UserStr, flags: UnmountFlags) -> Result<u64> {
    let follow = match flags.contains(UnmountFlags::NOFOLLOW) {
        true => AtFlags::SYMLINK_NOFOLLOW,
        false => AtFlags::empty(),
    };
    let place = locate(task, DirFd::Cwd, path, follow)?;
    mounts::detach(place, flags.contains(UnmountFlags::DETACH)).map(|()| 0)
}
