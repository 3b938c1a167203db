//! pidfd_open(2): a process as an open file, readable when it has ended. The file layer gives it its shape.

use super::{Process, Task};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;

/// STUB until the file layer is there.
pub fn open_pidfd(_task: &Task, _process: Arc<Process>, _flags: u32) -> Result<i32> {
    Err(Errno::ENOSYS)
}

/// STUB until the file layer is there.
pub fn pidfd_process(_task: &Task, _fd: i32) -> Result<Arc<Process>> {
    Err(Errno::EBADF)
}
