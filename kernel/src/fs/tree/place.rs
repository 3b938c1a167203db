//! Locations in the tree of mounted file systems, and the paths that lead to them.

use crate::base::errno::{Errno, Result};
use crate::fs::tree::climbed::Climbed;
use crate::fs::tree::inode::{Inode, LinkTarget, Location};
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::mounts;
use crate::fs::tree::node::same_file;
use crate::sched::kernel_lock;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use mm::vma::MappedFile;

impl Location {
    /// Whether the two are the same file, seen through the same mount.
    pub fn same(&self, other: &Location) -> bool {
        Arc::ptr_eq(&self.mount, &other.mount) && same_file(&self.inode, &other.inode)
    }

    /// Another file of the same mount.
    pub fn beside(&self, inode: Arc<dyn Inode>) -> Location {
        Location {
            mount: self.mount.clone(),
            inode,
        }
    }

    /// What is mounted here, or the place itself.
    pub fn cross(self) -> Location {
        match mounts::top_at(&self) {
            Some(mount) => mount.top(),
            None => self,
        }
    }

    /// ".." as a process whose root is `root` sees it.
    pub fn parent(&self, root: &Location) -> Location {
        let mut here = self.clone();
        while !here.same(root) {
            if same_file(&here.inode, &here.mount.root) {
                match mounts::under(&here, Some(root)) {
                    Some(ground) => here = ground,
                    None => break,
                }
            } else {
                match here.inode.node().parent() {
                    Some(parent) => return here.beside(parent).cross(),
                    None => break,
                }
            }
        }
        here
    }

    /// EROFS when the mount is read-only.
    pub fn check_writable(&self) -> Result {
        if self.mount.flags().contains(MountFlags::RDONLY) {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }

    /// EROFS as [`Self::check_writable`]; ETXTBSY for the content of a program that runs.
    pub fn check_content_writable(&self) -> Result {
        self.check_writable()?;
        // Relaxed: a program that starts at the same moment may meet either.
        match self.inode.node().running.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(Errno::ETXTBSY),
        }
    }

    /// The absolute path as it is now; " (deleted)" follows when the file has lost its name. Of a
    /// path longer than PATH_MAX, the end. ENOMEM.
    pub fn path(&self) -> Result<Vec<u8>> {
        match self.inode.label() {
            Some(label) => Ok(label.into_bytes()),
            None => Ok(self.climb(None)?.finish_marked()),
        }
    }

    /// The absolute path that leads here from `root`; ENOENT when the directory has been removed,
    /// ENAMETOOLONG when no path may be as long, ENOMEM.
    pub fn path_from(&self, root: &Location) -> Result<Vec<u8>> {
        match self.climb(Some(root))? {
            Climbed { deleted: true, .. } => Err(Errno::ENOENT),
            Climbed { cut: true, .. } => Err(Errno::ENAMETOOLONG),
            climbed => Ok(climbed.finish()),
        }
    }

    /// The text of readlink(2); differs from the target for links that lead to a place.
    pub fn link_text(&self) -> Result<Vec<u8>> {
        match self.inode.target()? {
            LinkTarget::Path(path) => Ok(path),
            LinkTarget::Place(place) => place.path(),
        }
    }

    /// Collects names on the way up to `root`, or as far as it goes.
    fn climb(&self, root: Option<&Location>) -> Result<Climbed> {
        let (mut here, mut path) = (self.clone(), Climbed::new()?);
        while root.is_none_or(|root| !here.same(root)) {
            let above = if same_file(&here.inode, &here.mount.root) {
                mounts::under(&here, root)
            } else {
                path.climb(&here.inode).map(|parent| here.beside(parent))
            };
            let Some(above) = above else { break };
            here = above;
        }
        Ok(path)
    }
}

/// What a mapping keeps of its file. The last mapping may end in a call that runs without the
/// kernel lock: that is taken for it.
struct Kept(Option<Location>);

impl Location {
    /// The file, for a mapping of it.
    pub fn mapped(&self) -> Arc<dyn MappedFile> {
        Arc::new(Kept(Some(self.clone())))
    }

    /// The path for /proc and the log.
    pub fn shown_path(&self) -> String {
        // Without memory for its name a file has none.
        let path = self.path().unwrap_or_default();
        String::from_utf8_lossy(&path).into_owned()
    }
}

impl Kept {
    fn place(&self) -> &Location {
        self.0.as_ref().expect("it is kept until the drop")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        kernel_lock::with(|| self.0 = None);
    }
}

impl MappedFile for Kept {
    fn path(&self) -> String {
        self.place().shown_path()
    }
    fn id(&self) -> (u64, u64) {
        let node = self.place().inode.node();
        (node.device, node.number)
    }
    fn keeps_pages(&self) -> bool {
        let inode = &self.place().inode;
        inode.object().is_some() && inode.node().links() > 0
    }
}
