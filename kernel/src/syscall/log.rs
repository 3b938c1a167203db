//! syslog(2), which dmesg calls: the kernel's log.

use crate::base::errno::{Errno, Result};
use crate::base::klog;
use crate::fs::open::io::Sink;
use alloc::vec::Vec;

/// Actions, by their numbers in syslog(2).
const READ: u64 = 2;
const READ_ALL: u64 = 3;
const READ_CLEAR: u64 = 4;
const CONSOLE_LEVEL: u64 = 8;
const SIZE_UNREAD: u64 = 9;
const SIZE_BUFFER: u64 = 10;

/// syslog(2). The log cannot be cleared: what was cleared would be missing from a panic's report.
pub fn syslog(action: u64, at: u64, len: u64) -> Result<u64> {
    match action {
        READ_ALL | READ_CLEAR if len as i32 >= 0 => {
            let mut text = Vec::new();
            fallible::reserve(&mut text, klog::RING_BYTES.min(len as usize))?;
            klog::read_newest(len as usize, &mut |bytes| text.extend_from_slice(bytes));
            Ok(Sink::user(at, text.len() as u64)?.give(&text)? as u64)
        }
        READ | READ_ALL | READ_CLEAR => Err(Errno::EINVAL),
        CONSOLE_LEVEL if (1..=8).contains(&len) => {
            klog::set_console_level(len as u8);
            Ok(0)
        }
        SIZE_BUFFER => Ok(klog::RING_BYTES as u64),
        // Open, close, clear, console off and on.
        0 | 1 | 5..=7 | SIZE_UNREAD => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}
