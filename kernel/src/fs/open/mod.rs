//! open(2).

pub mod exec;
pub mod fd;
pub mod fdtable;
pub mod file;
pub mod flock;
pub mod io;

use crate::base::errno::{Errno, Result};
use crate::fs::open::file::{NoBytes, OpenFile};
use crate::fs::tree::context::FsContext;
use crate::fs::tree::inode::{Inode, Kind, New};
use crate::fs::tree::mount::Location;
use crate::fs::tree::names;
use crate::fs::tree::path::{self, Last, LastName, Walked};
use alloc::sync::Arc;
use linux_raw_sys::general as c;

/// O_TMPFILE without O_DIRECTORY, which it includes.
const TMPFILE: u32 = c::O_TMPFILE & !c::O_DIRECTORY;

/// Opens or makes a file. `mode` is for a new one, before the umask.
pub fn open(
    context: &FsContext,
    base: Location,
    path: &[u8],
    flags: u32,
    mode: u32,
) -> Result<Arc<OpenFile>> {
    // A 32-bit habit without meaning here.
    let flags = flags & !c::O_LARGEFILE;
    if flags & c::O_PATH != 0 {
        return open_path(context, base, path, flags);
    }
    let last = if flags & c::O_NOFOLLOW != 0
        || flags & (c::O_CREAT | c::O_EXCL) == c::O_CREAT | c::O_EXCL
    {
        Last::Keep
    } else {
        Last::Follow
    };
    let mode = mode & 0o7777 & !context.umask();
    let walked = path::walk(context, base, path, last)?;
    if flags & TMPFILE != 0 {
        return open_unnamed(walked.existing()?, flags, mode);
    }
    if flags & c::O_CREAT != 0 {
        if walked.found.is_none() {
            return create(&walked, flags, mode);
        }
        if flags & c::O_EXCL != 0 {
            return Err(Errno::EEXIST);
        }
    }
    open_existing(walked.existing()?, flags)
}

/// Opens a file that was found by other means (a link of /proc/PID/fd, a mapping).
fn open_existing(place: Location, flags: u32) -> Result<Arc<OpenFile>> {
    let writes = flags & c::O_ACCMODE != c::O_RDONLY;
    match place.inode.node().kind {
        Kind::Symlink => return Err(Errno::ELOOP),
        Kind::Directory if writes || flags & c::O_CREAT != 0 => return Err(Errno::EISDIR),
        Kind::Directory => {}
        _ if flags & c::O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
        Kind::Regular if writes || flags & c::O_TRUNC != 0 => place.check_content_writable()?,
        Kind::Socket => return Err(Errno::ENXIO),
        _ => {}
    }
    if flags & c::O_TRUNC != 0 && writes && place.inode.object().is_some() {
        place.inode.resize(0)?;
    }
    finish(place, flags)
}

fn create(walked: &Walked, flags: u32, mode: u32) -> Result<Arc<OpenFile>> {
    if flags & c::O_DIRECTORY != 0 {
        return Err(Errno::EINVAL);
    }
    if walked.slash && matches!(walked.name, LastName::Name(_)) {
        return Err(Errno::EISDIR);
    }
    finish(names::create(walked, New::Regular, mode)?, flags)
}

/// O_TMPFILE: a file without a name in a directory's file system.
fn open_unnamed(dir: Location, flags: u32, mode: u32) -> Result<Arc<OpenFile>> {
    if flags & c::O_ACCMODE == c::O_RDONLY || flags & c::O_DIRECTORY == 0 {
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
    flags: u32,
) -> Result<Arc<OpenFile>> {
    let last = if flags & c::O_NOFOLLOW != 0 {
        Last::Keep
    } else {
        Last::Follow
    };
    let place = path::resolve(context, base, path, last)?;
    if flags & c::O_DIRECTORY != 0 && place.inode.node().kind != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let kept = c::O_PATH | c::O_DIRECTORY | c::O_NOFOLLOW;
    Ok(OpenFile::new(place, Arc::new(NoBytes), flags & kept))
}

fn finish(place: Location, flags: u32) -> Result<Arc<OpenFile>> {
    let ops = Inode::open(place.inode.clone(), flags)?;
    Ok(OpenFile::new(place, ops, flags))
}
