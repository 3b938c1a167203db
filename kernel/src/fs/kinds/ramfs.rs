//! The file system in memory: the root, tmpfs, devtmpfs. Directories are maps, regular files are
//! objects of the memory manager.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::devices::{self, zram};
use crate::fs::kinds::fifo;
use crate::fs::kinds::pipe::Pipe;
use crate::fs::kinds::ramfile::RamFile;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::ops::FileOps;
use crate::fs::room;
use crate::fs::tree::inode::{
    Device, DirEntry, Directory, Doomed, FileKind, FileSystem, Inode, LinkTarget, New, Node,
};
use crate::fs::tree::mount;
use crate::fs::tree::quota::Quota;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use linux_raw_sys::general as c;
use mm::sync::Lock;

/// A new, empty file system.
pub fn new(name: &'static str, mode: u32, quota: Arc<Quota>) -> Arc<FileSystem> {
    with_magic(name, c::TMPFS_MAGIC, mode, quota)
}

/// The same with another f_type.
pub fn with_magic(name: &'static str, magic: u32, mode: u32, quota: Arc<Quota>) -> Arc<FileSystem> {
    let device = mount::anonymous_device();
    let root = RamDir::new(Node::new(device, FileKind::Directory, mode), quota.clone());
    root.node.change(|a| a.links = 2);
    Arc::new(FileSystem {
        name,
        magic,
        device,
        quota: Some(quota),
        root,
    })
}

/// A directory.
struct RamDir {
    node: Node,
    quota: Arc<Quota>,
    entries: Lock<Entries, { ranks::INODE_DIR }>,
}

type Named = (Arc<[u8]>, Arc<dyn Inode>);

/// Entries by name, and in the order they came: a reader's position stays valid whatever comes and
/// goes.
#[derive(Default)]
struct Entries {
    by_name: BTreeMap<Arc<[u8]>, u64>,
    by_age: BTreeMap<u64, Named>,
    newest: u64,
}

impl RamDir {
    fn new(node: Node, quota: Arc<Quota>) -> Arc<RamDir> {
        Arc::new(RamDir {
            node,
            quota,
            entries: Lock::new(Entries::default()),
        })
    }
}

impl Inode for RamDir {
    fn node(&self) -> &Node {
        &self.node
    }
    fn directory(&self) -> Option<&dyn Directory> {
        Some(self)
    }
    fn size(&self) -> u64 {
        // As tmpfs shows it: 20 bytes an entry.
        20 * (2 + self.entries.lock().by_age.len() as u64)
    }
}

impl Directory for RamDir {
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let entries = self.entries.lock();
        let age = entries.by_name.get(name).ok_or(Errno::ENOENT)?;
        Ok(entries.by_age[age].1.clone())
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let entries = self.entries.lock();
        for (age, (name, inode)) in entries.by_age.range(after + 1..) {
            let node = inode.node();
            if !emit(DirEntry {
                next: *age,
                number: node.number,
                kind: node.kind,
                name,
            }) {
                return;
            }
        }
    }

    fn make(&self, new: New, mode: u32) -> Result<Arc<dyn Inode>> {
        room::check_files(1)?;
        let place = self.quota.place()?;
        let node = |kind, mode| Node::new(self.node.device, kind, mode).with_place(place);
        Ok(match new {
            New::Regular => RamFile::new(node(FileKind::Regular, mode), self.quota.clone()),
            New::Directory => RamDir::new(node(FileKind::Directory, mode), self.quota.clone()),
            New::Symlink(target) => Arc::new(RamLink {
                node: node(FileKind::Symlink, 0o777),
                target: target.into(),
            }),
            New::Special(kind, number) => Arc::new(RamSpecial {
                node: node(kind, mode),
                number,
                pipe: (kind == FileKind::Fifo).then(Pipe::new),
            }),
        })
    }

    fn insert(&self, name: &[u8], inode: &Arc<dyn Inode>) -> Result {
        let mut entries = self.entries.lock();
        if entries.by_name.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        entries.newest += 1;
        let (age, name) = (entries.newest, Arc::<[u8]>::from(name));
        entries.by_name.insert(name.clone(), age);
        entries.by_age.insert(age, (name, inode.clone()));
        Ok(())
    }

    fn remove(&self, name: &[u8]) -> Result {
        let mut entries = self.entries.lock();
        let age = entries.by_name.remove(name).ok_or(Errno::ENOENT)?;
        let gone = entries.by_age.remove(&age);
        // The file may end here, which frees its pages: not under the lock.
        drop(entries);
        drop(gone);
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.entries.lock().by_age.is_empty()
    }

    fn take_all(&self, into: &mut Doomed) {
        for (_, inode) in core::mem::take(&mut *self.entries.lock())
            .by_age
            .into_values()
        {
            let next = into.last_key_value().map_or(0, |(last, _)| last + 1);
            into.insert(next, inode);
        }
    }
}

/// A tree may be deeper than the kernel's stack: it is taken down without recursion.
impl Drop for RamDir {
    fn drop(&mut self) {
        let mut doomed = Doomed::new();
        self.take_all(&mut doomed);
        while let Some((_, inode)) = doomed.pop_first() {
            if Arc::strong_count(&inode) == 1
                && let Some(directory) = inode.directory()
            {
                directory.take_all(&mut doomed);
            }
        }
    }
}

/// A symbolic link.
struct RamLink {
    node: Node,
    target: Box<[u8]>,
}

impl Inode for RamLink {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }
    fn target(&self) -> Result<LinkTarget> {
        Ok(LinkTarget::Path(self.target.to_vec()))
    }
    fn size(&self) -> u64 {
        self.target.len() as u64
    }
}

/// A device node, a FIFO or a socket's name.
struct RamSpecial {
    node: Node,
    number: Device,
    pipe: Option<Arc<Pipe>>,
}

impl Inode for RamSpecial {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match (&self.pipe, self.node.kind) {
            (Some(pipe), _) => fifo::open(pipe, flags),
            (None, FileKind::Char) => devices::open(self.number, flags),
            (None, FileKind::Block) => devices::open_block(self.number, flags),
            _ => Err(Errno::ENXIO),
        }
    }
    fn end(&self) -> u64 {
        match (self.node.kind, self.number) {
            (FileKind::Block, zram::NUMBER) => zram::size(),
            _ => self.size(),
        }
    }
    fn device(&self) -> Device {
        self.number
    }
}
