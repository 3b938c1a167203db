//! eventfd(2): a counter as a file.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::kinds::pseudo::Text;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::sync::Lock;

/// The largest count.
const MOST: u64 = u64::MAX - 1;
/// Bytes of a transfer.
const WORD: usize = 8;

/// A counter that writes add to and reads take from.
pub struct EventFd {
    count: Lock<u64, { ranks::PIPE }>,
    /// Each read takes one, not all.
    semaphore: bool,
    /// It is not 0 any more.
    readable: WaitQueue,
    /// There is room again.
    writable: WaitQueue,
}

impl EventFd {
    /// A counter with a first count.
    pub fn new(count: u32, semaphore: bool) -> Arc<EventFd> {
        Arc::new(EventFd {
            count: Lock::new(count.into()),
            semaphore,
            readable: WaitQueue::new(),
            writable: WaitQueue::new(),
        })
    }

    fn take(&self) -> Option<u64> {
        let mut count = self.count.lock();
        let taken = match self.semaphore {
            true => 1.min(*count),
            false => *count,
        };
        *count -= taken;
        (taken > 0).then_some(taken)
    }

    fn add(&self, more: u64) -> Option<()> {
        let mut count = self.count.lock();
        *count = count.checked_add(more).filter(|sum| *sum <= MOST)?;
        Some(())
    }
}

impl FileOps for EventFd {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if sink.left() < WORD {
            return Err(Errno::EINVAL);
        }
        let taken = self.readable.wait_unless(at.nonblocking, || self.take())?;
        self.writable.wake_for(Ready::OUT.bits());
        // As on Linux, what memory refuses is lost.
        match sink.give(&taken.to_ne_bytes())? {
            WORD => Ok(WORD),
            _ => Err(Errno::EFAULT),
        }
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let mut bytes = [0; WORD];
        if source.left() < WORD {
            return Err(Errno::EINVAL);
        }
        if source.take(&mut bytes)? < WORD {
            return Err(Errno::EFAULT);
        }
        let more = u64::from_ne_bytes(bytes);
        if more > MOST {
            return Err(Errno::EINVAL);
        }
        self.writable
            .wait_unless(at.nonblocking, || self.add(more))?;
        self.readable.wake_for(Ready::IN.bits());
        Ok(WORD)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let count = *self.count.lock();
        let mut ready = Ready::empty();
        ready.set(Ready::IN, count > 0);
        ready.set(Ready::OUT, count < MOST);
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.readable);
        queues.push(&self.writable);
    }

    fn describe(&self, out: &mut Text) {
        let count = *self.count.lock();
        out.put(format_args!("eventfd-count: {count:16x}\n"));
    }
}
