//! Mounted file systems.

use crate::errno::{Errno, Result};
use crate::fs::inode::{Inode, Kind};
use crate::fs::quota::Quota;
use crate::ranks;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use mm::sync::Lock;
use spin::Once;

pub use crate::fs::place::{Location, same_file};

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
    /// The path of its root inside the file system: "/" but for bind mounts.
    pub fn fs_path(self: &Arc<Self>) -> Vec<u8> {
        let (mut here, mut path) = (self.root.clone(), Vec::new());
        while let Some(home) = here.node().home() {
            let mut longer = b"/".to_vec();
            longer.extend_from_slice(&home.name);
            longer.append(&mut path);
            path = longer;
            let Some(parent) = home.parent else { break };
            here = parent;
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }
    /// Its root as a place.
    pub fn top(self: &Arc<Self>) -> Location {
        Location {
            mount: self.clone(),
            inode: self.root.clone(),
        }
    }
}

/// Every walk looks through the table: it stays short.
const MAX_MOUNTS: usize = 1000;

/// A line of the mount table.
#[derive(Clone)]
pub struct Mounted {
    /// What.
    pub mount: Arc<Mount>,
    /// Where; `None` for the root.
    pub point: Option<Location>,
}

static TABLE: Lock<Vec<Mounted>, { ranks::MOUNTS }> = Lock::new(Vec::new());
static ROOT: Once<Arc<Mount>> = Once::new();

/// The root file system's mount. Panics before [`set_root`].
pub fn root() -> &'static Arc<Mount> {
    ROOT.get().expect("the root is mounted at boot")
}

/// Called once, by boot.
pub fn set_root(mount: Arc<Mount>) {
    ROOT.call_once(|| mount.clone());
    TABLE.lock().push(Mounted { mount, point: None });
}

/// The mount table in the order of mounting.
pub fn table() -> Vec<Mounted> {
    TABLE.lock().clone()
}

/// The newest mount on a directory.
pub fn mounted_at(place: &Location) -> Option<Arc<Mount>> {
    let table = TABLE.lock();
    let on = |entry: &&Mounted| entry.point.as_ref().is_some_and(|point| point.same(place));
    table.iter().rev().find(on).map(|entry| entry.mount.clone())
}

/// Where a mount is mounted.
pub fn point_of(mount: &Arc<Mount>) -> Option<Location> {
    let table = TABLE.lock();
    table
        .iter()
        .find(|entry| Arc::ptr_eq(&entry.mount, mount))?
        .point
        .clone()
}

/// Mounts on a directory; ENOTDIR when one of the two is none, ENOSPC when there are too many mounts.
pub fn attach(mount: Arc<Mount>, point: Location) -> Result {
    let is_dir = |inode: &Arc<dyn Inode>| inode.node().kind == Kind::Directory;
    if !is_dir(&mount.root) || !is_dir(&point.inode) {
        return Err(Errno::ENOTDIR);
    }
    let mut table = TABLE.lock();
    if table.len() >= MAX_MOUNTS {
        return Err(Errno::ENOSPC);
    }
    let mounted = Mounted {
        mount,
        point: Some(point),
    };
    Ok(fallible::push(&mut table, mounted)?)
}

/// MS_MOVE: `mount` is on `point` from now on. EINVAL for the root, for what is not mounted, and for a point inside of it.
pub fn relocate(mount: &Arc<Mount>, point: Location) -> Result {
    let mut above = Some(point.clone());
    while let Some(place) = above {
        if Arc::ptr_eq(&place.mount, mount) {
            return Err(Errno::EINVAL);
        }
        above = point_of(&place.mount);
    }
    let mut table = TABLE.lock();
    let entry = table
        .iter_mut()
        .find(|e| Arc::ptr_eq(&e.mount, mount) && e.point.is_some());
    let entry = entry.ok_or(Errno::EINVAL)?;
    let old = entry.point.replace(point);
    drop(table);
    drop(old);
    Ok(())
}

/// Unmounts what `place`, the only reference of the caller's, is the root of. EINVAL when that is no mount's root,
/// EBUSY while files of it are in use, unless `lazily`.
pub fn detach(place: Location, lazily: bool) -> Result {
    if !same_file(&place.inode, &place.mount.root) {
        return Err(Errno::EINVAL);
    }
    let mut table = TABLE.lock();
    let of = |e: &Mounted| Arc::ptr_eq(&e.mount, &place.mount);
    let index = table.iter().position(of).ok_or(Errno::EINVAL)?;
    // Every place in it, open file, working directory, mapping and mount below it holds the mount; so do the table
    // and `place`.
    if table[index].point.is_none() || (!lazily && Arc::strong_count(&place.mount) > 2) {
        return Err(Errno::EBUSY);
    }
    let gone = table.remove(index);
    drop(table);
    drop(gone);
    Ok(())
}

/// Whether something is mounted on the directory.
pub fn is_point(inode: &Arc<dyn Inode>) -> bool {
    let on = |entry: &Mounted| {
        entry
            .point
            .as_ref()
            .is_some_and(|point| same_file(&point.inode, inode))
    };
    TABLE.lock().iter().any(on)
}
