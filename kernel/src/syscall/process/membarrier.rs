//! membarrier(2): a memory barrier on all CPUs that run threads, for programs whose quick side does
//! without one.

use crate::base::errno::{Errno, Result};
use crate::base::requests;
use crate::process::task::Task;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::membarrier_cmd as Command;

/// What there is: the others would need more than a barrier on the way to user mode.
const KNOWN: [Command; 5] = [
    Command::MEMBARRIER_CMD_GLOBAL,
    Command::MEMBARRIER_CMD_GLOBAL_EXPEDITED,
    Command::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
    Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
    Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
];

/// membarrier(2). EINVAL: a command or flags that are not known. EPERM: the process has not
/// registered for it.
pub fn membarrier(task: &Task, command: u32, flags: u32) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if command == Command::MEMBARRIER_CMD_QUERY as u32 {
        return Ok(KNOWN.iter().map(|known| *known as u64).sum());
    }
    let known = KNOWN.iter().find(|known| **known as u32 == command);
    let registered = &task.process().barriers;
    match known.ok_or(Errno::EINVAL)? {
        Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED => registered.store(true, Relaxed),
        // All CPUs take part anyhow.
        Command::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED => {}
        Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED if !registered.load(Relaxed) => {
            return Err(Errno::EPERM);
        }
        _ => requests::barrier(),
    }
    Ok(0)
}
