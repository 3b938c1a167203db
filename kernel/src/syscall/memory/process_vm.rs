//! process_vm_readv(2) and process_vm_writev(2): copies between the memory of two processes.

use super::other::ranges;
use crate::arch::pte::Format;
use crate::base::errno::{Errno, Result};
use crate::base::machine::Space;
use crate::base::user_ptr::UserSlice;
use crate::fs::open::io::{IoVec, Sink, Source};
use crate::process::task::{self, Pid, Task};
use crate::process::trace;
use alloc::vec::Vec;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;

/// The ranges of the other process, of which so many bytes are copied in order.
struct Remote {
    space: Space,
    ranges: Vec<IoVec>,
}

/// Who is copied from or to. ESRCH: no such process; EPERM: it is not the caller's to look into.
fn remote(task: &Task, pid: Pid, list: UserSlice<IoVec>, flags: u64) -> Result<Remote> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let ranges = ranges(list)?;
    let space = space_of(task, pid)?;
    Ok(Remote { space, ranges })
}

/// The memory of a process. ESRCH: there is none; EPERM: it is not the caller's to look into.
pub(super) fn space_of(task: &Task, pid: Pid) -> Result<Space> {
    let other = task::find_task(pid).ok_or(Errno::ESRCH)?;
    if !trace::may_access(task.process(), other.process()) {
        return Err(Errno::EPERM);
    }
    other.space.get().ok_or(Errno::ESRCH)
}

impl Remote {
    /// Calls `copy` with the address and the index range of each part of `len` bytes that follow
    /// the first `done`, until it copies less. How many it copied; EFAULT: none of the first part.
    fn each_part(
        &self,
        done: u64,
        len: usize,
        mut copy: impl FnMut(&Space, VirtAddr, core::ops::Range<usize>) -> usize,
    ) -> Result<usize> {
        let (mut copied, mut before) = (0, done);
        for [at, bytes] in self.ranges.iter().copied() {
            let skipped = before.min(bytes);
            before -= skipped;
            let n = (bytes - skipped).min((len - copied) as u64);
            let at = at.saturating_add(skipped);
            if n == 0 {
                continue;
            }
            let n = n.min(Format::USER_END.0.saturating_sub(at)) as usize;
            let some = copy(&self.space, VirtAddr(at), copied..copied + n);
            copied += some;
            if some < n || n == 0 {
                break;
            }
        }
        match copied {
            0 if len > 0 && self.left(done) => Err(Errno::EFAULT),
            n => Ok(n),
        }
    }

    /// Whether there are bytes after the first `done`.
    fn left(&self, done: u64) -> bool {
        let all = self.ranges.iter().map(|range| range[1]);
        all.fold(0, u64::saturating_add) > done
    }
}

/// process_vm_readv(2): the bytes that were copied before the first bad page. EFAULT: it is the
/// first of all.
pub fn process_vm_readv(
    task: &Task,
    pid: Pid,
    local: UserSlice<IoVec>,
    list: UserSlice<IoVec>,
    flags: u64,
) -> Result<u64> {
    let mut sink = Sink::user_list(local)?;
    let remote = remote(task, pid, list, flags)?;
    let n = sink.fill(|done, buffer| {
        let len = buffer.len();
        remote.each_part(done as u64, len, |space, at, part| {
            space.read(at, &mut buffer[part], false)
        })
    })?;
    Ok(n as u64)
}

/// process_vm_writev(2), as [`process_vm_readv`].
pub fn process_vm_writev(
    task: &Task,
    pid: Pid,
    local: UserSlice<IoVec>,
    list: UserSlice<IoVec>,
    flags: u64,
) -> Result<u64> {
    let mut source = Source::user_list(local)?;
    let remote = remote(task, pid, list, flags)?;
    let mut done = 0;
    let n = source.drain(|bytes| {
        let n = remote.each_part(done, bytes.len(), |space, at, part| {
            space.write(at, &bytes[part], false)
        })?;
        done += n as u64;
        Ok(n)
    })?;
    Ok(n as u64)
}
