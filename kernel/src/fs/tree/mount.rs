//! Mounted file systems.

use crate::base::errno::Result;
use crate::fs::tree::climbed::Climbed;
use crate::fs::tree::inode::Inode;
use crate::fs::tree::quota::Quota;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;

pub use crate::fs::tree::mounts::{
    MAX_MOUNTS, Mounted, attach, detach, from, is_point, relocate, root, set_root, top_at, under,
};
pub use crate::fs::tree::place::{Location, same_file};

/// A file system.
pub struct FileSystem {
    /// As in /proc/filesystems: "tmpfs".
    pub name: &'static str,
    /// f_type of statfs(2).
    pub magic: u32,
    /// st_dev of its files.
    pub device: u64,
    /// The memory that its files take and may take, if they take any.
    pub quota: Option<Arc<Quota>>,
    /// Its root directory.
    pub root: Arc<dyn Inode>,
}

/// A fresh st_dev for a file system without a device: major 0.
pub fn anonymous_device() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    // Relaxed: only uniqueness counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Mount flags that are kept and shown: MS_RDONLY, MS_NOSUID ...
pub const KEPT_FLAGS: u32 =
    c::MS_RDONLY | c::MS_NOSUID | c::MS_NODEV | c::MS_NOEXEC | c::MS_NOATIME | c::MS_RELATIME;

/// A file system as it is mounted in one place.
pub struct Mount {
    /// Number in /proc/PID/mountinfo.
    pub id: u32,
    /// What is mounted.
    pub fs: Arc<FileSystem>,
    /// The directory that is seen: the file system's root, or less for a bind mount.
    pub root: Arc<dyn Inode>,
    /// First word of a line of /proc/mounts.
    pub source: String,
    flags: AtomicU32,
}

impl Mount {
    /// A mount that is nowhere yet.
    pub fn new(
        fs: Arc<FileSystem>,
        root: Arc<dyn Inode>,
        source: String,
        flags: u32,
    ) -> Arc<Mount> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Mount {
            id,
            fs,
            root,
            source,
            flags: AtomicU32::new(flags & KEPT_FLAGS),
        })
    }
    /// MS_* flags.
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }
    /// MS_REMOUNT.
    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags & KEPT_FLAGS, Ordering::Relaxed);
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
