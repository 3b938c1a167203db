//! Pipes and FIFOs, pipe(7).

use crate::base::errno::{Errno, Result};
use crate::base::machine::Hw;
use crate::base::ranks;
use crate::base::uaccess;
use crate::fs::caller;
use crate::fs::kinds::piece::{Contents, Given};
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::fs::room;
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use linux_raw_sys::ioctl::FIONREAD;
use mm::addr::PAGE_SIZE;
use mm::fault::Pin;
use mm::sync::Lock;

/// A pipe's capacity when it is made.
const DEFAULT_CAPACITY: usize = 64 << 10;
/// /proc/sys/fs/pipe-max-size.
pub const MAX_CAPACITY: usize = 1 << 20;
/// Writes up to this size are done in one piece or not at all.
const ATOMIC: usize = c::PIPE_BUF as usize;

/// A pipe: bytes between readers and writers.
pub struct Pipe {
    state: Lock<PipeState, { ranks::PIPE }>,
    /// Bytes have come, or the last writer has gone.
    readable: WaitQueue,
    /// There is room, or the last reader has gone.
    writable: WaitQueue,
}

struct PipeState {
    contents: Contents,
    capacity: usize,
    readers: usize,
    writers: usize,
    /// How often it was opened for reading and for writing: an opener waits for the other side's
    /// next one.
    opened: [u64; 2],
}

impl PipeState {
    fn room(&self) -> usize {
        self.capacity - self.contents.taken().min(self.capacity)
    }
}

impl Pipe {
    /// An empty pipe that is not open.
    pub fn new() -> Arc<Pipe> {
        let state = PipeState {
            contents: Contents::default(),
            capacity: DEFAULT_CAPACITY,
            readers: 0,
            writers: 0,
            opened: [0; 2],
        };
        Arc::new(Pipe {
            state: Lock::new(state),
            readable: WaitQueue::new(),
            writable: WaitQueue::new(),
        })
    }

    /// Takes bytes that are in the pipe, at most `into.len()` bytes; `None`: wait, `Some(0)`: no
    /// writers any more.
    fn take(&self, into: &mut [u8]) -> Option<usize> {
        let mut state = self.state.lock();
        if state.contents.is_empty() {
            return (state.writers == 0).then_some(0);
        }
        Some(state.contents.take(into))
    }

    /// Puts back bytes that could not be copied to the reader's memory.
    fn put_back(&self, bytes: &[u8]) {
        self.state.lock().contents.put_back(bytes);
    }

    /// Calls `add` when `room` bytes of the capacity are free; `None`: wait for room, EPIPE: no
    /// readers any more.
    fn add(&self, room: usize, add: impl FnOnce(&mut Contents) -> Result) -> Option<Result> {
        let mut state = self.state.lock();
        if state.readers == 0 {
            return Some(Err(Errno::EPIPE));
        }
        (state.room() >= room).then(|| add(&mut state.contents))
    }

    /// Adds all of `bytes`.
    fn put(&self, bytes: &[u8]) -> Option<Result> {
        self.add(bytes.len(), |contents| contents.put(bytes))
    }

    /// F_SETPIPE_SZ: rounded up to a power of two of pages; EBUSY when more than that is in it,
    /// EPERM above the limit.
    pub fn set_capacity(&self, wanted: u64) -> Result<usize> {
        if wanted > MAX_CAPACITY as u64 {
            return Err(Errno::EPERM);
        }
        let capacity = (wanted as usize).next_power_of_two().max(4096);
        let mut state = self.state.lock();
        if state.contents.taken() > capacity {
            return Err(Errno::EBUSY);
        }
        state.capacity = capacity;
        drop(state);
        self.writable.wake_all();
        Ok(capacity)
    }

    /// F_GETPIPE_SZ.
    pub fn capacity(&self) -> usize {
        self.state.lock().capacity
    }

    /// Whether it is open for reading.
    pub fn has_readers(&self) -> bool {
        self.state.lock().readers > 0
    }

    /// How often it was opened for reading and for writing.
    pub fn opened(&self) -> [u64; 2] {
        self.state.lock().opened
    }

