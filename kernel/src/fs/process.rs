//! What the file layer asks of processes.

use crate::signal::{self, SigInfo};
use crate::task::{self, Resource};

/// RLIMIT_NOFILE of the running process.
pub fn open_files_limit() -> usize {
    let limit = task::current().process().limits().soft(Resource::OpenFiles);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// A write to a pipe that nobody reads.
pub fn broken_pipe() {
    let task = task::current();
    signal::send_task(&task, SigInfo::kernel(signal::SIGPIPE));
}
