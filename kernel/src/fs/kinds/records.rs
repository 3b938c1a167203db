//! Pseudo files whose text is a sequence of records, generated as they are read, so that a text of
//! any length takes little memory and other threads run meanwhile (Linux: seq_file). Records that
//! are added or removed between two reads may or may not be seen.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::open::io::Sink;
use crate::fs::open::ops::{At, FileOps};
use crate::sched;
use alloc::sync::Arc;
use core::mem;
use mm::sync::Lock;
use parts::text::Text;

/// Bytes that are made at once, about.
const BATCH: usize = 4096;

/// Generator of records.
pub trait Records: Send + Sync + 'static {
    /// Appends the first record at or after `from`, or the first few; returns where the next one is
    /// to be looked for, a higher number, or `None` when there is no record. A long operation
    /// pauses ([`sched::breathe`]) and ends with EINTR when the thread is to end.
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>>;
    /// ioctl(2) on the file.
    fn ioctl(&self, _command: u32, _argument: u64) -> Result<u64> {
        Err(Errno::ENOTTY)
    }
}

/// An open file of records.
pub struct RecordFile<R> {
    records: R,
    reader: Lock<Reader, { ranks::OPEN_FILE }>,
}

impl<R: Records> RecordFile<R> {
    /// Opens a file whose text `records` makes.
    pub fn open(records: R) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(RecordFile {
            records,
            reader: Lock::new(Reader::START),
        }))
    }
}

impl<R: Records> FileOps for RecordFile<R> {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        // The lock is not held meanwhile: whoever reads at the same time begins anew.
        let mut reader = mem::replace(&mut *self.reader.lock(), Reader::START);
        let result = reader.read(&self.records, at.position, sink);
        let _other = mem::replace(&mut *self.reader.lock(), reader);
        result
    }
    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        self.records.ioctl(command, argument)
    }
}

/// Where the last read ended.
struct Reader {
    /// The position in the file.
    position: u64,
    /// Records that have been made, of which `given` bytes have been read.
    text: Text,
    given: usize,
    /// Where the next record is looked for.
    next: u64,
}

impl Reader {
    const START: Reader = Reader {
        position: 0,
        text: Text::new(),
        given: 0,
        next: 0,
    };

    /// Reads from a position: that where the last read ended, or another one, for which the text up
    /// to there is made again.
    fn read(
        &mut self,
        records: &impl Records,
        position: u64,
        sink: &mut Sink<'_>,
    ) -> Result<usize> {
        if position < self.position {
            *self = Reader::START;
        }
        while self.position < position {
            let left = usize::try_from(position - self.position).unwrap_or(usize::MAX);
            let skipped = self.rest(records)?.len().min(left);
            if skipped == 0 {
                return Ok(0);
            }
            self.advance(skipped);
        }
        let mut done = 0;
        while sink.left() > 0 {
            match self.rest(records).and_then(|rest| sink.give(rest)) {
                Ok(0) => break,
                Ok(given) => {
                    self.advance(given);
                    done += given;
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn advance(&mut self, bytes: usize) {
        self.given += bytes;
        self.position += bytes as u64;
    }

    /// The text from the position on, a batch of it; none at the end.
    fn rest(&mut self, records: &impl Records) -> Result<&[u8]> {
        if self.given == self.text.len() {
            self.text.truncate(0);
            self.given = 0;
            if sched::breathe() {
                return Err(Errno::EINTR);
            }
        }
        while self.text.len() < BATCH && self.given == 0 {
            let before = self.text.len();
            match records.records(self.next, &mut self.text) {
                Ok(None) => break,
                Ok(Some(next)) => self.next = next,
                Err(error) => {
                    self.text.truncate(before);
                    if before == 0 {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        Ok(&self.text.as_bytes()[self.given..])
    }
}
