//! /dev/kmsg: the kernel's log, a line a read; what is written is logged.

use crate::base::errno::{Errno, Result};
use crate::base::klog;
use crate::base::ranks;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use mm::sync::Lock;

/// Longest line that can be written.
const MAX_LINE: usize = 1024;

/// An open /dev/kmsg: the log as it was at the open.
pub struct Kmsg {
    rest: Lock<Unread, { ranks::OPEN_FILE }>,
}

struct Unread {
    text: Vec<u8>,
    at: usize,
    sequence: usize,
}

impl Kmsg {
    /// From the oldest line that is still there. ENOMEM.
    pub fn new() -> Result<Kmsg> {
        let mut text = Vec::new();
        fallible::reserve(&mut text, usize::from(u16::MAX))?;
        klog::read_newest(usize::from(u16::MAX), &mut |bytes| {
            text.extend_from_slice(bytes)
        });
        Ok(Kmsg {
            rest: Lock::new(Unread {
                text,
                at: 0,
                sequence: 0,
            }),
        })
    }

    fn next_line(&self) -> Option<String> {
        let mut rest = self.rest.lock();
        let line = rest.text[rest.at..]
            .split(|b| *b == b'\n')
            .next()
            .filter(|line| !line.is_empty())?;
        let (len, line) = (line.len(), String::from_utf8_lossy(line).into_owned());
        rest.at = (rest.at + len + 1).min(rest.text.len());
        rest.sequence += 1;
        // "[    1.234567] text" becomes "priority,sequence,microseconds,-;text".
        let (time, text) = line
            .strip_prefix('[')
            .and_then(|l| l.split_once("] "))
            .unwrap_or(("0.0", &line));
        let (seconds, micros) = time.trim().split_once('.').unwrap_or(("0", "0"));
        let micros = seconds.parse().unwrap_or(0u64) * 1_000_000 + micros.parse().unwrap_or(0);
        Some(format!("6,{},{micros},-;{text}\n", rest.sequence - 1))
    }
}

impl FileOps for Kmsg {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        match self.next_line() {
            Some(line) if line.len() > sink.left() => Err(Errno::EINVAL),
            Some(line) => sink.give(line.as_bytes()),
            None if at.nonblocking => Err(Errno::EAGAIN),
            // The log at the open has been read; no program here follows it further.
            None => Ok(0),
        }
    }

    fn write(&self, _: At, source: &mut Source<'_>) -> Result<usize> {
        let bytes = source.take_all(MAX_LINE)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text
            .strip_prefix('<')
            .and_then(|t| t.split_once('>'))
            .map_or(&*text, |(_, text)| text);
        log::info!("{}", text.trim_end());
        Ok(bytes.len())
    }
}
