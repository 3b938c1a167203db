//! open(2).

pub mod exec;
pub mod fd;
pub mod fdtable;
pub mod file;
pub mod flags;
pub mod flock;
pub mod io;
pub mod ops;

use crate::base::errno::{Errno, Result};
use crate::fs::open::file::OpenFile;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::ops::NoBytes;
use crate::fs::tree::context::FsContext;
use crate::fs::tree::inode::{FileKind, Inode, Location, New};
use crate::fs::tree::names;
use crate::fs::tree::path::{self, Last, LastName, Walked};
use alloc::sync::Arc;

/// O_TMPFILE without O_DIRECTORY, which it includes.
const TMPFILE: OpenFlags = OpenFlags::TMPFILE.difference(OpenFlags::DIRECTORY);

/// Opens or makes a file. `mode` is for a new one, before the umask.
pub fn open(
    context: &FsContext,
    base: Location,
    path: &[u8],
    flags: OpenFlags,
    mode: u32,
) -> Result<Arc<OpenFile>> {
    // A 32-bit habit without meaning here.
    let flags = flags - OpenFlags::LARGEFILE;
    if flags.contains(OpenFlags::PATH) {
        return open_path(context, base, path, flags);
    }
    let last = if flags.contains(OpenFlags::NOFOLLOW)
        || flags.contains(OpenFlags::CREAT | OpenFlags::EXCL)
    {
        Last::Keep
    } else {
        Last::Follow
    };
    let mode = mode & 0o7777 & !context.umask();
    let walked = path::walk(context, base, path, last)?;
    if flags.intersects(TMPFILE) {
        return open_unnamed(walked.existing()?, flags, mode);
    }
    if flags.contains(OpenFlags::CREAT) {
        if walked.found.is_none() {
            return create(&walked, flags, mode);
        }
        if flags.contains(OpenFlags::EXCL) {
            return Err(Errno::EEXIST);
        }
    }
    open_existing(walked.existing()?, flags)
}

/// Opens a file that was found by other means (a link of /proc/PID/fd, a mapping).
fn open_existing(place: Location, flags: OpenFlags) -> Result<Arc<OpenFile>> {
    let writes = flags.writes();
    match place.inode.node().kind {
        FileKind::Symlink => return Err(Errno::ELOOP),
        FileKind::Directory if writes || flags.contains(OpenFlags::CREAT) => {
            return Err(Errno::EISDIR);
        }
        FileKind::Directory => {}
        _ if flags.contains(OpenFlags::DIRECTORY) => return Err(Errno::ENOTDIR),
        FileKind::Regular if writes || flags.contains(OpenFlags::TRUNC) => {
            place.check_content_writable()?
        }
        FileKind::Socket => return Err(Errno::ENXIO),
        _ => {}
    }
    if flags.contains(OpenFlags::TRUNC) && writes && place.inode.object().is_some() {
        let _changing = place.inode.node().change_content()?;
        place.inode.resize(0)?;
    }
    finish(place, flags)
}

fn create(walked: &Walked, flags: OpenFlags, mode: u32) -> Result<Arc<OpenFile>> {
    if flags.contains(OpenFlags::DIRECTORY) {
        return Err(Errno::EINVAL);
    }
    if walked.slash && matches!(walked.name, LastName::Name(_)) {
        return Err(Errno::EISDIR);
    }
    finish(names::create(walked, New::Regular, mode)?, flags)
}

/// O_TMPFILE: a file without a name in a directory's file system.
fn open_unnamed(dir: Location, flags: OpenFlags, mode: u32) -> Result<Arc<OpenFile>> {
    if !flags.writes() || !flags.contains(OpenFlags::DIRECTORY) {
        return Err(Errno::EINVAL);
    }
    dir.check_writable()?;
    let directory = dir.inode.directory().ok_or(Errno::ENOTDIR)?;
    let inode = directory
        .make(New::Regular, mode)
        .map_err(|_| Errno::EOPNOTSUPP)?;
    inode.node().change(|a| a.links = 0);
    let name = alloc::format!("#{}", inode.node().number);
    inode.node().set_home(&dir.inode, name.as_bytes());
    inode.node().leave_home(dir.inode.node(), name.as_bytes());
    finish(dir.beside(inode), flags)
}

/// O_PATH: a place, not an open file.
fn open_path(
    context: &FsContext,
    base: Location,
    path: &[u8],
    flags: OpenFlags,
) -> Result<Arc<OpenFile>> {
    let last = if flags.contains(OpenFlags::NOFOLLOW) {
        Last::Keep
    } else {
        Last::Follow
    };
    let place = path::resolve(context, base, path, last)?;
    if flags.contains(OpenFlags::DIRECTORY) && place.inode.node().kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let kept = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
    Ok(OpenFile::new(place, Arc::new(NoBytes), flags & kept))
}

fn finish(place: Location, flags: OpenFlags) -> Result<Arc<OpenFile>> {
    let ops = Inode::open(place.inode.clone(), flags)?;
    Ok(OpenFile::new(place, ops, flags))
}
