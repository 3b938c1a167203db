//! Files: the tree and its file systems, open files, pipes, devices, the terminal.
//!
//! The way of a read: `syscall::files` finds the [`OpenFile`] in the [`FdTable`], which asks its
//! [`FileOps`](open::file::FileOps); the bytes go through a [`Sink`](open::io::Sink). The way of an
//! open: [`tree::path`] walks from a [`FsContext`], [`open`] makes or finds the file. Locks, in the
//! order of `ranks`: fd table, context, tree, mounts, directory, inode, pipe, terminal.

pub mod caller;
pub mod devices;
pub mod kinds;
pub mod open;
pub mod tree;
pub mod tty;

pub use open::exec::{ExecFile, exec_of, open_exec, open_exec_at};
pub use open::fd::{DirFd, Fd};
pub use open::fdtable::FdTable;
pub use open::file::OpenFile;
pub use open::flags::OpenFlags;
pub use tree::context::FsContext;

use crate::base::errno::Result;
use crate::fs::kinds::ramfs;
use crate::fs::tree::inode::New;
use crate::fs::tree::mount::{self, Mount, MountFlags};
use crate::fs::tree::path::{Last, resolve, walk};
use crate::fs::tree::quota::Quota;
use crate::fs::tree::{initramfs, names};
use alloc::format;
use alloc::string::String;

/// Mounts the root and unpacks the archives into it; what is wrong with them is said in words.
pub fn init(archives: &[&[u8]]) -> core::result::Result<(), String> {
    let fs = ramfs::new("rootfs", 0o755, Quota::unlimited());
    let root = fs.root.clone();
    mount::set_root(Mount::new(
        fs,
        root,
        String::from("none"),
        MountFlags::empty(),
    ));
    for archive in archives {
        initramfs::unpack(archive)?;
    }
    make_dev().map_err(|error| format!("cannot make /dev: {error:?}"))
}

/// Programs that mount nothing find the devices all the same.
fn make_dev() -> Result {
    let context = FsContext::new();
    let walked = walk(&context, context.root(), b"/dev", Last::Follow)?;
    let dev = match walked.found.clone() {
        Some(there) => there,
        None => names::create(&walked, New::Directory, 0o755)?,
    };
    devices::populate(&dev.inode)
}

/// The open files that PID 1 starts with: the console as 0, 1 and 2.
pub fn open_console() -> Result<FdTable> {
    let context = FsContext::new();
    let place = resolve(&context, context.root(), b"/dev/console", Last::Follow)?;
    let file = OpenFile::new(place, tty::open(false), OpenFlags::RDWR);
    let files = FdTable::new();
    for fd in 0..3 {
        files.install_initial(fd, file.clone());
    }
    Ok(files)
}
