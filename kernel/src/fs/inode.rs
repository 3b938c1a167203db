//! What the files of every file system have in common: identity, attributes, and the place in the tree. There is no
//! dentry cache: a file remembers under which name it was linked last, which is enough for getcwd and /proc.

use crate::errno::{Errno, Result};
use crate::fs::clock::{self, Time};
use crate::fs::file::FileOps;
use crate::fs::mount::Location;
use crate::machine::Object;
use crate::ranks;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use mm::sync::Lock;

/// File types: the upper bits of st_mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Kind {
    Regular = c::S_IFREG,
    Directory = c::S_IFDIR,
    Symlink = c::S_IFLNK,
    Char = c::S_IFCHR,
    Block = c::S_IFBLK,
    Fifo = c::S_IFIFO,
    Socket = c::S_IFSOCK,
}

impl Kind {
    /// From st_mode; a mode without a type is a regular file, as mknod(2) says.
    pub fn from_mode(mode: u32) -> Option<Kind> {
        Some(match mode & c::S_IFMT {
            0 | c::S_IFREG => Kind::Regular,
            c::S_IFDIR => Kind::Directory,
            c::S_IFLNK => Kind::Symlink,
            c::S_IFCHR => Kind::Char,
            c::S_IFBLK => Kind::Block,
            c::S_IFIFO => Kind::Fifo,
            c::S_IFSOCK => Kind::Socket,
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
    home: Option<Home>,
}

/// The directory and the name a file was linked under last.
#[derive(Clone)]
struct Home {
    parent: Parent,
    name: Box<[u8]>,
    /// The name is gone: paths end with " (deleted)".
    deleted: bool,
}

/// A parent that holds its entries must not be held by them; one that makes them anew must.
#[derive(Clone)]
enum Parent {
    Holder(Weak<dyn Inode>),
    Maker(Arc<dyn Inode>),
}

impl Parent {
    fn get(&self) -> Option<Arc<dyn Inode>> {
        match self {
            Parent::Holder(parent) => parent.upgrade(),
            Parent::Maker(parent) => Some(parent.clone()),
        }
    }
}

/// What a name stands for while a path is climbed: see [`Node::home`].
pub struct Name {
    /// The directory; `None` when it is gone too.
    pub parent: Option<Arc<dyn Inode>>,
    /// The name in it.
    pub name: Box<[u8]>,
    /// Whether the name has been removed since.
    pub deleted: bool,
}

/// The common part of every inode.
pub struct Node {
    /// st_dev.
    pub device: u64,
    /// st_ino.
    pub number: u64,
    /// Type.
    pub kind: Kind,
    attributes: Lock<Attributes, { ranks::INODE }>,
    /// Programs that run from this file: while there are any its content stays as it is (ETXTBSY).
    pub running: AtomicU64,
}

impl Node {
    /// A file of file system `device` with a fresh inode number and no name yet.
    pub fn new(device: u64, kind: Kind, mode: u32) -> Node {
        static NEXT: AtomicU64 = AtomicU64::new(2);
        // Relaxed: only uniqueness counts.
        Node::numbered(device, NEXT.fetch_add(1, Ordering::Relaxed), kind, mode)
    }

    /// A file with a number of the caller's.
    pub fn numbered(device: u64, number: u64, kind: Kind, mode: u32) -> Node {
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
        }
    }

    /// A copy of the attributes.
    pub fn attributes(&self) -> Attributes {
        self.attributes.lock().clone()
    }

    /// Changes attributes. ctime is the caller's to set: [`Self::touch`] does.
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

    /// Whether any bit of `bits` is set in the permissions.
    pub fn permits(&self, bits: u32) -> bool {
        self.attributes.lock().mode & bits != 0
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

    /// The file was found as `name` in `parent`: for files that are made anew at each look, of which no directory
    /// knows.
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

    /// Where the file was linked last; `None` for a root and for what never had a name.
    pub fn home(&self) -> Option<Name> {
        let home = self.attributes.lock().home.clone()?;
        Some(Name {
            parent: home.parent.get(),
            name: home.name,
            deleted: home.deleted,
        })
    }
}

/// What a symbolic link leads to.
pub enum Target {
    /// A path to walk.
    Path(Vec<u8>),
    /// A file, whatever its name (/proc/PID/fd/N, exe, cwd, root).
    Place(Location),
}

/// One file, whatever its type.
pub trait Inode: Send + Sync {
    /// The common part.
    fn node(&self) -> &Node;
    /// Opens it; `flags` are open(2)'s.
    fn open(self: Arc<Self>, flags: u32) -> Result<Arc<dyn FileOps>>;
    /// The directory's verbs, if it is one.
    fn directory(&self) -> Option<&dyn Directory> {
        None
    }
    /// The pages of a regular file that has some.
    fn object(&self) -> Option<&Arc<Object>> {
        None
    }
    /// Where a symbolic link leads; EINVAL for anything else.
    fn target(&self) -> Result<Target> {
        Err(Errno::EINVAL)
    }
    /// What readlink(2) says; differs from the target for links that lead to a place.
    fn link_text(&self) -> Result<Vec<u8>> {
        match self.target()? {
            Target::Path(path) => Ok(path),
            Target::Place(place) => Ok(place.path()),
        }
    }
    /// st_size.
    fn size(&self) -> u64 {
        self.object().map_or(0, |object| object.len())
    }
    /// truncate(2); EINVAL for what is not a regular file.
    fn resize(&self, _len: u64) -> Result {
        Err(Errno::EINVAL)
    }
    /// The F_SEAL_* word of files that have one.
    fn seals(&self) -> Option<&AtomicU32> {
        None
    }
    /// st_rdev.
    fn device(&self) -> Device {
        Device::default()
    }
    /// What a file without a name is called in /proc/PID/fd and maps: "pipe:[7]".
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
    Special(Kind, Device),
}

/// One entry of a directory.
pub struct Entry<'a> {
    /// The position after this entry (d_off).
    pub next: u64,
    /// The entry's inode number.
    pub number: u64,
    /// The entry's type.
    pub kind: Kind,
    /// The entry's name.
    pub name: &'a [u8],
}

/// A directory. "." and ".." are not among its entries; link counts and times are the caller's business (`names`).
pub trait Directory {
    /// The file called `name`; ENOENT.
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>>;
    /// Hands out the entries after position `after` (0: all) until `emit` returns false.
    fn entries(&self, after: u64, emit: &mut dyn FnMut(Entry<'_>) -> bool);
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
    /// Moves all entries out, when nobody can see the directory any more.
    fn take_all(&self, _into: &mut Vec<Arc<dyn Inode>>) {}
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
