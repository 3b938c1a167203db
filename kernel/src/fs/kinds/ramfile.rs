//! A regular file in memory: an object of the memory manager with a name. Also the files of
//! memfd_create(2), which have no name.

use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{Hw, Object, mm};
use crate::fs::caller::{self, Frames};
use crate::fs::kinds::anonymous;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use crate::fs::tree::inode::{FileKind, Inode, Node};
use crate::fs::tree::quota::Quota;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as c;
use mm::OutOfMemory;
use mm::addr::{Order, PAGE_SHIFT, PAGE_SIZE};
use mm::vma::Backing;

/// Largest size and position of a file.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// A regular file.
pub struct RamFile {
    node: Node,
    object: Arc<Object>,
    quota: Arc<Quota>,
    /// memfd_create's name.
    label: Option<String>,
    /// F_SEAL_*.
    seals: AtomicU32,
}

impl RamFile {
    /// An empty file. Files of the tree take no seals.
    pub fn new(node: Node, quota: Arc<Quota>) -> Arc<RamFile> {
        RamFile::with(node, quota, None, c::F_SEAL_SEAL)
    }

    /// memfd_create(2): a file without a name in the tree, with F_SEAL_* to begin with.
    /// With pages of `order`, if they are huge ones.
    pub fn memfd(name: &[u8], mode: u32, seals: u32, order: Option<Order>) -> Arc<RamFile> {
        let label = format!("/memfd:{} (deleted)", String::from_utf8_lossy(name));
        let quota = order.map(|order| Quota::of_huge_pages(order, u64::MAX));
        let quota = quota.unwrap_or_else(Quota::unlimited);
        RamFile::with(nameless(mode), quota, Some(label), seals)
    }

    /// A file that no path leads to.
    pub fn unnamed(label: String, quota: Arc<Quota>) -> Arc<RamFile> {
        RamFile::with(nameless(0o600), quota, Some(label), c::F_SEAL_SEAL)
    }

    /// Its pages.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn with(node: Node, quota: Arc<Quota>, label: Option<String>, seals: u32) -> Arc<RamFile> {
        Arc::new(RamFile {
            node,
            object: match quota.huge_order() {
                None if label.is_none() => Object::of_file(mm(), quota.pool()),
                None => Object::in_pool(mm(), Some(quota.pool())),
                Some(order) => Object::huge(mm(), order, Some(quota.pool())),
            },
            quota,
            label,
            seals: AtomicU32::new(seals),
        })
    }

    /// How many pages a write may add: none where the file is whole already.
    fn more_pages(&self, position: u64, len: usize) -> u64 {
        let size = self.object.len();
        let whole = self.object.pages() >= size.div_ceil(PAGE_SIZE);
        if whole && position + len as u64 <= size {
            0
        } else {
            (len as u64).div_ceil(PAGE_SIZE)
        }
    }

    fn sealed(&self, seals: u32) -> bool {
        self.seals.load(Ordering::Relaxed) & seals != 0
    }
}

fn nameless(mode: u32) -> Node {
    let node = Node::new(anonymous::device(), FileKind::Regular, mode);
    node.change(|a| a.links = 0);
    node
}

impl Inode for RamFile {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }
    fn object(&self) -> Option<&Arc<Object>> {
        Some(&self.object)
    }
    fn label(&self) -> Option<String> {
        self.label.clone()
    }
    fn seals(&self) -> Option<&AtomicU32> {
        Some(&self.seals)
    }
    fn resize(&self, len: u64) -> Result {
        let huge = self.object.huge_order();
        if huge.is_some_and(|order| !len.is_multiple_of(order.bytes())) {
            return Err(Errno::EINVAL);
        }
        self.check_size(len)?;
        self.object.truncate(len);
        self.node.touch_modified();
        Ok(())
    }
    fn check_size(&self, len: u64) -> Result {
        if len > MAX_SIZE {
            return Err(Errno::EFBIG);
        }
        let old = self.object.len();
        if (len < old && self.sealed(c::F_SEAL_SHRINK))
            || (len > old && self.sealed(c::F_SEAL_GROW))
        {
            return Err(Errno::EPERM);
        }
        if len > old {
            caller::within_file_size(len - 1, 1)?;
        }
        Ok(())
    }
    fn check_space(&self, pages: u64) -> Result {
        self.quota.check(pages)
    }
}

impl RamFile {
    /// Writes bytes, and waits where there are no frames meanwhile.
    fn write_all(&self, position: u64, bytes: &[u8]) -> core::result::Result<(), OutOfMemory> {
        let mut attempt = 0;
        loop {
            let stalls = mm().stalls();
            let written = self.object.write_at(position, bytes);
            if written.is_ok() || !Above::come(stalls, attempt) {
                return written;
            }
            attempt += 1;
        }
    }
}

impl FileOps for RamFile {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let n = sink.fill(|done, buffer| {
            let position = at.position + done as u64;
            match self.object.read_at(position, buffer) {
                0 if self.object.is_hwpoison(position >> PAGE_SHIFT) => Err(Errno::EIO),
                n => Ok(n),
            }
        })?;
        self.node.touch_accessed();
        Ok(n)
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        if self.object.huge_order().is_some() {
            // As in Linux, they are written through mappings only.
            return Err(Errno::EINVAL);
        }
        source.limit(caller::within_file_size(at.position, source.left())?);
        if source.left() == 0 {
            return Ok(0);
        }
        let end = at
            .position
            .checked_add(source.left() as u64)
            .filter(|end| *end <= MAX_SIZE);
        let end = end.ok_or(Errno::EFBIG)?;
        if self.sealed(c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE)
            || (end > self.object.len() && self.sealed(c::F_SEAL_GROW))
        {
            return Err(Errno::EPERM);
        }
        let mut position = at.position;
        let n = source.drain(|bytes| {
            self.quota.check(self.more_pages(position, bytes.len()))?;
            self.write_all(position, bytes).map_err(|_| {
                match self.object.has_lost(position, bytes.len() as u64) {
                    true => Errno::EIO,
                    false => Errno::ENOSPC,
                }
            })?;
            position += bytes.len() as u64;
            Ok(bytes.len())
        })?;
        if n > 0 {
            self.node.touch_modified();
        }
        Ok(n)
    }

    fn mmap(&self, _shared: bool, offset: u64) -> Result<Backing<Hw>> {
        Ok(Backing::Object {
            object: self.object.clone().into(),
            offset: offset >> PAGE_SHIFT,
            file: None,
        })
    }
}
