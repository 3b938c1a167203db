//! Files that are made when they are read: what /proc and /sys consist of.
//!
//! A new file costs three lines: its function, and its entry in a [`Tree`]:
//! ```ignore
//! tree.show("sys/kernel/ostype", |out| Ok(out.line("Linux")));
//! ```

use crate::errno::{Errno, Result};
use crate::fs::file::{At, FileOps};
use crate::fs::inode::{Directory, Entry, Inode, Kind, Node, Target};
use crate::fs::io::{Sink, Source};
use crate::fs::mount::{self, FileSystem};
use crate::fs::ramfs::NoBytes;
use crate::ranks;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use mm::sync::Lock;

/// Longest text that may be written to such a file.
const MAX_WRITE: usize = 4096;

/// What a file shows. It can be written to like a `String`, and takes bytes that are not UTF-8.
#[derive(Default)]
pub struct Text(pub Vec<u8>);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Text {
    /// Formatted text: `out.put(format_args!("{x}"))`. It cannot fail.
    pub fn put(&mut self, arguments: fmt::Arguments<'_>) {
        let _ = fmt::Write::write_fmt(self, arguments);
    }
    /// A value on a line of its own.
    pub fn line(&mut self, value: impl fmt::Display) {
        self.put(format_args!("{value}\n"));
    }
}

/// Makes a file's text.
pub type Show = Box<dyn Fn(&mut Text) -> Result + Send + Sync>;
/// Takes what was written, without NULs and blanks at its end.
pub type Store = Box<dyn Fn(&str) -> Result + Send + Sync>;

/// A file that [`Show`] makes and [`Store`] takes.
pub struct PseudoFile {
    node: Node,
    show: Option<Show>,
    store: Option<Store>,
}

impl PseudoFile {
    /// A file of file system `device`; the permissions follow from what it can do.
    pub fn new(device: u64, show: Option<Show>, store: Option<Store>) -> Arc<PseudoFile> {
        let readable = if show.is_some() { 0o444 } else { 0 };
        let writable = if store.is_some() { 0o200 } else { 0 };
        let node = Node::new(device, Kind::Regular, readable | writable);
        PseudoFile::with_node(node, show, store)
    }

    /// A file with a node of the caller's.
    pub fn with_node(node: Node, show: Option<Show>, store: Option<Store>) -> Arc<PseudoFile> {
        Arc::new(PseudoFile { node, show, store })
    }
}

impl Inode for PseudoFile {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, _flags: u32) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(OpenPseudo {
            file: self,
            text: Lock::new(None),
        }))
    }
    fn resize(&self, _len: u64) -> Result {
        // O_TRUNC is how shells write.
        Ok(())
    }
}

/// An open one. The text is made when the file is read from the start, so that pieces fit together.
struct OpenPseudo {
    file: Arc<PseudoFile>,
    text: Lock<Option<Arc<Text>>, { ranks::OPEN_FILE }>,
}

impl OpenPseudo {
    fn text(&self, at: u64) -> Result<Arc<Text>> {
        if at > 0
            && let Some(text) = &*self.text.lock()
        {
            return Ok(text.clone());
        }
        let mut text = Text::default();
        self.file.show.as_ref().ok_or(Errno::EINVAL)?(&mut text)?;
        let text = Arc::new(text);
        let _old = self.text.lock().replace(text.clone());
        Ok(text)
    }
}

impl FileOps for OpenPseudo {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        sink.give_from(&self.text(at.position)?.0, at.position)
    }

    fn write(&self, _at: At, source: &mut Source<'_>) -> Result<usize> {
        let store = self.file.store.as_ref().ok_or(Errno::EACCES)?;
        let bytes = source.take_all(MAX_WRITE)?;
        // Programs write "1", "1\n" and "1\0".
        let text = core::str::from_utf8(&bytes).map_err(|_| Errno::EINVAL)?;
        store(text.trim_matches(|ch: char| ch == '\0' || ch.is_ascii_whitespace()))?;
        Ok(bytes.len())
    }
}

/// A symbolic link whose target is made when it is read.
pub struct PseudoLink<F>(Node, F);

impl<F: Fn() -> Result<Target> + Send + Sync + 'static> PseudoLink<F> {
    /// A link of file system `device`.
    pub fn new(device: u64, target: F) -> Arc<Self> {
        PseudoLink::with_node(Node::new(device, Kind::Symlink, 0o777), target)
    }

    /// A link with a node of the caller's.
    pub fn with_node(node: Node, target: F) -> Arc<Self> {
        Arc::new(PseudoLink(node, target))
    }
}

impl<F: Fn() -> Result<Target> + Send + Sync + 'static> Inode for PseudoLink<F> {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: u32) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }
    fn target(&self) -> Result<Target> {
        (self.1)()
    }
}

/// More entries of a directory than the fixed ones: /proc's numbers.
pub trait Dynamic: Send + Sync {
    /// The entry of this name.
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>>;
    /// As [`Directory::entries`], from a position of its own.
    fn entries(&self, after: u64, emit: &mut dyn FnMut(Entry<'_>) -> bool);
}

/// Positions from here on belong to the [`Dynamic`] part.
const DYNAMIC: u64 = 1 << 32;

/// A directory of such files.
pub struct PseudoDir {
    node: Node,
    entries: Lock<BTreeMap<Box<[u8]>, Arc<dyn Inode>>, { ranks::INODE_DIR }>,
    dynamic: Option<Box<dyn Dynamic>>,
}

impl PseudoDir {
    /// An empty directory of file system `device`.
    pub fn new(device: u64, dynamic: Option<Box<dyn Dynamic>>) -> Arc<PseudoDir> {
        let node = Node::new(device, Kind::Directory, 0o555);
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
    fn open(self: Arc<Self>, _flags: u32) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(NoBytes))
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

    fn entries(&self, after: u64, emit: &mut dyn FnMut(Entry<'_>) -> bool) {
        let entries = self.entries.lock();
        for (next, (name, inode)) in (1..).zip(entries.iter()).skip(after.min(DYNAMIC) as usize) {
            let node = inode.node();
            if !emit(Entry {
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
                emit(Entry {
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

    /// A symbolic link.
    pub fn link(&self, path: &str, target: impl Fn() -> Result<Target> + Send + Sync + 'static) {
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
        if inode.node().kind == Kind::Directory {
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
            in_memory: false,
            root: self.root.clone(),
        })
    }
}
