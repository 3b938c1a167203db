//! The types of the tree, which name each other: the interface that the files of every file system
//! implement, what all files have in common, mounted file systems, and places in these. What a
//! [`Node`] does stands in `node`, what a [`Mount`] does in `mount`, a [`Location`] in `place`.
//!
//! There is no dentry cache: a file remembers under which name it was linked last (see [`Node`]),
//! which is enough for getcwd and /proc.

use crate::base::errno::{Errno, Result};
use crate::base::machine::Object;
use crate::base::ranks;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::ops::{FileOps, NoBytes};
use crate::fs::tree::clock::Time;
use crate::fs::tree::content::Content;
use crate::fs::tree::quota::{InodeCharge, Quota};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64};
use linux_raw_sys::general as c;
use mm::sync::Lock;

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
    /// st_size.
    fn size(&self) -> u64 {
        self.object().map_or(0, |object| object.len())
    }
    /// Where SEEK_END is: of a block device not its st_size.
    fn end(&self) -> u64 {
        self.size()
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

/// Attributes that can change.
#[derive(Clone)]
pub struct Attributes {
    /// Permission bits with set-uid, set-gid and sticky: 0o7777 at most.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// st_nlink.
    pub links: u32,
    /// st_atime.
    pub accessed: Time,
    /// st_mtime.
    pub modified: Time,
    /// st_ctime.
    pub changed: Time,
    pub(super) home: Option<Home>,
}

/// The directory and the name a file was linked under last.
#[derive(Clone)]
pub(super) struct Home {
    pub parent: Parent,
    pub name: Box<[u8]>,
    /// The name is gone: paths end with " (deleted)".
    pub deleted: bool,
}

/// A parent that holds its entries must not be held by them; one that makes them anew must.
#[derive(Clone)]
pub(super) enum Parent {
    Holder(Weak<dyn Inode>),
    Maker(Arc<dyn Inode>),
}

/// The common part of every inode.
pub struct Node {
    /// st_dev.
    pub device: u64,
    /// st_ino.
    pub number: u64,
    /// Type.
    pub kind: FileKind,
    pub(super) attributes: Lock<Attributes, { ranks::INODE }>,
    /// Programs that run from this file: while there are any its content stays as it is (ETXTBSY).
    pub running: AtomicU64,
    /// Mounts that are on it, in whatever mount it is seen.
    pub mounts: AtomicU32,
    pub(super) content: Content,
    /// Its place in the file system's quota, where there is one.
    pub(super) _place: Option<InodeCharge>,
}

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

/// A file system as it is mounted in one place.
pub struct Mount {
    /// Number in /proc/PID/mountinfo.
    pub id: u32,
    /// The mounted file system.
    pub fs: Arc<FileSystem>,
    /// The root of the mount: the file system's root, or a part of it for a bind mount.
    pub root: Arc<dyn Inode>,
    /// First word of a line of /proc/mounts.
    pub source: String,
    pub(super) flags: AtomicU32,
}

/// A file in the tree: which file, seen through which mount.
#[derive(Clone)]
pub struct Location {
    /// Seen through this mount.
    pub mount: Arc<Mount>,
    /// The file.
    pub inode: Arc<dyn Inode>,
}
