//! /dev/userfaultfd: who may open it may have userfaultfds for faults in system calls, too.

use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::fs::caller::Caller;
use crate::fs::open::ops::FileOps;

/// USERFAULTFD_IOC_NEW.
const NEW: u32 = 0xaa00;

/// The open device.
pub struct Maker;

impl FileOps for Maker {
    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            NEW => Above::userfaultfd(argument),
            _ => Err(Errno::EINVAL),
        }
    }
}
