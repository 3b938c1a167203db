//! Files of huge pages (hugetlbfs, hugetlbpage.rst): those of mounts, of memfd_create(2), and those
//! without a name that are behind MAP_HUGETLB.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Hw, Object, huge_sizes, mm};
use crate::fs::kinds::anonymous;
use crate::fs::kinds::ramfile::{MAX_SIZE, RamFile};
use crate::fs::kinds::ramfs;
use crate::fs::tree::inode::FileSystem;
use crate::fs::tree::quota::Quota;
use alloc::sync::Arc;
use linux_raw_sys::general as c;
use mm::addr::{Order, PAGE_SHIFT, Pfn};
use mm::hugetlb::DEFAULT;
use mm::vma::Backing;

/// f_type of hugetlbfs.
pub const HUGETLBFS_MAGIC: u32 = 0x9584_58f6;

/// The size that a flags word names by log2 of its bytes, in the bits from 26 on that MAP_HUGETLB
/// and MFD_HUGETLB have in common; the default size if it names none. `None`: there is no such
/// size.
pub fn size_of(flags: u32) -> Option<Order> {
    let named = flags >> c::MAP_HUGE_SHIFT & c::MAP_HUGE_MASK;
    match named {
        0 => Some(DEFAULT),
        _ => size_where(|size| u32::from(size.0) + PAGE_SHIFT == named),
    }
}

/// The size of huge pages for which this holds.
pub fn size_where(holds: impl Fn(Order) -> bool) -> Option<Order> {
    huge_sizes().iter().copied().find(|size| holds(*size))
}

/// A new, empty file system; `pages` is the limit in single pages.
pub fn file_system(order: Order, mode: u32, pages: u64) -> Arc<FileSystem> {
    let quota = Quota::of_huge_pages(order, pages);
    ramfs::with_magic("hugetlbfs", HUGETLBFS_MAGIC, mode, quota)
}

/// Huge pages that are zeros: private to the space with this root table, or shared with its
/// children.
pub fn zeros(order: Order, shared: bool, len: u64, root: Pfn) -> Backing<Hw> {
    let file = RamFile::unnamed(
        "/anon_hugepage (deleted)".into(),
        Quota::of_huge_pages(order, u64::MAX),
    );
    let object = match shared {
        true => file.object().clone(),
        false => Object::huge_private(mm(), order, None, root),
    };
    object.set_len(len.next_multiple_of(order.bytes()));
    Backing::Object {
        object: object.into(),
        offset: 0,
        file: Some(anonymous::place(file).mapped()),
    }
}

/// A mapping of `len` bytes of a file of huge pages. EINVAL: it begins in a page; EOVERFLOW: its
/// last page lies beyond what a file can have.
pub fn mapping(backing: Backing<Hw>, shared: bool, len: u64, root: Pfn) -> Result<Backing<Hw>> {
    let (
        Some(order),
        Backing::Object {
            object,
            offset,
            file,
        },
    ) = (backing.huge_order(), &backing)
    else {
        return Ok(backing);
    };
    if !offset.is_multiple_of(order.pages()) {
        return Err(Errno::EINVAL);
    }
    let end = (offset << PAGE_SHIFT).checked_add(len.next_multiple_of(order.bytes()));
    if end.is_none_or(|end| end > MAX_SIZE) {
        return Err(Errno::EOVERFLOW);
    }
    if shared {
        return Ok(backing);
    }
    Ok(Backing::Object {
        object: Object::huge_private(mm(), order, Some(object.object().clone()), root).into(),
        offset: *offset,
        file: file.clone(),
    })
}
