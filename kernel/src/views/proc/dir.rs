//! Directories of a process or thread: a table of entries, made when they are looked up.

use super::subject::{Known, Subject};
use crate::base::errno::{Errno, Result};
use crate::fs::OpenFlags;
use crate::fs::kinds::pseudo::{PseudoFile, PseudoLink, Text};
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::{DirEntry, Directory, FileKind, Inode, LinkTarget, Node};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

/// What an entry is.
pub enum Make {
    /// A text.
    Show(fn(&Subject, &mut Text) -> Result),
    /// A text that can be written.
    Knob(
        fn(&Subject, &mut Text) -> Result,
        fn(&Subject, &str) -> Result,
    ),
    /// A text that can only be written.
    Store(fn(&Subject, &str) -> Result),
    /// A symbolic link.
    Link(fn(&Subject) -> Result<LinkTarget>),
    /// A file with ways of its own, and its permissions.
    File(fn(&Subject) -> Result<Arc<dyn FileOps>>, u32),
    /// A directory.
    Dir(fn(&Subject) -> Arc<dyn Inode>),
}

/// A name and what it stands for.
pub type Item = (&'static str, Make);

/// st_dev of /proc.
pub fn device() -> u64 {
    let device = super::DEVICE.get();
    *device.expect("who looks a file up has /proc")
}

/// st_ino of entry `index` of a process's directory; 0 is the directory. Other files' numbers lie
/// far below.
pub fn number_of(pid: i32, index: u64) -> u64 {
    1 << 40 | (pid as u64) << 16 | index
}

/// Lists the directories of these processes or threads, which come in the order of their numbers.
pub fn list(numbers: impl Iterator<Item = i32>, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
    for pid in numbers {
        let name = format!("{pid}");
        if !emit(DirEntry {
            next: pid as u64,
            number: number_of(pid, 0),
            kind: FileKind::Directory,
            name: name.as_bytes(),
        }) {
            return;
        }
    }
}

/// A directory made of a table.
pub struct SubjectDir {
    node: Node,
    subject: Known,
    items: &'static [Item],
}

impl SubjectDir {
    /// The directory of `subject`.
    pub fn entry(subject: &Subject, items: &'static [Item]) -> Arc<dyn Inode> {
        let node = node(subject, FileKind::Directory, 0o555, 0);
        node.change(|a| a.links = 2);
        Arc::new(SubjectDir {
            node,
            subject: subject.known(),
            items,
        })
    }
}

/// A node that belongs to the process's user.
pub fn node(subject: &Subject, kind: FileKind, mode: u32, index: u64) -> Node {
    let node = Node::numbered(device(), number_of(subject.number(), index), kind, mode);
    let (uid, gid) = subject.process.credentials(|c| (c.euid(), c.egid()));
    node.change(|a| (a.uid, a.gid) = (uid, gid));
    node
}

impl Inode for SubjectDir {
    fn node(&self) -> &Node {
        &self.node
    }
    fn directory(&self) -> Option<&dyn Directory> {
        Some(self)
    }
}

impl Directory for SubjectDir {
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let found = (1..)
            .zip(self.items)
            .find(|(_, (item, _))| item.as_bytes() == name);
        let (index, (_, make)) = found.ok_or(Errno::ENOENT)?;
        let (subject, known) = (self.subject.subject()?, self.subject.clone());
        let file = |mode| node(&subject, FileKind::Regular, mode, index);
        Ok(match make {
            Make::Show(show) => {
                let show = Box::new(move |out: &mut Text| show(&known.subject()?, out));
                PseudoFile::with_node(file(0o444), Some(show), None)
            }
            Make::Knob(show, store) => {
                let for_store = known.clone();
                let show = Box::new(move |out: &mut Text| show(&known.subject()?, out));
                let store = Box::new(move |text: &str| store(&for_store.subject()?, text));
                PseudoFile::with_node(file(0o644), Some(show), Some(store))
            }
            Make::Store(store) => {
                let store = Box::new(move |text: &str| store(&known.subject()?, text));
                PseudoFile::with_node(file(0o200), None, Some(store))
            }
            Make::Link(target) => {
                let node = node(&subject, FileKind::Symlink, 0o777, index);
                PseudoLink::with_node(node, move || {
                    target(&known.subject().map_err(|_| Errno::ENOENT)?)
                })
            }
            Make::File(open, mode) => Arc::new(SubjectFile {
                node: file(*mode),
                subject: known,
                open: *open,
            }),
            Make::Dir(make) => make(&subject),
        })
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let Ok(subject) = self.subject.subject() else {
            return;
        };
        for (next, (name, make)) in (1..).zip(self.items).skip(after as usize) {
            let kind = match make {
                Make::Show(_) | Make::Knob(..) | Make::Store(_) | Make::File(..) => {
                    FileKind::Regular
                }
                Make::Link(_) => FileKind::Symlink,
                Make::Dir(_) => FileKind::Directory,
            };
            let number = number_of(subject.number(), next);
            if !emit(DirEntry {
                next,
                number,
                kind,
                name: name.as_bytes(),
            }) {
                return;
            }
        }
    }
}

/// See [`Make::File`].
struct SubjectFile {
    node: Node,
    subject: Known,
    open: fn(&Subject) -> Result<Arc<dyn FileOps>>,
}

impl Inode for SubjectFile {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        (self.open)(&self.subject.subject()?)
    }
    fn resize(&self, _len: u64) -> Result {
        Ok(())
    }
}
