//! Character devices, mem(4), random(4), tty(4): which number is which driver, and the nodes of
//! devtmpfs.

mod kmsg;
mod memory;
mod userfault;

use crate::base::errno::{Errno, Result};
use crate::fs::OpenFlags;
use crate::fs::kinds::ramfs;
use crate::fs::open::file::FileOps;
use crate::fs::tree::inode::{Device, Directory, FileKind, Inode, New};
use crate::fs::tree::mount::FileSystem;
use crate::fs::tree::quota::Quota;
use crate::fs::tty;
use alloc::sync::Arc;
use spin::Once;

/// The serial port's name and number on this machine.
#[cfg(target_arch = "x86_64")]
const SERIAL: (&str, Device) = ("ttyS0", Device(4, 64));
#[cfg(target_arch = "aarch64")]
const SERIAL: (&str, Device) = ("ttyAMA0", Device(204, 64));

/// The terminal's number and name: the serial port's.
pub const TERMINAL: Device = SERIAL.1;
/// See [`TERMINAL`].
pub const TERMINAL_NAME: &str = SERIAL.0;
/// /dev/tty: the process's own terminal.
const OWN_TERMINAL: Device = Device(5, 0);
/// /dev/userfaultfd.
const USERFAULT: Device = Device(10, 126);
/// /dev/console.
const CONSOLE: Device = Device(5, 1);

const NODES: [(&str, Device, u32); 11] = [
    ("null", Device(1, 3), 0o666),
    ("zero", Device(1, 5), 0o666),
    ("full", Device(1, 7), 0o666),
    ("random", Device(1, 8), 0o666),
    ("urandom", Device(1, 9), 0o666),
    ("kmsg", Device(1, 11), 0o644),
    ("tty", OWN_TERMINAL, 0o666),
    ("console", CONSOLE, 0o600),
    (SERIAL.0, SERIAL.1, 0o660),
    ("userfaultfd", USERFAULT, 0o600),
    // Programs that know only the one name, whatever the machine.
    ("tty0", Device(4, 0), 0o620),
];

/// Drivers by major number, for /proc/devices.
pub const MAJORS: [(u32, &str); 6] = [
    (1, "mem"),
    (4, "ttyS"),
    (5, "/dev/tty"),
    (5, "/dev/console"),
    (10, "misc"),
    (204, "ttyAMA"),
];

/// Opens a device by its number; ENXIO when there is none.
pub fn open(number: Device, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    match number {
        Device(1, 3) => Ok(Arc::new(memory::Null)),
        Device(1, 5) => Ok(Arc::new(memory::Zero)),
        Device(1, 7) => Ok(Arc::new(memory::Full)),
        Device(1, 8 | 9) => Ok(Arc::new(memory::Random)),
        Device(1, 11) => Ok(Arc::new(kmsg::Kmsg::new()?)),
        USERFAULT => Ok(Arc::new(userfault::Maker)),
        OWN_TERMINAL => tty::open_own(),
        CONSOLE | Device(4, 0) | TERMINAL => Ok(tty::open(!flags.contains(OpenFlags::NOCTTY))),
        _ => Err(Errno::ENXIO),
    }
}

/// Makes the nodes that are not there yet in a directory.
pub fn populate(dir: &Arc<dyn Inode>) -> Result {
    let directory = dir.directory().ok_or(Errno::ENOTDIR)?;
    for (name, number, mode) in NODES {
        if directory.lookup(name.as_bytes()).is_err() {
            let node = directory.make(New::Special(FileKind::Char, number), mode)?;
            enter(dir, directory, name, &node)?;
        }
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

/// devtmpfs: one file system, however often it is mounted.
pub fn devtmpfs() -> Result<Arc<FileSystem>> {
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
