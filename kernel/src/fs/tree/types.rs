//! File-system types of mount(2).

use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::fs::kinds::{devtmpfs, hugefile, ramfs};
use crate::fs::room;
use crate::fs::tree::inode::FileSystem;
use crate::fs::tree::quota::Quota;
use alloc::sync::Arc;
use mm::addr::PAGE_SIZE;
use mm::hugetlb::DEFAULT;

/// Names with whether they need a device (/proc/filesystems says "nodev" for those that do not: all
/// of these).
pub const NAMES: [&str; 8] = [
    "sysfs",
    "debugfs",
    "tmpfs",
    "ramfs",
    "proc",
    "devtmpfs",
    "rootfs",
    "hugetlbfs",
];

/// The file systems of the floors above: proc, sysfs and debugfs.
pub trait Views {
    /// The one of this kind; `None` for another name.
    fn file_system(kind: &[u8]) -> Option<Arc<FileSystem>>;
}

/// The file system to mount; ENODEV for an unknown name, EINVAL for options that make no sense.
pub fn get(name: &[u8], options: &[u8]) -> Result<Arc<FileSystem>> {
    match name {
        b"devtmpfs" => devtmpfs::file_system(),
        b"tmpfs" => tmpfs("tmpfs", options),
        b"ramfs" => tmpfs("ramfs", options),
        b"hugetlbfs" => hugetlbfs(options),
        _ => Above::file_system(name).ok_or(Errno::ENODEV),
    }
}

/// Parses "mode=1777" and, for tmpfs, "size=64m" (also k, g, %); half of memory without. And
/// "nr_inodes=N", as many as half of memory has pages without. Other options of tmpfs(5) change
/// nothing here.
fn tmpfs(name: &'static str, options: &[u8]) -> Result<Arc<FileSystem>> {
    let limited = name == "tmpfs";
    let total = mm().total_frames();
    let (mut mode, mut pages) = if limited {
        (0o1777, total / 2)
    } else {
        (0o755, u64::MAX)
    };
    let mut inodes = total / 2;
    let options = core::str::from_utf8(options).map_err(|_| Errno::EINVAL)?;
    for option in options.split(',') {
        match option.split_once('=') {
            Some(("mode", value)) => {
                mode = u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)?;
            }
            Some(("size", value)) if limited => pages = size(value, total).ok_or(Errno::EINVAL)?,
            Some(("nr_inodes", value)) if limited => {
                inodes = value.parse().map_err(|_| Errno::EINVAL)?;
            }
            _ => {}
        }
    }
    room::check_files(1)?;
    Ok(ramfs::new(
        name,
        mode & 0o7777,
        Quota::with_inodes(pages, inodes),
    ))
}

/// Parses "pagesize=2M", "size=64M" (or a part of the pool: "50%"), "mode=1777"; other options
/// of hugetlbfs change nothing here.
fn hugetlbfs(options: &[u8]) -> Result<Arc<FileSystem>> {
    let options = core::str::from_utf8(options).map_err(|_| Errno::EINVAL)?;
    let value = |name: &str| {
        let mut named = options
            .rsplit(',')
            .filter_map(|option| option.split_once('='));
        named.find(|it| it.0 == name).map(|it| it.1)
    };
    let order = match value("pagesize") {
        None => DEFAULT,
        Some(text) => {
            let pages = size(text, 0).ok_or(Errno::EINVAL)?;
            hugefile::size_where(|order| order.pages() == pages).ok_or(Errno::EINVAL)?
        }
    };
    let pool = mm().hugetlb(order).total << order.0;
    let limit = value("size").map_or(Some(u64::MAX), |text| size(text, pool));
    let limit = limit.ok_or(Errno::EINVAL)?;
    let mode = value("mode").map_or(Ok(0o755), |text| u32::from_str_radix(text, 8));
    let mode = mode.map_err(|_| Errno::EINVAL)?;
    room::check_files(1)?;
    Ok(hugefile::file_system(order, mode & 0o7777, limit))
}

/// A size in pages; 0 is no limit.
fn size(text: &str, total: u64) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let bytes = match unit {
        "%" => return total.checked_mul(number).map(|n| n / 100),
        "" => Some(number),
        "k" | "K" => number.checked_mul(1 << 10),
        "m" | "M" => number.checked_mul(1 << 20),
        "g" | "G" => number.checked_mul(1 << 30),
        _ => None,
    }?;
    Some(if bytes == 0 {
        u64::MAX
    } else {
        bytes.div_ceil(PAGE_SIZE)
    })
}
