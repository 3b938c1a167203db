//! The processes beside the one that owns the table: one that writes it out, and one that takes
//! what is written.
use crate::CLOCK;
use crate::store::{Store, WORDS};
use crate::sum::Sum;
use userland::measuring::{Clock, ends_well};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, file};

/// What is written at once.
const BLOCK: usize = 64 << 10;

/// A child that does something and ends, and what the fork call took.
fn child(clock: &Clock, work: impl FnOnce() -> Result<()>) -> Result<(i32, u64)> {
    let (forked, time) = clock.time(proc::fork);
    match forked? {
        Fork::Parent(pid) => Ok((pid, time)),
        Fork::Child => {
            let done = work();
            if let Err(error) = &done {
                eprintln!("snapshot: a child: {error}");
            }
            proc::exit_now(i32::from(done.is_err()))
        }
    }
}

/// Reads until the buffer is full or there is no more: how many bytes.
fn fill(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file::read(fd, &mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

/// The sum of all that a descriptor gives, which goes into another one, too, if there is one.
fn take(from: i32, copy: Option<i32>) -> Result<Sum> {
    let (mut sum, mut block) = (Sum::default(), vec![0; BLOCK]);
    loop {
        let n = fill(from, &mut block)?;
        if n == 0 {
            return Ok(sum);
        }
        sum.add_bytes(&block[..n]);
        copy.map_or(Ok(()), |copy| file::write_all(copy, &block[..n]))?;
    }
}

/// Takes what is written, as a disk or another machine would: a process that keeps the sum of it.
pub struct Sink {
    pid: i32,
    input: i32,
    sum: i32,
}

impl Sink {
    /// To be started before there is a table, so that it has no page of it. With a path it writes a
    /// file, and the sum is what is read of that.
    pub fn start(path: Option<&str>) -> Result<Sink> {
        let (reader, input) = file::pipe(libc::O_CLOEXEC)?;
        let (sum, writer) = file::pipe(libc::O_CLOEXEC)?;
        let (pid, _) = child(&Clock::new(CLOCK), || {
            file::close(input)?;
            let taken = match path {
                None => take(reader, None)?,
                Some(path) => {
                    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
                    let copy = file::open(path, flags, 0o600)?;
                    take(reader, Some(copy))?;
                    file::lseek(copy, 0, libc::SEEK_SET)?;
                    take(copy, None)?
                }
            };
            file::write_all(writer, &taken.0.to_ne_bytes())
        })?;
        file::close(reader)?;
        file::close(writer)?;
        Ok(Sink { pid, input, sum })
    }

    /// Waits until the saver is done: the sum of what it wrote.
    pub fn finish(self) -> Result<Sum> {
        let mut bytes = [0; 8];
        let n = fill(self.sum, &mut bytes)?;
        file::close(self.sum)?;
        ends_well(self.pid)?;
        if n == bytes.len() {
            Ok(Sum(u64::from_ne_bytes(bytes)))
        } else {
            Err(Errno(libc::EIO))
        }
    }
}

/// The child of a fork that has the table as it was then, and writes it out.
pub struct Saver {
    pid: i32,
    go: i32,
    /// Nanoseconds of the fork call.
    forked: u64,
}

impl Saver {
    /// Forks. The child ends on a message, not before.
    pub fn start(store: &Store, sink: &Sink, clock: &Clock) -> Result<Saver> {
        let (told, go) = file::pipe(libc::O_CLOEXEC)?;
        let (pid, forked) = child(clock, || {
            file::close(go)?;
            save(store, sink.input)?;
            file::close(sink.input)?;
            file::read(told, &mut [0]).map(|_| ())
        })?;
        file::close(told)?;
        file::close(sink.input)?;
        Ok(Saver { pid, go, forked })
    }

    /// Lets it end: what the fork call took.
    pub fn finish(self) -> Result<u64> {
        file::close(self.go)?;
        ends_well(self.pid)?;
        Ok(self.forked)
    }
}

/// Writes each key and its value to a descriptor.
fn save(store: &Store, to: i32) -> Result<()> {
    let mut block = Vec::with_capacity(BLOCK);
    store.each(|words: [u64; WORDS]| {
        words
            .iter()
            .for_each(|word| block.extend_from_slice(&word.to_le_bytes()));
        if block.len() == BLOCK {
            file::write_all(to, &block)?;
            block.clear();
        }
        Ok(())
    })?;
    file::write_all(to, &block)
}
