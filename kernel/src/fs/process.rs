//! What the file layer asks of processes.

use crate::errno::{Errno, Result};
use crate::signal::{self, SigInfo};
use crate::task::{self, Resource};

/// The highest RLIMIT_NOFILE that counts (/proc/sys/fs/nr_open): a table is one piece of the kernel's heap.
pub const MAX_OPEN_FILES: u64 = 65536;

/// RLIMIT_NOFILE of the running process.
pub fn open_files_limit() -> usize {
    let limit = task::current().process().limits().soft(Resource::OpenFiles);
    limit.min(MAX_OPEN_FILES) as usize
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
