//! Copies between files: sendfile(2), copy_file_range(2), splice(2).

use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::kinds::ramfile::MAX_SIZE;
use crate::fs::open::io::{MAX_TRANSFER, Sink, Source};
use crate::fs::tree::inode::FileKind;
use crate::fs::{Fd, OpenFile};
use crate::process::task::Task;
use crate::sched;
use crate::syscall::door::flag_arguments;
use alloc::sync::Arc;
use linux_raw_sys::general as c;

/// Copies between files go in pieces of this size.
const PIECE: usize = 16 << 10;

/// Where one side of a copy reads or writes.
enum Position {
    /// At the position of the open file.
    Own,
    /// At a position of the caller's, which is written back.
    At { pointer: UserPtr<u64>, at: u64 },
}

/// One side of a copy.
struct Endpoint {
    file: Arc<OpenFile>,
    position: Position,
}

impl Endpoint {
    /// At the open file's own position.
    fn own(file: Arc<OpenFile>) -> Endpoint {
        let position = Position::Own;
        Endpoint { file, position }
    }

    /// At the position in the caller's memory, or the file's own for a null pointer. ESPIPE for a
    /// stream.
    fn at(file: Arc<OpenFile>, pointer: UserPtr<u64>) -> Result<Endpoint> {
        let Some(pointer) = pointer.given() else {
            return Ok(Endpoint::own(file));
        };
        if file.ops().is_stream() {
            return Err(Errno::ESPIPE);
        }
        let at = pointer.read()?;
        if at > MAX_SIZE {
            return Err(Errno::EINVAL);
        }
        let position = Position::At { pointer, at };
        Ok(Endpoint { file, position })
    }

    /// Writes the caller's position back.
    fn store(&self) -> Result {
        match &self.position {
            Position::Own => Ok(()),
            Position::At { pointer, at } => pointer.write(at),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut sink = Sink::kernel(bytes);
        match &mut self.position {
            Position::Own => self.file.read(&mut sink),
            Position::At { at, .. } => {
                let n = self.file.read_at(*at, &mut sink)?;
                *at += n as u64;
                Ok(n)
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut source = Source::kernel(bytes);
        match &mut self.position {
            Position::Own => self.file.write(&mut source),
            Position::At { at, .. } => {
                let n = self.file.write_at(*at, &mut source)?;
                *at += n as u64;
                Ok(n)
            }
        }
    }
}

/// Copies up to `len` bytes and stores the positions. Stops at the end, after what the target does
/// not take, and when the thread is to end.
fn copy(mut from: Endpoint, mut to: Endpoint, len: u64) -> Result<u64> {
    let len = len.min(MAX_TRANSFER as u64);
    let mut buffer = fallible::filled(0, PIECE.min(len as usize))?;
    let mut done = 0;
    while done < len {
        let piece = buffer.len().min((len - done) as usize);
        match copy_piece(&mut from, &mut to, &mut buffer[..piece]) {
            Ok(Copied { read: 0, .. }) => break,
            Ok(Copied { read, written }) => {
                done += written as u64;
                // A stream hands over what it has once.
                if written < read || from.file.ops().is_stream() || sched::breathe() {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    from.store()?;
    to.store()?;
    Ok(done)
}

/// Bytes that one step of a copy moved.
struct Copied {
    read: usize,
    written: usize,
}

fn copy_piece(from: &mut Endpoint, to: &mut Endpoint, buffer: &mut [u8]) -> Result<Copied> {
    let read = from.read(buffer)?;
    let written = match read {
        0 => 0,
        _ => to.write(&buffer[..read])?,
    };
    Ok(Copied { read, written })
}

/// sendfile(2).
pub fn sendfile(task: &Task, out: Fd, input: Fd, offset: UserPtr<u64>, len: u64) -> Result<u64> {
    let (from, to) = (usable(task, input)?, usable(task, out)?);
    copy(Endpoint::at(from, offset)?, Endpoint::own(to), len)
}

/// copy_file_range(2), which has no flags yet.
pub fn copy_file_range(
    task: &Task,
    input: Fd,
    in_at: UserPtr<u64>,
    out: Fd,
    out_at: UserPtr<u64>,
    len: u64,
    flags: u32,
) -> Result<u64> {
    let (from, to) = (usable(task, input)?, usable(task, out)?);
    let regular = |file: &OpenFile| file.place.inode.object().is_some();
    if flags != 0 || !regular(&from) || !regular(&to) {
        return Err(Errno::EINVAL);
    }
    copy(Endpoint::at(from, in_at)?, Endpoint::at(to, out_at)?, len)
}

bitflags::bitflags! {
    /// SPLICE_F_*, of splice(2) and vmsplice(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SpliceFlags: u32 {
        /// SPLICE_F_MOVE, without effect.
        const MOVE = 1;
        /// SPLICE_F_NONBLOCK.
        const NONBLOCK = 2;
        /// SPLICE_F_MORE, without effect.
        const MORE = 4;
        /// SPLICE_F_GIFT, without effect.
        const GIFT = 8;
    }
}

flag_arguments!(SpliceFlags: invalid);

/// splice(2): one side is a pipe.
pub fn splice(
    task: &Task,
    input: Fd,
    in_at: UserPtr<u64>,
    out: Fd,
    out_at: UserPtr<u64>,
    len: u64,
    _: SpliceFlags,
) -> Result<u64> {
    let (from, to) = (usable(task, input)?, usable(task, out)?);
    let is_pipe = |file: &OpenFile| file.place.inode.node().kind == FileKind::Fifo;
    if !is_pipe(&from) && !is_pipe(&to) {
        return Err(Errno::EINVAL);
    }
    // What is read has to fit at once: nothing could put it back.
    let len = len.min(c::PIPE_BUF.into());
    copy(Endpoint::at(from, in_at)?, Endpoint::at(to, out_at)?, len)
}
