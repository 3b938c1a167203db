//! Opening files for execve(2).

use crate::base::errno::{Errno, Result};
use crate::base::machine::Object;
use crate::fs::open::file::OpenFile;
use crate::fs::tree::context::FsContext;
use crate::fs::tree::inode::{FileKind, Location};
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::path::{self, Last};
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use mm::vma::MappedFile;

/// A regular file that may be run.
#[derive(Clone)]
pub struct ExecFile {
    /// Where it is.
    pub place: Location,
    /// Denies writes while a process runs this program (ETXTBSY).
    _running: Arc<Running>,
}

/// One more program runs from this file.
struct Running(Location);

impl Running {
    fn new(place: &Location) -> Running {
        place.inode.node().running.fetch_add(1, Ordering::Relaxed);
        Running(place.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.inode.node().running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ExecFile {
    fn new(place: Location) -> Result<ExecFile> {
        let node = place.inode.node();
        let noexec = place.mount.flags().contains(MountFlags::NOEXEC);
        if node.kind != FileKind::Regular
            || !node.permits(0o111)
            || noexec
            || place.inode.object().is_none()
        {
            return Err(Errno::EACCES);
        }
        let _running = Arc::new(Running::new(&place));
        Ok(ExecFile { place, _running })
    }
    /// Its pages.
    pub fn object(&self) -> &Arc<Object> {
        self.place
            .inode
            .object()
            .expect("checked when it was opened")
    }
    /// For /proc/PID/maps.
    pub fn mapped_file(&self) -> Arc<dyn MappedFile> {
        self.place.mapped()
    }
    /// Its path as it is now.
    pub fn path(&self) -> String {
        self.place.shown_path()
    }
}

/// Opens a program by its path; EACCES when it may not be run.
pub fn open_exec(context: &FsContext, path: &[u8]) -> Result<ExecFile> {
    ExecFile::new(path::resolve(context, context.cwd(), path, Last::Follow)?)
}

/// Opens a program by a path that starts at `base`; without `follow`, ELOOP when it leads to a
/// symbolic link.
pub fn open_exec_at(
    context: &FsContext,
    base: Location,
    path: &[u8],
    follow: bool,
) -> Result<ExecFile> {
    let last = if follow { Last::Follow } else { Last::Keep };
    let place = path::resolve(context, base, path, last)?;
    if place.inode.node().kind == FileKind::Symlink {
        return Err(Errno::ELOOP);
    }
    ExecFile::new(place)
}

/// An open file as a program (AT_EMPTY_PATH).
pub fn exec_of(file: &OpenFile) -> Result<ExecFile> {
    ExecFile::new(file.place.clone())
}
