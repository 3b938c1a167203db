//! Building a path from its end, name by name, on the way up to the root.

use crate::base::errno::Result;
use crate::fs::tree::inode::Inode;
use alloc::sync::Arc;
use alloc::vec::Vec;
use parts::path::PATH_MAX;

/// Stands behind the path of a file that has lost its name.
const DELETED: &[u8] = b" (deleted)";

/// The end of a path, PATH_MAX bytes at the most.
pub struct Climbed {
    /// The path is at the end of it.
    bytes: Vec<u8>,
    start: usize,
    /// A name on the way has been removed.
    pub deleted: bool,
    /// The way was longer than a path may be.
    pub cut: bool,
}

impl Climbed {
    /// No names yet. ENOMEM.
    pub fn new() -> Result<Climbed> {
        let mut bytes = Vec::new();
        let most = PATH_MAX + DELETED.len();
        fallible::reserve_exact(&mut bytes, most)?;
        bytes.resize(PATH_MAX, 0);
        Ok(Climbed {
            bytes,
            start: PATH_MAX,
            deleted: false,
            cut: false,
        })
    }

    /// Puts the name of a file in front; returns its directory. `None` when that is gone, for a
    /// root and what never had a name, and when there is no more room.
    pub fn climb(&mut self, inode: &Arc<dyn Inode>) -> Option<Arc<dyn Inode>> {
        let parent = inode.node().home(|name, deleted| {
            self.deleted |= deleted;
            // A path has a NUL at its end.
            let len = 1 + name.len();
            self.cut = len >= self.start;
            if !self.cut {
                let end = self.start;
                self.start -= len;
                self.bytes[self.start] = b'/';
                self.bytes[self.start + 1..end].copy_from_slice(name);
            }
        });
        parent.filter(|_| !self.cut)
    }

    /// The path; "/" without names.
    pub fn finish(mut self) -> Vec<u8> {
        if self.start == PATH_MAX {
            self.start -= 1;
            self.bytes[self.start] = b'/';
        }
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// The path, with " (deleted)" when a name on the way has been removed.
    pub fn finish_marked(self) -> Vec<u8> {
        let deleted = self.deleted;
        let mut path = self.finish();
        if deleted {
            path.extend_from_slice(DELETED);
        }
        path
    }
}
