//! Text of a pseudo file, generated when it is read. It may be long (smaps of a process with many
//! mappings), so it is kept in pieces, and it is given up when memory is short.

use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::fs::open::io::Sink;
use alloc::vec::Vec;
use core::fmt;

/// All pieces but the last have this size.
const PIECE: usize = 64 << 10;

/// What a file shows. It can be written to like a `String`, and takes bytes that are not UTF-8.
#[derive(Default)]
pub struct Text {
    pieces: Vec<Vec<u8>>,
    len: usize,
    /// Memory ran short: the text is incomplete and is dropped.
    failed: bool,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl Text {
    /// Formatted text: `out.put(format_args!("{x}"))`. Failure is reported at the end, by
    /// [`Self::finish`].
    pub fn put(&mut self, arguments: fmt::Arguments<'_>) {
        let _ = fmt::Write::write_fmt(self, arguments);
    }

    /// The whole text is one line: for files that show one value.
    pub fn is(&mut self, value: impl fmt::Display) -> Result {
        self.line(value);
        Ok(())
    }

    /// The whole text is one value, without a newline.
    pub fn is_bare(&mut self, value: impl fmt::Display) -> Result {
        self.put(format_args!("{value}"));
        Ok(())
    }

    /// A value on a line of its own.
    pub fn line(&mut self, value: impl fmt::Display) {
        self.put(format_args!("{value}\n"));
    }

    /// Bytes as they are.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.failed {
            let used = self.len % PIECE;
            if used == 0 {
                self.failed |= room::check(Errno::ENOMEM).is_err()
                    || fallible::push(&mut self.pieces, Vec::new()).is_err();
            }
            let Some(piece) = self.pieces.last_mut() else {
                return;
            };
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - used));
            self.failed |= fallible::reserve(piece, now.len()).is_err();
            if !self.failed {
                piece.extend_from_slice(now);
                self.len += now.len();
            }
            bytes = later;
        }
    }

    /// The text, if there was memory for all of it; ENOMEM.
    pub fn finish(self) -> Result<Text> {
        if self.failed {
            Err(Errno::ENOMEM)
        } else {
            Ok(self)
        }
    }

    /// Gives what there is from `offset` on.
    pub fn read(&self, offset: u64, sink: &mut Sink<'_>) -> Result<usize> {
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        let start = at;
        while at < self.len && sink.left() > 0 {
            let given = match sink.give(&self.pieces[at / PIECE][at % PIECE..]) {
                Err(error) if at == start => return Err(error),
                given => given.unwrap_or(0),
            };
            if given == 0 {
                break;
            }
            at += given;
        }
        Ok(at - start)
    }
}
