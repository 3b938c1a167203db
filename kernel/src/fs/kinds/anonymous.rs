//! Files that are in no tree: pipes, memfds, pidfds. They are on a mount of their own, to which no
//! path leads.

use crate::fs::kinds::ramfs;
use crate::fs::tree::inode::Inode;
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::mount::{Location, Mount};
use crate::fs::tree::quota::Quota;
use alloc::string::String;
use alloc::sync::Arc;
use spin::Once;

fn mount() -> &'static Arc<Mount> {
    static MOUNT: Once<Arc<Mount>> = Once::new();
    MOUNT.call_once(|| {
        let fs = ramfs::new("anon_inodefs", 0, Quota::unlimited());
        let root = fs.root.clone();
        Mount::new(fs, root, String::from("none"), MountFlags::empty())
    })
}

/// st_dev of such files.
pub fn device() -> u64 {
    mount().fs.device
}

/// The place of such a file.
pub fn place(inode: Arc<dyn Inode>) -> Location {
    mount().top().beside(inode)
}
