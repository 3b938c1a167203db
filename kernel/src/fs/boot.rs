//! What boot makes of files: the root and what is unpacked into it, and what PID 1 starts with.

use crate::base::errno::Result;
use crate::fs::devices::zram;
use crate::fs::kinds::{devtmpfs, ramfs};
use crate::fs::open::fdtable::FdTable;
use crate::fs::open::file::OpenFile;
use crate::fs::open::flags::OpenFlags;
use crate::fs::tree::context::FsContext;
use crate::fs::tree::inode::{Mount, New};
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::path::{Last, resolve, walk};
use crate::fs::tree::quota::Quota;
use crate::fs::tree::{initramfs, mounts, names};
use crate::fs::tty;
use alloc::format;
use alloc::string::String;

/// Mounts the root and unpacks the archives into it; what is wrong with them is said in words.
pub fn init(archives: &[&[u8]]) -> core::result::Result<(), String> {
    let fs = ramfs::new("rootfs", 0o755, Quota::unlimited());
    let root = fs.root.clone();
    mounts::set_root(Mount::new(
        fs,
        root,
        String::from("none"),
        MountFlags::empty(),
    ));
    for archive in archives {
        initramfs::unpack(archive)?;
    }
    zram::start();
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
    devtmpfs::populate(&dev.inode)
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
