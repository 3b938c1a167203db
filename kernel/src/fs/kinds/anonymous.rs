//! Files that are in no tree: pipes, memfds, pidfds, sets of files. They are on a mount of their
//! own, to which no path leads.

use crate::base::errno::{Errno, Result};
use crate::fs::open::file::OpenFile;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::{FileKind, FileSystem, Inode, Location, Mount, Node};
use crate::fs::tree::mount::{self, MountFlags};
use crate::fs::tree::quota::Quota;
use alloc::string::String;
use alloc::sync::Arc;
use linux_raw_sys::general as c;
use spin::Once;

fn mount() -> &'static Arc<Mount> {
    static MOUNT: Once<Arc<Mount>> = Once::new();
    MOUNT.call_once(|| {
        let device = mount::anonymous_device();
        let root = Arc::new(Anonymous {
            node: Node::new(device, FileKind::Directory, 0),
            label: "anon_inodefs",
        });
        let fs = Arc::new(FileSystem {
            name: "anon_inodefs",
            // Memfds are files of tmpfs.
            magic: c::TMPFS_MAGIC,
            device,
            quota: Some(Quota::unlimited()),
            root: root.clone(),
        });
        Mount::new(fs, root, String::from("none"), MountFlags::empty())
    })
}

/// st_dev of such files.
pub fn device() -> u64 {
    mount().fs.device
}

/// Such files have no pages, no name and nothing to open again.
struct Anonymous {
    node: Node,
    label: &'static str,
}

impl Inode for Anonymous {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
    fn label(&self) -> Option<String> {
        Some(self.label.into())
    }
}

/// A file that only does what `ops` say; /proc/PID/fd shows it as `label`.
pub fn open(label: &'static str, ops: Arc<dyn FileOps>, flags: OpenFlags) -> Arc<OpenFile> {
    let node = Node::new(device(), FileKind::Regular, 0o600);
    OpenFile::new(place(Arc::new(Anonymous { node, label })), ops, flags)
}

/// The place of such a file.
pub fn place(inode: Arc<dyn Inode>) -> Location {
    mount().top().beside(inode)
}
