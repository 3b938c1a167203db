//! Mounted file systems.

use crate::base::errno::Result;
use crate::fs::tree::climbed::Climbed;
use crate::fs::tree::inode::{FileSystem, Inode, Location, Mount};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;

/// A fresh st_dev for a file system without a device: major 0.
pub fn anonymous_device() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    // Relaxed: only uniqueness counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

bitflags::bitflags! {
    /// MS_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MountFlags: u32 {
        /// MS_RDONLY.
        const RDONLY = c::MS_RDONLY;
        /// MS_NOSUID.
        const NOSUID = c::MS_NOSUID;
        /// MS_NODEV.
        const NODEV = c::MS_NODEV;
        /// MS_NOEXEC.
        const NOEXEC = c::MS_NOEXEC;
        /// MS_REMOUNT: only changes the flags.
        const REMOUNT = c::MS_REMOUNT;
        /// MS_NOATIME.
        const NOATIME = c::MS_NOATIME;
        /// MS_BIND: a part of the tree, in a second place.
        const BIND = c::MS_BIND;
        /// MS_MOVE.
        const MOVE = c::MS_MOVE;
        /// MS_UNBINDABLE.
        const UNBINDABLE = c::MS_UNBINDABLE;
        /// MS_PRIVATE.
        const PRIVATE = c::MS_PRIVATE;
        /// MS_SLAVE.
        const SLAVE = c::MS_SLAVE;
        /// MS_SHARED.
        const SHARED = c::MS_SHARED;
        /// MS_RELATIME.
        const RELATIME = c::MS_RELATIME;
    }
}

impl MountFlags {
    /// Flags that a mount keeps and shows.
    const KEPT: MountFlags = MountFlags::RDONLY
        .union(MountFlags::NOSUID)
        .union(MountFlags::NODEV)
        .union(MountFlags::NOEXEC)
        .union(MountFlags::NOATIME)
        .union(MountFlags::RELATIME);
}

impl Mount {
    /// A mount that is not attached yet.
    pub fn new(
        fs: Arc<FileSystem>,
        root: Arc<dyn Inode>,
        source: String,
        flags: MountFlags,
    ) -> Arc<Mount> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Mount {
            id,
            fs,
            root,
            source,
            flags: AtomicU32::new((flags & MountFlags::KEPT).bits()),
        })
    }
    /// Its flags.
    pub fn flags(&self) -> MountFlags {
        MountFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }
    /// MS_REMOUNT.
    pub fn set_flags(&self, flags: MountFlags) {
        let kept = flags & MountFlags::KEPT;
        self.flags.store(kept.bits(), Ordering::Relaxed);
    }
    /// The path of its root inside the file system: "/" but for bind mounts. Of one longer than
    /// PATH_MAX, the end. ENOMEM.
    pub fn fs_path(&self) -> Result<Vec<u8>> {
        let mut path = Climbed::new()?;
        let mut above = path.climb(&self.root);
        while let Some(here) = above {
            above = path.climb(&here);
        }
        Ok(path.finish())
    }
    /// Its root as a place.
    pub fn top(self: &Arc<Self>) -> Location {
        Location {
            mount: self.clone(),
            inode: self.root.clone(),
        }
    }
}
