//! devtmpfs: the nodes of /dev.

use crate::base::errno::{Errno, Result};
use crate::fs::devices::{CONSOLE, OWN_TERMINAL, TERMINAL, TERMINAL_NAME, USERFAULT, zram};
use crate::fs::kinds::ramfs;
use crate::fs::tree::inode::{Device, Directory, FileKind, FileSystem, Inode, New};
use crate::fs::tree::quota::Quota;
use alloc::sync::Arc;
use spin::Once;

const NODES: [(&str, Device, u32); 11] = [
    ("null", Device(1, 3), 0o666),
    ("zero", Device(1, 5), 0o666),
    ("full", Device(1, 7), 0o666),
    ("random", Device(1, 8), 0o666),
    ("urandom", Device(1, 9), 0o666),
    ("kmsg", Device(1, 11), 0o644),
    ("tty", OWN_TERMINAL, 0o666),
    ("console", CONSOLE, 0o600),
    (TERMINAL_NAME, TERMINAL, 0o660),
    ("userfaultfd", USERFAULT, 0o600),
    // Programs that know only the one name, whatever the machine.
    ("tty0", Device(4, 0), 0o620),
];

/// Makes the nodes that are not there yet in a directory.
pub fn populate(dir: &Arc<dyn Inode>) -> Result {
    let directory = dir.directory().ok_or(Errno::ENOTDIR)?;
    for (name, number, mode) in NODES {
        if directory.lookup(name.as_bytes()).is_err() {
            let node = directory.make(New::Special(FileKind::Char, number), mode)?;
            enter(dir, directory, name, &node)?;
        }
    }
    if zram::exists() && directory.lookup(b"zram0").is_err() {
        let node = directory.make(New::Special(FileKind::Block, zram::NUMBER), 0o660)?;
        enter(dir, directory, "zram0", &node)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        if directory.lookup(name.as_bytes()).is_err() {
            let link = directory.make(New::Symlink(target.into()), 0o777)?;
            enter(dir, directory, name, &link)?;
        }
    }
    Ok(())
}

fn enter(
    dir: &Arc<dyn Inode>,
    directory: &dyn Directory,
    name: &str,
    inode: &Arc<dyn Inode>,
) -> Result {
    directory.insert(name.as_bytes(), inode)?;
    inode.node().set_home(dir, name.as_bytes());
    Ok(())
}

/// One file system, however often it is mounted.
pub fn file_system() -> Result<Arc<FileSystem>> {
    static INSTANCE: Once<Arc<FileSystem>> = Once::new();
    INSTANCE
        .try_call_once(|| {
            let fs = ramfs::new("devtmpfs", 0o755, Quota::unlimited());
            populate(&fs.root)?;
            for name in ["shm", "pts"] {
                let directory = fs.root.directory().ok_or(Errno::ENOTDIR)?;
                let dir = directory.make(New::Directory, 0o1777)?;
                dir.node().change(|a| a.links = 2);
                fs.root.node().change(|a| a.links += 1);
                enter(&fs.root, directory, name, &dir)?;
            }
            Ok(fs)
        })
        .cloned()
}
