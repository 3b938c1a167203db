//! Devices, mem(4), random(4), tty(4), and the one block device: which number is which driver.

mod kmsg;
mod memory;
mod userfault;
pub mod zram;

use crate::base::errno::{Errno, Result};
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::Device;
use crate::fs::tty;
use alloc::sync::Arc;

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
pub const OWN_TERMINAL: Device = Device(5, 0);
/// /dev/userfaultfd.
pub const USERFAULT: Device = Device(10, 126);
/// /dev/console.
pub const CONSOLE: Device = Device(5, 1);

/// Drivers by major number, for /proc/devices.
pub const MAJORS: [(u32, &str); 6] = [
    (1, "mem"),
    (4, "ttyS"),
    (5, "/dev/tty"),
    (5, "/dev/console"),
    (10, "misc"),
    (204, "ttyAMA"),
];

/// Opens a character device by its number; ENXIO when there is none.
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

/// Opens a block device by its number; ENXIO when there is none.
pub fn open_block(number: Device, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    match number {
        zram::NUMBER if zram::exists() => Ok(Arc::new(zram::Disk::open(flags)?)),
        _ => Err(Errno::ENXIO),
    }
}
