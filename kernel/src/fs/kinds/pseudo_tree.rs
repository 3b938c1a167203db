//! Trees of pseudo files, as in /proc and /sys.
//!
//! A new file costs three lines: its function, and its entry in a [`Tree`]:
//! ```ignore
//! tree.show("sys/kernel/ostype", |out| out.is("Linux"));
//! ```

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::kinds::pseudo::{PseudoFile, PseudoLink, Store, Text};
use crate::fs::tree::inode::{DirEntry, Directory, FileKind, FileSystem, Inode, LinkTarget, Node};
use crate::fs::tree::mount;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use mm::sync::Lock;

/// More entries of a directory than the fixed ones: /proc's numbers.
pub trait Dynamic: Send + Sync {
    /// The entry of this name.
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>>;
    /// As [`Directory::entries`], from a position of its own.
    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool);
}

/// Positions from here on belong to the [`Dynamic`] part.
const DYNAMIC: u64 = 1 << 32;

type Entries = BTreeMap<Box<[u8]>, Arc<dyn Inode>>;

/// A directory of such files.
pub struct PseudoDir {
    node: Node,
    entries: Lock<Entries, { ranks::INODE_DIR }>,
    dynamic: Option<Box<dyn Dynamic>>,
}

impl PseudoDir {
    /// An empty directory of file system `device`.
    pub fn new(device: u64, dynamic: Option<Box<dyn Dynamic>>) -> Arc<PseudoDir> {
        let node = Node::new(device, FileKind::Directory, 0o555);
        node.change(|a| a.links = 2);
        Arc::new(PseudoDir {
            node,
            entries: Lock::new(BTreeMap::new()),
            dynamic,
        })
    }

    fn enter(self: &Arc<Self>, name: &str, inode: Arc<dyn Inode>) {
        let parent: Arc<dyn Inode> = self.clone();
        inode.node().set_home(&parent, name.as_bytes());
        self.entries.lock().insert(name.as_bytes().into(), inode);
    }
}

impl Inode for PseudoDir {
    fn node(&self) -> &Node {
        &self.node
    }
    fn directory(&self) -> Option<&dyn Directory> {
        Some(self)
    }
}

impl Directory for PseudoDir {
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>> {
        if let Some(inode) = self.entries.lock().get(name) {
            return Ok(inode.clone());
        }
        self.dynamic.as_ref().ok_or(Errno::ENOENT)?.lookup(name)
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let entries = self.entries.lock();
        for (next, (name, inode)) in (1..).zip(entries.iter()).skip(after.min(DYNAMIC) as usize) {
            let node = inode.node();
            if !emit(DirEntry {
                next,
                number: node.number,
                kind: node.kind,
                name,
            }) {
                return;
            }
        }
        drop(entries);
        if let Some(dynamic) = &self.dynamic {
            dynamic.entries(after.saturating_sub(DYNAMIC), &mut |entry| {
                emit(DirEntry {
                    next: entry.next + DYNAMIC,
                    ..entry
                })
            });
        }
    }
}

/// A file system of such files, by path from its root.
pub struct Tree {
    device: u64,
    root: Arc<PseudoDir>,
    dirs: Lock<BTreeMap<Box<str>, Arc<PseudoDir>>, { ranks::TREE }>,
}

impl Tree {
    /// A root directory.
    pub fn new(dynamic: Option<Box<dyn Dynamic>>) -> Tree {
        let device = mount::anonymous_device();
        Tree {
            device,
            root: PseudoDir::new(device, dynamic),
            dirs: Lock::new(BTreeMap::new()),
        }
    }

    /// A file that can be read.
    pub fn show(&self, path: &str, show: impl Fn(&mut Text) -> Result + Send + Sync + 'static) {
        self.enter(
            path,
            PseudoFile::new(self.device, Some(Box::new(show)), None),
        );
    }

    /// A file that cannot even be opened to write, for this reason.
    pub fn show_only(
        &self,
        path: &str,
        refused: Errno,
        show: impl Fn(&mut Text) -> Result + Send + Sync + 'static,
    ) {
        let file = PseudoFile::read_only(self.device, refused, Box::new(show));
        self.enter(path, file);
    }

    /// A file that can be read and written.
    pub fn knob(
        &self,
        path: &str,
        show: impl Fn(&mut Text) -> Result + Send + Sync + 'static,
        store: impl Fn(&str) -> Result + Send + Sync + 'static,
    ) {
        self.enter(
            path,
            PseudoFile::new(self.device, Some(Box::new(show)), Some(Box::new(store))),
        );
    }

    /// A file that shows what was chosen at boot: mode 0444, and a write nevertheless gets EPERM.
    pub fn chosen_at_boot(
        &self,
        path: &str,
        show: impl Fn(&mut Text) -> Result + Send + Sync + 'static,
    ) {
        let node = Node::new(self.device, FileKind::Regular, 0o444);
        let refuse: Store = Box::new(|_| Err(Errno::EPERM));
        let file = PseudoFile::with_node(node, Some(Box::new(show)), Some(refuse));
        self.enter(path, file);
    }

    /// A file that can only be written.
    pub fn store(&self, path: &str, store: impl Fn(&str) -> Result + Send + Sync + 'static) {
        let file = PseudoFile::new(self.device, None, Some(Box::new(store)));
        self.enter(path, file);
    }

    /// A symbolic link.
    pub fn link(
        &self,
        path: &str,
        target: impl Fn() -> Result<LinkTarget> + Send + Sync + 'static,
    ) {
        self.enter(path, PseudoLink::new(self.device, target));
    }

    /// An empty directory (a place to mount on).
    pub fn dir(&self, path: &str) -> Arc<PseudoDir> {
        if path.is_empty() {
            return self.root.clone();
        }
        if let Some(dir) = self.dirs.lock().get(path) {
            return dir.clone();
        }
        let dir = PseudoDir::new(self.device, None);
        self.enter(path, dir.clone());
        self.dirs.lock().insert(path.into(), dir.clone());
        dir
    }

    /// Any file.
    pub fn enter(&self, path: &str, inode: Arc<dyn Inode>) {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.dir(dir);
        if inode.node().kind == FileKind::Directory {
            dir.node.change(|a| a.links += 1);
        }
        dir.enter(name, inode);
    }

    /// st_dev of its files.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// The tree as a file system.
    pub fn file_system(&self, name: &'static str, magic: u32) -> Arc<FileSystem> {
        Arc::new(FileSystem {
            name,
            magic,
            device: self.device,
            quota: None,
            root: self.root.clone(),
        })
    }
}
