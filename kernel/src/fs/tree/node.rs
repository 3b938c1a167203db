//! What the common part of every file does: identity, attributes, and where it was linked last.

use crate::base::errno::Result;
use crate::fs::tree::clock;
use crate::fs::tree::content::{Changing, Content};
use crate::fs::tree::inode::{Attributes, FileKind, Home, Inode, Node, Parent};
use crate::fs::tree::quota::InodeCharge;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use mm::sync::Lock;

/// Whether the two are the same file.
pub fn same_file(a: &Arc<dyn Inode>, b: &Arc<dyn Inode>) -> bool {
    core::ptr::eq(a.node(), b.node())
}

impl Parent {
    fn get(&self) -> Option<Arc<dyn Inode>> {
        match self {
            Parent::Holder(parent) => parent.upgrade(),
            Parent::Maker(parent) => Some(parent.clone()),
        }
    }
}

impl Node {
    /// A file of file system `device` with a fresh inode number and no name yet.
    pub fn new(device: u64, kind: FileKind, mode: u32) -> Node {
        static NEXT: AtomicU64 = AtomicU64::new(2);
        // Relaxed: only uniqueness counts.
        Node::numbered(device, NEXT.fetch_add(1, Ordering::Relaxed), kind, mode)
    }

    /// A file with a number of the caller's.
    pub fn numbered(device: u64, number: u64, kind: FileKind, mode: u32) -> Node {
        let now = clock::now();
        Node {
            device,
            number,
            kind,
            attributes: Lock::new(Attributes {
                mode: mode & 0o7777,
                uid: 0,
                gid: 0,
                links: 1,
                accessed: now,
                modified: now,
                changed: now,
                home: None,
            }),
            running: AtomicU64::new(0),
            mounts: AtomicU32::new(0),
            content: Content::default(),
            _place: None,
        }
    }

    /// The node in a place that is free again when the node goes.
    pub fn with_place(self, place: InodeCharge) -> Node {
        Node {
            _place: Some(place),
            ..self
        }
    }

    /// A copy of the attributes.
    pub fn attributes(&self) -> Attributes {
        self.attributes.lock().clone()
    }

    /// Changes attributes. `changed` (ctime) is the caller's to set.
    pub fn change(&self, change: impl FnOnce(&mut Attributes)) {
        change(&mut self.attributes.lock());
    }

    /// The file was read.
    pub fn touch_accessed(&self) {
        self.attributes.lock().accessed = clock::now();
    }

    /// The file's data or entries have changed.
    pub fn touch_modified(&self) {
        let now = clock::now();
        let mut attributes = self.attributes.lock();
        (attributes.modified, attributes.changed) = (now, now);
    }

    /// Waits until nobody else changes the contents. EINTR: the thread is to end.
    pub fn change_content(&self) -> Result<Changing<'_>> {
        self.content.change()
    }

    /// Whether any bit of `bits` is set in the permissions.
    pub fn permits(&self, bits: u32) -> bool {
        self.attributes.lock().mode & bits != 0
    }

    /// st_nlink.
    pub fn links(&self) -> u32 {
        self.attributes.lock().links
    }

    /// st_mode.
    pub fn mode(&self) -> u32 {
        self.kind as u32 | self.attributes.lock().mode
    }

    /// The file can be found as `name` in `parent` from now on.
    pub fn set_home(&self, parent: &Arc<dyn Inode>, name: &[u8]) {
        let home = Home {
            parent: Parent::Holder(Arc::downgrade(parent)),
            name: name.into(),
            deleted: false,
        };
        // The old name is dropped after the lock.
        let _old = self.attributes.lock().home.replace(home);
    }

    /// The file was found as `name` in `parent`: for files that are made anew at each look, of
    /// which no directory knows.
    pub fn adopt(&self, parent: &Arc<dyn Inode>, name: &[u8]) {
        let mut attributes = self.attributes.lock();
        if attributes.home.is_none() {
            let parent = Parent::Maker(parent.clone());
            attributes.home = Some(Home {
                parent,
                name: name.into(),
                deleted: false,
            });
        }
    }

    /// `name` in `parent` is gone.
    pub fn leave_home(&self, parent: &Node, name: &[u8]) {
        if let Some(home) = &mut self.attributes.lock().home
            && *home.name == *name
            && home
                .parent
                .get()
                .is_some_and(|p| core::ptr::eq(p.node(), parent))
        {
            home.deleted = true;
        }
    }

    /// Calls `f` with the name that the file was linked under last, and whether it has been removed
    /// since; not for a root nor for what never had a name. `f` runs under a lock. Returns the
    /// directory, unless that is gone, too.
    pub fn home(&self, f: impl FnOnce(&[u8], bool)) -> Option<Arc<dyn Inode>> {
        let attributes = self.attributes.lock();
        let home = attributes.home.as_ref()?;
        f(&home.name, home.deleted);
        home.parent.get()
    }

    /// The directory that the file was linked in last; `None` for a root, and when it is gone.
    pub fn parent(&self) -> Option<Arc<dyn Inode>> {
        self.home(|_, _| {})
    }
}
