//! Files: the tree and its file systems, open files, pipes, devices, the terminal.
//!
//! The way of a read: `syscall::file` finds the [`OpenFile`] in the [`FdTable`], which asks its [`file::FileOps`]; the
//! bytes go through an [`io::Sink`]. The way of an open: `path` walks from a [`FsContext`], `open` makes or finds the
//! file. Locks, in the order of `ranks`: fd table, context, tree, mounts, directory, inode, pipe, terminal.

pub mod anonymous;
pub mod caller;
mod climbed;
pub mod clock;
mod context;
pub mod devices;
mod exec;
mod fdslots;
mod fdtable;
pub mod fifo;
pub mod file;
pub mod flock;
mod initramfs;
pub mod inode;
pub mod io;
pub mod mount;
mod mounts;
pub mod names;
mod node;
pub mod open;
pub mod path;
mod piece;
pub mod pipe;
mod place;
pub mod pseudo;
mod quota;
pub mod ramfile;
mod ramfs;
pub mod records;
pub mod socket;
mod text;
pub mod tree;
pub mod tty;
pub mod types;

pub use context::FsContext;
pub use exec::{ExecFile, exec_of, open_exec, open_exec_at};
pub use fdtable::FdTable;
pub use file::OpenFile;

use crate::base::errno::Result;
use crate::fs::mount::Mount;
use crate::fs::path::{Last, resolve, walk};
use crate::fs::quota::Quota;
use alloc::format;
use alloc::string::String;
use linux_raw_sys::general as c;

/// Mounts the root and unpacks the archives into it; what is wrong with them is said in words.
pub fn init(archives: &[&[u8]]) -> core::result::Result<(), String> {
    let fs = ramfs::new("rootfs", 0o755, Quota::unlimited());
    let root = fs.root.clone();
    mount::set_root(Mount::new(fs, root, String::from("none"), 0));
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
        None => names::create(&walked, inode::New::Directory, 0o755)?,
    };
    devices::populate(&dev.inode)
}

/// The open files that PID 1 starts with: the console as 0, 1 and 2.
pub fn open_console() -> Result<FdTable> {
    let context = FsContext::new();
    let place = resolve(&context, context.root(), b"/dev/console", Last::Follow)?;
    let file = OpenFile::new(place, tty::open(false), c::O_RDWR);
    let files = FdTable::new();
    for fd in 0..3 {
        files.install_initial(fd, file.clone());
    }
    Ok(files)
}
