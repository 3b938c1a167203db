//! What the file layer asks of processes.

use crate::errno::{Errno, Result};
use crate::signal::{self, SigInfo};
use crate::task::{self, Resource};

/// RLIMIT_NOFILE of the running process.
pub fn open_files_limit() -> usize {
    let limit = task::current().process().limits().soft(Resource::OpenFiles);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// RLIMIT_FSIZE for a write at `position`: how many of `len` bytes it leaves; SIGXFSZ and EFBIG when none.
pub fn within_file_size(position: u64, len: usize) -> Result<usize> {
    // The kernel's own writes, at boot, have no process.
    let Some(task) = crate::sched::current() else {
        return Ok(len);
    };
    let limit = task.process().limits().soft(Resource::FileSize);
    if position >= limit && len > 0 {
        signal::send_task(&task, SigInfo::kernel(signal::SIGXFSZ));
        return Err(Errno::EFBIG);
    }
    Ok(usize::try_from(limit - position.min(limit)).map_or(len, |left| left.min(len)))
}

/// A write to a pipe that nobody reads.
pub fn broken_pipe() {
    let task = task::current();
    signal::send_task(&task, SigInfo::kernel(signal::SIGPIPE));
}
