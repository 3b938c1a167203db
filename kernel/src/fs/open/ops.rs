//! What an open file can do: each kind of file answers these calls.

use crate::base::errno::{Errno, Result};
use crate::base::machine::Hw;
use crate::fs::kinds::text::Text;
use crate::fs::open::io::{Sink, Source};
use crate::sched::wait::WaitQueue;
use alloc::vec::Vec;
use core::any::Any;
use mm::vma::Backing;

bitflags::bitflags! {
    /// Events of poll(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Ready: u16 {
        /// POLLIN and POLLRDNORM.
        const IN = 0x41;
        /// POLLPRI.
        const PRI = 0x2;
        /// POLLOUT and POLLWRNORM.
        const OUT = 0x104;
        /// POLLERR.
        const ERR = 0x8;
        /// POLLHUP.
        const HUP = 0x10;
        /// POLLNVAL.
        const NVAL = 0x20;
        /// POLLRDHUP.
        const RDHUP = 0x2000;
    }
}

/// Position and mode of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Where in the file; streams ignore it.
    pub position: u64,
    /// O_NONBLOCK.
    pub nonblocking: bool,
}

/// How many queues [`FileOps::queues`] adds at most.
pub const MOST_QUEUES: usize = 2;

/// What an open file can do. The defaults refuse.
pub trait FileOps: Any + Send + Sync {
    /// Reads; 0 at the end.
    fn read(&self, _at: At, _sink: &mut Sink<'_>) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Writes.
    fn write(&self, _at: At, _source: &mut Source<'_>) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Whether it has no positions (pipes, terminals): lseek and pread give ESPIPE.
    fn is_stream(&self) -> bool {
        false
    }
    /// What a call would not wait for.
    fn poll(&self) -> Ready {
        Ready::IN | Ready::OUT
    }
    /// Where to wait for [`Self::poll`] to change; none when it never does. There is room for
    /// [`MOST_QUEUES`].
    fn queues<'a>(&'a self, _queues: &mut Vec<&'a WaitQueue>) {}
    /// ioctl(2).
    fn ioctl(&self, _command: u32, _argument: u64) -> Result<u64> {
        Err(Errno::ENOTTY)
    }
    /// What mmap maps; `shared` is MAP_SHARED. The file of an object is the caller's to name.
    fn mmap(&self, _shared: bool, _offset: u64) -> Result<Backing<Hw>> {
        Err(Errno::ENODEV)
    }
    /// The lines after the common ones in /proc/PID/fdinfo/N.
    fn describe(&self, _out: &mut Text) {}
}

/// An open directory has no bytes of its own: only getdents64 reads it.
pub struct NoBytes;

impl FileOps for NoBytes {}