    /// Waits until a reader (`read`) has a writer or the reverse, or has had one since
    /// [`Self::opened`] said `before`.
    pub fn meet(&self, read: bool, before: [u64; 2]) -> Result {
        let met = || {
            let state = self.state.lock();
            let (others, side) = if read {
                (state.writers, 1)
            } else {
                (state.readers, 0)
            };
            (others > 0 || state.opened[side] != before[side]).then_some(())
        };
        let queue = if read { &self.readable } else { &self.writable };
        queue.wait(None, met).map(drop)
    }

    /// Opens one side or both.
    pub fn open(self: &Arc<Self>, read: bool, write: bool) -> Arc<End> {
        let mut state = self.state.lock();
        state.readers += usize::from(read);
        state.writers += usize::from(write);
        state.opened[0] += u64::from(read);
        state.opened[1] += u64::from(write);
        drop(state);
        self.wake_both();
        Arc::new(End {
            pipe: self.clone(),
            read,
            write,
        })
    }

    fn wake_both(&self) {
        self.readable.wake_all();
        self.writable.wake_all();
    }
}

/// One side of a pipe, or both (a FIFO opened with O_RDWR).
pub struct End {
    /// The pipe.
    pub pipe: Arc<Pipe>,
    read: bool,
    write: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.pipe.state.lock();
        state.readers -= usize::from(self.read);
        state.writers -= usize::from(self.write);
        if state.readers + state.writers == 0 {
            state.contents = Contents::default();
        }
        drop(state);
        self.pipe.wake_both();
    }
}

impl End {
    /// vmsplice(2) into the pipe: takes the pages that `source` names, made by `pin`, until it is
    /// full; waits only before the first. How many bytes that were.
    pub fn give(
        &self,
        nonblocking: bool,
        source: &mut Source<'_>,
        pin: impl Fn(u64) -> Result<Pin<Hw>>,
    ) -> Result<usize> {
        let pipe = &self.pipe;
        let add = |given: &mut Option<Given>| {
            pipe.add(PAGE_SIZE as usize, |contents| {
                given.take().map_or(Ok(()), |given| contents.give(given))
            })
        };
        let result = source.each_piece(|at, done, len| {
            let start = (at % PAGE_SIZE) as usize;
            let pin = pin(at)?;
            let mut given = Some(Given { pin, start, len });
            match add(&mut given) {
                Some(result) => result?,
                None if done > 0 || nonblocking => return Err(Errno::EAGAIN),
                None => pipe
                    .writable
                    .wait(None, || add(&mut given))?
                    .unwrap_or(Ok(()))?,
            }
            pipe.readable.wake_all();
            Ok(())
        });
        if result == Err(Errno::EPIPE) {
            caller::broken_pipe();
        }
        result
    }
}

impl FileOps for End {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if sink.left() == 0 {
            return Ok(0);
        }
        let pipe = &self.pipe;
        let n = sink.receive(
            |buffer, first| {
                let taken = match pipe.take(buffer) {
                    Some(n) => n,
                    None if !first => 0,
                    None if at.nonblocking => return Err(Errno::EAGAIN),
                    None => pipe.readable.wait(None, || pipe.take(buffer))?.unwrap_or(0),
                };
                if taken > 0 {
                    pipe.writable.wake_all();
                }
                Ok(taken)
            },
            |rest| pipe.put_back(rest),
        )?;
        Ok(n)
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let pipe = &self.pipe;
        let result = source.drain_pieces(ATOMIC, |bytes| {
            room::insist(|| match pipe.put(bytes) {
                Some(result) => result,
                None if at.nonblocking => Err(Errno::EAGAIN),
                None => pipe
                    .writable
                    .wait(None, || pipe.put(bytes))?
                    .unwrap_or(Ok(())),
            })?;
            pipe.readable.wake_all();
            Ok(())
        });
        if result == Err(Errno::EPIPE) {
            caller::broken_pipe();
        }
        result
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let state = self.pipe.state.lock();
        let mut ready = Ready::empty();
        if self.read {
            ready.set(Ready::IN, !state.contents.is_empty());
            ready.set(Ready::HUP, state.writers == 0 && state.opened[1] > 0);
        }
        if self.write {
            ready.set(Ready::OUT, state.room() >= ATOMIC);
            ready.set(Ready::ERR, state.readers == 0);
        }
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        if self.read {
            queues.push(&self.pipe.readable);
        }
        if self.write {
            queues.push(&self.pipe.writable);
        }
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            FIONREAD => {
                let len = self.pipe.state.lock().contents.len() as i32;
                uaccess::write(argument, &len)?;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}
