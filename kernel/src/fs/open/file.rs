//! Open file descriptions: what a descriptor refers to.

use crate::base::errno::{Errno, Result};
use crate::base::machine::Hw;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::flock::{self, Holder};
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use crate::fs::tree::inode::{FileKind, Location};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use mm::vma::{Backing, MappedFile, VmaFlags};
use spin::Once;

/// A mapping of a file, as mmap(2) makes it.
pub struct Mapping {
    /// Where the pages come from.
    pub backing: Backing<Hw>,
    /// Flags that the file adds: [`VmaFlags::NO_MAYWRITE`].
    pub flags: VmaFlags,
}

/// An open file description, open(2): shared by dup and fork.
pub struct OpenFile {
    /// What was opened.
    pub place: Location,
    ops: Arc<dyn FileOps>,
    /// [`OpenFlags`].
    flags: AtomicU32,
    /// Relaxed is enough for both: readers and writers of a shared position order themselves, or
    /// get what they ask for.
    position: AtomicU64,
    /// Whether the file has contents that writes change one at a time.
    has_content: bool,
    /// It may hold a lock: see [`flock`].
    locked: AtomicBool,
    /// What its mappings have of it, from the first one on.
    mapped: Once<Arc<dyn MappedFile>>,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if *self.locked.get_mut() {
            self.unlock();
        }
    }
}

impl OpenFile {
    /// `flags` are open(2)'s.
    pub fn new(place: Location, ops: Arc<dyn FileOps>, flags: OpenFlags) -> Arc<OpenFile> {
        Arc::new(OpenFile {
            has_content: place.inode.object().is_some(),
            place,
            ops,
            flags: AtomicU32::new((flags - OpenFlags::ONCE).bits()),
            position: AtomicU64::new(0),
            locked: AtomicBool::new(false),
            mapped: Once::new(),
        })
    }

    /// What it can do, for calls that need no checks.
    pub fn ops(&self) -> &dyn FileOps {
        &*self.ops
    }

    /// O_RDONLY ... with the status flags, as F_GETFL returns them.
    #[inline]
    pub fn flags(&self) -> OpenFlags {
        OpenFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }

    /// F_SETFL.
    pub fn set_flags(&self, flags: OpenFlags) {
        let changeable = OpenFlags::CHANGEABLE;
        let flags = (self.flags() - changeable) | (flags & changeable);
        self.flags.store(flags.bits(), Ordering::Relaxed);
    }

    /// Whether reads are allowed.
    pub fn readable(&self) -> bool {
        self.flags().reads() && !self.flags().contains(OpenFlags::PATH)
    }

    /// Whether writes are allowed.
    pub fn writable(&self) -> bool {
        self.flags().writes() && !self.flags().contains(OpenFlags::PATH)
    }

    /// EBADF for a file opened with O_PATH only.
    pub fn usable(&self) -> Result<&Self> {
        if !self.flags().contains(OpenFlags::PATH) {
            Ok(self)
        } else {
            Err(Errno::EBADF)
        }
    }

    fn at(&self, position: u64) -> At {
        At {
            position,
            nonblocking: self.flags().contains(OpenFlags::NONBLOCK),
        }
    }

    /// read(2) at the file's position.
    pub fn read(&self, sink: &mut Sink<'_>) -> Result<usize> {
        let position = self.position();
        let n = self.read_at(position, sink)?;
        self.set_position(position + n as u64);
        Ok(n)
    }

    /// Reads at a position of the caller's.
    pub fn read_at(&self, position: u64, sink: &mut Sink<'_>) -> Result<usize> {
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        if self.place.inode.node().kind == FileKind::Directory {
            return Err(Errno::EISDIR);
        }
        self.ops.read(self.at(position), sink)
    }

    /// write(2) at the file's position.
    pub fn write(&self, source: &mut Source<'_>) -> Result<usize> {
        let at = self.position();
        let (end, n) = match self.has_content {
            true => self.change(at, source)?,
            false => {
                let n = self.put(at, source)?;
                (at + n as u64, n)
            }
        };
        self.set_position(end);
        Ok(n)
    }

    /// Writes at a position of the caller's.
    pub fn write_at(&self, position: u64, source: &mut Source<'_>) -> Result<usize> {
        match self.has_content {
            true => self.change(position, source).map(|(_, n)| n),
            false => self.put(position, source),
        }
    }

    fn put(&self, position: u64, source: &mut Source<'_>) -> Result<usize> {
        if !self.writable() {
            return Err(Errno::EBADF);
        }
        self.ops.write(self.at(position), source)
    }

    /// Writes to a file's contents at a position, or at the end, whatever the position (O_APPEND).
    /// Returns where it has ended, and how many bytes were written.
    fn change(&self, position: u64, source: &mut Source<'_>) -> Result<(u64, usize)> {
        let inode = &self.place.inode;
        let _changing = inode.node().change_content()?;
        let position = match self.flags().contains(OpenFlags::APPEND) {
            true => inode.size(),
            false => position,
        };
        let n = self.put(position, source)?;
        Ok((position + n as u64, n))
    }

    /// The file, for a mapping by way of this one: those of one open file may become one VMA.
    pub fn mapped(&self) -> Arc<dyn MappedFile> {
        self.mapped.call_once(|| self.place.mapped()).clone()
    }

    /// The position.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    fn holder(&self) -> Holder {
        let node = self.place.inode.node();
        Holder {
            file: (node.device, node.number),
            owner: core::ptr::from_ref(self).addr(),
        }
    }

    /// flock(2): takes or changes a lock, to be released with the last reference, or waits for it;
    /// EAGAIN when it must not wait.
    pub fn lock(&self, exclusive: bool, nonblocking: bool) -> Result {
        self.locked.store(true, Ordering::Relaxed);
        flock::lock(self.holder(), exclusive, nonblocking)
    }

    /// Releases its lock, if it holds one.
    pub fn unlock(&self) {
        flock::unlock(self.holder());
    }

    /// Sets the position.
    pub fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// mmap(2): EACCES when the file was opened without what the mapping needs, ENODEV when it
    /// cannot be mapped.
    pub fn mmap(&self, shared: bool, write: bool, offset: u64) -> Result<Mapping> {
        self.usable()?;
        if !self.readable() || (shared && write && !self.writable()) {
            return Err(Errno::EACCES);
        }
        let seals = self.place.inode.seals();
        // Relaxed: of a seal that is set meanwhile the object knows when the mapping is made.
        let sealed = seals.is_some_and(|seals| {
            seals.load(Ordering::Relaxed) & (c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE) != 0
        });
        if shared && write && sealed {
            return Err(Errno::EPERM);
        }
        let flags = if shared && (sealed || !self.writable()) {
            VmaFlags::NO_MAYWRITE
        } else {
            VmaFlags::empty()
        };
        let mut backing = self.ops.mmap(shared, offset)?;
        if let Backing::Object { file, .. } = &mut backing {
            *file = Some(self.mapped());
        }
        Ok(Mapping { backing, flags })
    }
}
