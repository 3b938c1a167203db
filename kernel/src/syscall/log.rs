//! syslog(2), which dmesg calls: the kernel's log.

use crate::base::errno::{Errno, Result};
use crate::base::klog;
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::open::io::Sink;
use alloc::vec::Vec;

/// Actions, by their numbers in syslog(2).
const READ: u32 = 2;
const READ_ALL: u32 = 3;
const READ_CLEAR: u32 = 4;
const CONSOLE_LEVEL: u32 = 8;
const SIZE_UNREAD: u32 = 9;
const SIZE_BUFFER: u32 = 10;

/// syslog(2). The log cannot be cleared: what was cleared would be missing from a panic's report.
pub fn syslog(action: u32, at: UserPtr<u8>, len: i32) -> Result<u64> {
    match action {
        READ_ALL | READ_CLEAR if len >= 0 => {
            let mut text = Vec::new();
            fallible::reserve(&mut text, klog::RING_BYTES.min(len as usize))?;
            klog::read_newest(len as usize, &mut |bytes| text.extend_from_slice(bytes));
            let into = UserBytes {
                first: at,
                len: text.len() as u64,
            };
            Ok(Sink::user(into)?.give(&text)? as u64)
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
