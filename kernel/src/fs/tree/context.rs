//! File-system context of a process: root, working directory, umask.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::tree::inode::{FileKind, Location};
use crate::fs::tree::mounts;
use core::sync::atomic::{AtomicU32, Ordering};
use mm::sync::Lock;

/// Root, working directory and umask; threads may share it (CLONE_FS).
pub struct FsContext {
    places: Lock<Places, { ranks::FS_CONTEXT }>,
    umask: AtomicU32,
}

#[derive(Clone)]
struct Places {
    root: Location,
    cwd: Location,
}

impl Default for FsContext {
    fn default() -> Self {
        Self::new()
    }
}

impl FsContext {
    /// At the root of everything, umask 022.
    pub fn new() -> FsContext {
        let top = mounts::root().top();
        let places = Places {
            root: top.clone(),
            cwd: top,
        };
        FsContext {
            places: Lock::new(places),
            umask: AtomicU32::new(0o022),
        }
    }

    /// A copy for a child.
    pub fn fork(&self) -> FsContext {
        let places = self.places.lock().clone();
        FsContext {
            places: Lock::new(places),
            umask: AtomicU32::new(self.umask()),
        }
    }

    /// Where "/" is.
    pub fn root(&self) -> Location {
        self.places.lock().root.clone()
    }

    /// Where relative paths start.
    pub fn cwd(&self) -> Location {
        self.places.lock().cwd.clone()
    }

    /// chdir(2); ENOTDIR.
    pub fn set_cwd(&self, place: Location) -> Result {
        let place = directory(place)?;
        // The old place is dropped after the lock.
        let _old = core::mem::replace(&mut self.places.lock().cwd, place);
        Ok(())
    }

    /// chroot(2); ENOTDIR.
    pub fn set_root(&self, place: Location) -> Result {
        let place = directory(place)?;
        let _old = core::mem::replace(&mut self.places.lock().root, place);
        Ok(())
    }

    /// Permission bits that new files do not get.
    pub fn umask(&self) -> u32 {
        self.umask.load(Ordering::Relaxed)
    }

    /// umask(2): the old one.
    pub fn set_umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Ordering::Relaxed)
    }
}

fn directory(place: Location) -> Result<Location> {
    if place.inode.node().kind == FileKind::Directory {
        Ok(place)
    } else {
        Err(Errno::ENOTDIR)
    }
}
