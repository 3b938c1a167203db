//! vmsplice(2).

use super::copy::SpliceFlags;
use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserSlice;
use crate::fs::Fd;
use crate::fs::kinds::pipe::End;
use crate::fs::open::io::{IoVec, Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use crate::process::task::Task;
use core::any::Any;
use linux_raw_sys::general as c;
use mm::addr::VirtAddr;
use mm::fault::Resolution;

/// Gives user pages to a pipe by reference, not by copy; from a pipe's reading end the bytes are
/// copied out. Waits unless SPLICE_F_NONBLOCK: the file's own O_NONBLOCK does not count here.
/// EBADF: no pipe.
pub fn vmsplice(task: &Task, fd: Fd, list: UserSlice<IoVec>, flags: SpliceFlags) -> Result<u64> {
    let nonblocking = flags.contains(SpliceFlags::NONBLOCK);
    let file = usable(task, fd)?;
    let any: &dyn Any = file.ops();
    let end = any.downcast_ref::<End>().ok_or(Errno::EBADF)?;
    if list.len > u64::from(c::UIO_MAXIOV) {
        return Err(Errno::EINVAL);
    }
    let n = if file.writable() {
        let space = task.process().space.get().ok_or(Errno::ESRCH)?;
        let mut source = Source::user_list(list)?;
        end.give(nonblocking, &mut source, |at| {
            space.pin(VirtAddr(at)).map_err(|why| match why {
                Resolution::NoMem => Errno::ENOMEM,
                _ => Errno::EFAULT,
            })
        })?
    } else {
        let at = At {
            position: 0,
            nonblocking,
        };
        end.read(at, &mut Sink::user_list(list)?)?
    };
    Ok(n as u64)
}
