//! read, write and their relatives.

use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::Fd;
use crate::fs::OpenFile;
use crate::fs::kinds::ramfile::MAX_SIZE;
use crate::fs::open::io::{MAX_TRANSFER, Sink, Source};
use crate::fs::tree::inode::Kind;
use crate::process::task::Task;
use crate::sched;
use linux_raw_sys::general as c;

/// Copies between files go in pieces of this size.
const PIECE: usize = 16 << 10;

/// read(2).
pub fn read(task: &Task, fd: Fd, at: u64, len: u64) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.read(&mut Sink::user(at, len)?))
}

/// write(2).
pub fn write(task: &Task, fd: Fd, at: u64, len: u64) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.write(&mut Source::user(at, len)?))
}

/// readv(2).
pub fn readv(task: &Task, fd: Fd, list: u64, count: u64) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.read(&mut Sink::user_list(list, count)?))
}

/// writev(2).
pub fn writev(task: &Task, fd: Fd, list: u64, count: u64) -> Result<u64> {
    let file = usable(task, fd)?;
    done(file.write(&mut Source::user_list(list, count)?))
}

/// pread(2).
pub fn pread(task: &Task, fd: Fd, at: u64, len: u64, position: u64) -> Result<u64> {
    let file = positioned(task, fd, position)?;
    done(file.read_at(position, &mut Sink::user(at, len)?))
}

/// pwrite(2).
pub fn pwrite(task: &Task, fd: Fd, at: u64, len: u64, position: u64) -> Result<u64> {
    let file = positioned(task, fd, position)?;
    done(write_at(&file, position, &mut Source::user(at, len)?))
}

/// preadv(2), preadv2(2): position -1 means the file's own.
pub fn preadv(
    task: &Task,
    fd: Fd,
    list: u64,
    count: u64,
    position: u64,
    flags: u64,
) -> Result<u64> {
    known_rwf(flags)?;
    if position == u64::MAX {
        return readv(task, fd, list, count);
    }
    let file = positioned(task, fd, position)?;
    done(file.read_at(position, &mut Sink::user_list(list, count)?))
}

/// pwritev(2), pwritev2(2).
pub fn pwritev(
    task: &Task,
    fd: Fd,
    list: u64,
    count: u64,
    position: u64,
    flags: u64,
) -> Result<u64> {
    known_rwf(flags)?;
    if position == u64::MAX {
        return writev(task, fd, list, count);
    }
    let file = positioned(task, fd, position)?;
    done(write_at(
        &file,
        position,
        &mut Source::user_list(list, count)?,
    ))
}

