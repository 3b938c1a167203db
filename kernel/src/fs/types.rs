//! The kinds of file systems that mount(2) knows.

use crate::errno::{Errno, Result};
use crate::fs::mount::FileSystem;
use crate::fs::{devices, proc, ramfs, room, sys};
use alloc::sync::Arc;

/// Names with whether they need a device (/proc/filesystems says "nodev" for those that do not: all of these).
pub const NAMES: [&str; 6] = ["sysfs", "tmpfs", "ramfs", "proc", "devtmpfs", "rootfs"];

/// The file system to mount; ENODEV for an unknown name, EINVAL for options that make no sense.
pub fn get(name: &[u8], options: &[u8]) -> Result<Arc<FileSystem>> {
    match name {
        b"proc" => Ok(proc::file_system()),
        b"sysfs" => Ok(sys::file_system()),
        b"devtmpfs" => devices::devtmpfs(),
        b"tmpfs" => tmpfs("tmpfs", options),
        b"ramfs" => tmpfs("ramfs", options),
        _ => Err(Errno::ENODEV),
    }
}

/// "mode=1777" is understood; sizes are accepted, memory itself is the limit.
fn tmpfs(name: &'static str, options: &[u8]) -> Result<Arc<FileSystem>> {
    let mut mode = if name == "tmpfs" { 0o1777 } else { 0o755 };
    for option in options
        .split(|b| *b == b',')
        .filter(|option| !option.is_empty())
    {
        let option = core::str::from_utf8(option).map_err(|_| Errno::EINVAL)?;
        if let Some(value) = option.strip_prefix("mode=") {
            mode = u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)?;
        }
    }
    room::check(Errno::ENOSPC)?;
    Ok(ramfs::new(name, mode & 0o7777))
}
