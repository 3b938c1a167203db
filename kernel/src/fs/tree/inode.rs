//! The interface that the files of every file system implement. There is no dentry cache: a file
//! remembers under which name it was linked last (see [`Node`]), which is enough for getcwd and
//! /proc.

use crate::base::errno::{Errno, Result};
use crate::base::machine::Object;
use crate::fs::OpenFlags;
use crate::fs::open::file::{FileOps, NoBytes};
use crate::fs::tree::mount::Location;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use linux_raw_sys::general as c;

pub use crate::fs::tree::node::Node;

/// File types: the upper bits of st_mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum FileKind {
    Regular = c::S_IFREG,
    Directory = c::S_IFDIR,
    Symlink = c::S_IFLNK,
    Char = c::S_IFCHR,
    Block = c::S_IFBLK,
    Fifo = c::S_IFIFO,
    Socket = c::S_IFSOCK,
}

impl FileKind {
    /// From st_mode; a mode without a type is a regular file, as mknod(2) says.
    pub fn from_mode(mode: u32) -> Option<FileKind> {
        Some(match mode & c::S_IFMT {
            0 | c::S_IFREG => FileKind::Regular,
            c::S_IFDIR => FileKind::Directory,
            c::S_IFLNK => FileKind::Symlink,
            c::S_IFCHR => FileKind::Char,
            c::S_IFBLK => FileKind::Block,
            c::S_IFIFO => FileKind::Fifo,
            c::S_IFSOCK => FileKind::Socket,
            _ => return None,
        })
    }
    /// d_type of getdents64: the type's bits shifted down.
    pub fn dirent_type(self) -> u8 {
        (self as u32 >> 12) as u8
    }
}

/// A device number: major and minor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Device(pub u32, pub u32);

impl Device {
    /// dev_t as user programs see it in st_rdev and st_dev (makedev(3)).
    pub fn encode(self) -> u64 {
        let (major, minor) = (u64::from(self.0), u64::from(self.1));
        (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
    }
    /// The reverse, for mknod(2).
    pub fn decode(number: u64) -> Device {
        let major = (number >> 8 & 0xfff) | (number >> 32 & !0xfff);
        let minor = (number & 0xff) | (number >> 12 & 0xf_ff00);
        Device(major as u32, minor as u32)
    }
}

/// Target of a symbolic link.
pub enum LinkTarget {
    /// A path to walk.
    Path(Vec<u8>),
    /// A file, whatever its name (/proc/PID/fd/N, exe, cwd, root).
    Place(Location),
}

/// One file, whatever its type.
pub trait Inode: Send + Sync {
    /// The common part.
    fn node(&self) -> &Node;
    /// Opens it; `flags` are open(2)'s. The defaults are those of a directory.
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(NoBytes))
    }
    /// The directory's verbs, if it is one.
    fn directory(&self) -> Option<&dyn Directory> {
        None
    }
    /// The pages of a regular file that has some.
    fn object(&self) -> Option<&Arc<Object>> {
        None
    }
    /// Where a symbolic link leads; EINVAL for anything else.
    fn target(&self) -> Result<LinkTarget> {
        Err(Errno::EINVAL)
    }
    /// The text of readlink(2); differs from the target for links that lead to a place.
    fn link_text(&self) -> Result<Vec<u8>> {
        match self.target()? {
            LinkTarget::Path(path) => Ok(path),
            LinkTarget::Place(place) => place.path(),
        }
    }
    /// st_size.
    fn size(&self) -> u64 {
        self.object().map_or(0, |object| object.len())
    }
    /// truncate(2), by the one who changes the contents ([`Node::change_content`]); EINVAL for what
    /// is not a regular file.
    fn resize(&self, _len: u64) -> Result {
        Err(Errno::EINVAL)
    }
    /// EFBIG when the file may not be so long, EPERM when a seal keeps its size.
    fn check_size(&self, _len: u64) -> Result {
        Ok(())
    }
    /// ENOSPC when the file may not take `pages` more.
    fn check_space(&self, _pages: u64) -> Result {
        Ok(())
    }
    /// The F_SEAL_* word of files that have one.
    fn seals(&self) -> Option<&AtomicU32> {
        None
    }
    /// st_rdev.
    fn device(&self) -> Device {
        Device::default()
    }
    /// What a file without a name is called in /proc/PID/fd and maps: `pipe:[7]`.
    fn label(&self) -> Option<String> {
        None
    }
}

/// What [`Directory::make`] makes.
pub enum New {
    /// An empty file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A device node, a FIFO or a socket.
    Special(FileKind, Device),
}

/// One entry of a directory.
pub struct DirEntry<'a> {
    /// The position after this entry (d_off).
    pub next: u64,
    /// The entry's inode number.
    pub number: u64,
    /// The entry's type.
    pub kind: FileKind,
    /// The entry's name.
    pub name: &'a [u8],
}

/// Files of a tree that is being taken down, numbered: there may be very many, too many for one
/// piece of the heap.
pub type Doomed = BTreeMap<u64, Arc<dyn Inode>>;

/// A directory. "." and ".." are not among its entries; link counts and times are left to the
/// caller (`names`).
pub trait Directory {
    /// The file called `name`; ENOENT.
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>>;
    /// Hands out the entries after position `after` (0: all) until `emit` returns false.
    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool);
    /// Makes a file of this file system that has no name yet.
    fn make(&self, _new: New, _mode: u32) -> Result<Arc<dyn Inode>> {
        Err(Errno::EPERM)
    }
    /// Enters a file of this file system under a name that is free.
    fn insert(&self, _name: &[u8], _inode: &Arc<dyn Inode>) -> Result {
        Err(Errno::EPERM)
    }
    /// Removes the entry.
    fn remove(&self, _name: &[u8]) -> Result {
        Err(Errno::EPERM)
    }
    /// Moves all entries out, when no path leads to the directory any more.
    fn take_all(&self, _into: &mut Doomed) {}
    /// Whether it has no entries.
    fn is_empty(&self) -> bool {
        let mut empty = true;
        self.entries(0, &mut |_| {
            empty = false;
            false
        });
        empty
    }
}