/// RWF_HIPRI, RWF_DSYNC and RWF_SYNC ask for nothing that memory does not do anyway.
fn known_rwf(flags: u64) -> Result {
    if flags & !7 == 0 {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

fn done(result: Result<usize>) -> Result<u64> {
    result.map(|n| n as u64)
}

fn positioned(task: &Task, fd: Fd, position: u64) -> Result<alloc::sync::Arc<OpenFile>> {
    let file = usable(task, fd)?;
    if position > MAX_SIZE {
        return Err(Errno::EINVAL);
    }
    if file.ops().is_stream() {
        return Err(Errno::ESPIPE);
    }
    Ok(file)
}

/// As Linux does, a file opened with O_APPEND is written at its end whatever the position.
fn write_at(file: &OpenFile, position: u64, source: &mut Source<'_>) -> Result<usize> {
    let append = file.flags() & c::O_APPEND != 0;
    file.write_at(
        if append {
            file.place.inode.size()
        } else {
            position
        },
        source,
    )
}

/// lseek(2).
pub fn lseek(task: &Task, fd: Fd, offset: i64, whence: u64) -> Result<u64> {
    let file = usable(task, fd)?;
    if file.ops().is_stream() {
        return Err(Errno::ESPIPE);
    }
    let size = file.place.inode.size() as i64;
    let target = match whence as u32 {
        c::SEEK_SET => Some(offset),
        c::SEEK_CUR => (file.position() as i64).checked_add(offset),
        c::SEEK_END => size.checked_add(offset),
        // Files are taken to have no holes, as lseek(2) allows.
        c::SEEK_DATA | c::SEEK_HOLE if offset < 0 || offset >= size => return Err(Errno::ENXIO),
        c::SEEK_DATA => Some(offset),
        c::SEEK_HOLE => Some(size),
        _ => return Err(Errno::EINVAL),
    };
    if file.place.inode.node().kind == Kind::Char {
        return Ok(0);
    }
    let target = target.ok_or(Errno::EOVERFLOW)?;
    let target = u64::try_from(target).map_err(|_| Errno::EINVAL)?;
    file.set_position(target);
    Ok(target)
}

/// Where one side of a copy reads or writes: at a position of the caller's, or at the file's own.
enum Place {
    Own,
    At(u64, u64),
}

impl Place {
    /// From a pointer argument that may be null.
    fn read(file: &OpenFile, pointer: u64) -> Result<Place> {
        if pointer == 0 {
            return Ok(Place::Own);
        }
        if file.ops().is_stream() {
            return Err(Errno::ESPIPE);
        }
        let position: u64 = uaccess::read(pointer)?;
        if position > MAX_SIZE {
            Err(Errno::EINVAL)
        } else {
            Ok(Place::At(pointer, position))
        }
    }
    fn store(&self) -> Result {
        match self {
            Place::Own => Ok(()),
            Place::At(pointer, position) => uaccess::write(*pointer, position),
        }
    }
    fn read_from(&mut self, file: &OpenFile, bytes: &mut [u8]) -> Result<usize> {
        let mut sink = Sink::kernel(bytes);
        match self {
            Place::Own => file.read(&mut sink),
            Place::At(_, position) => {
                let n = file.read_at(*position, &mut sink)?;
                *position += n as u64;
                Ok(n)
            }
        }
    }
    fn write_to(&mut self, file: &OpenFile, bytes: &[u8]) -> Result<usize> {
        let mut source = Source::kernel(bytes);
        match self {
            Place::Own => file.write(&mut source),
            Place::At(_, position) => {
                let n = file.write_at(*position, &mut source)?;
                *position += n as u64;
                Ok(n)
            }
        }
    }
}

/// Copies up to `len` bytes; stops at the end, after what the target does not take, and when the
/// thread is to end.
fn copy(from: (&OpenFile, &mut Place), to: (&OpenFile, &mut Place), len: u64) -> Result<u64> {
    let len = len.min(MAX_TRANSFER as u64);
    let mut buffer = fallible::filled(0, PIECE.min(len as usize))?;
    let mut done = 0;
    while done < len {
        let piece = buffer.len().min((len - done) as usize);
        let step = from
            .1
            .read_from(from.0, &mut buffer[..piece])
            .and_then(|read| {
                if read == 0 {
                    Ok((0, 0))
                } else {
                    Ok((read, to.1.write_to(to.0, &buffer[..read])?))
                }
            });
        match step {
            Ok((0, _)) => break,
            Ok((read, written)) => {
                done += written as u64;
                // A stream hands over what it has once.
                if written < read || from.0.ops().is_stream() || sched::breathe() {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// sendfile(2).
pub fn sendfile(task: &Task, out: Fd, input: Fd, offset: u64, len: u64) -> Result<u64> {
    let (from, to) = (usable(task, input)?, usable(task, out)?);
    let mut place = Place::read(&from, offset)?;
    let n = copy((&from, &mut place), (&to, &mut Place::Own), len)?;
    place.store()?;
    Ok(n)
}

/// copy_file_range(2).
pub fn copy_file_range(task: &Task, args: &[u64; 6]) -> Result<u64> {
    let [input, in_at, out, out_at, len, flags] = *args;
    let (from, to) = (usable(task, input.into())?, usable(task, out.into())?);
    let regular = |file: &OpenFile| file.place.inode.object().is_some();
    if flags != 0 || !regular(&from) || !regular(&to) {
        return Err(Errno::EINVAL);
    }
    let (mut source, mut target) = (Place::read(&from, in_at)?, Place::read(&to, out_at)?);
    let n = copy((&from, &mut source), (&to, &mut target), len)?;
    source.store()?;
    target.store()?;
    Ok(n)
}

/// splice(2): one side is a pipe.
pub fn splice(task: &Task, args: &[u64; 6]) -> Result<u64> {
    let [input, in_at, out, out_at, len, _flags] = *args;
    let (from, to) = (usable(task, input.into())?, usable(task, out.into())?);
    let is_pipe = |file: &OpenFile| file.place.inode.node().kind == Kind::Fifo;
    if !is_pipe(&from) && !is_pipe(&to) {
        return Err(Errno::EINVAL);
    }
    let (mut source, mut target) = (Place::read(&from, in_at)?, Place::read(&to, out_at)?);
    // What is read has to fit at once: nothing could put it back.
    let n = copy(
        (&from, &mut source),
        (&to, &mut target),
        len.min(c::PIPE_BUF.into()),
    )?;
    source.store()?;
    target.store()?;
    Ok(n)
}
