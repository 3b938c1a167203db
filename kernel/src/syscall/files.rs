//! STUB of fs: calls on files.
use crate::errno::Result;
use crate::task::Task;
use alloc::sync::Arc;
use syscalls::Sysno;

/// `None`: not a call on files.
pub fn call(_task: &Arc<Task>, _sysno: Sysno, _args: &[u64; 6]) -> Option<Result<u64>> {
    None
}
