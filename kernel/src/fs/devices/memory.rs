//! Memory devices: /dev/null, zero, full, random.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Hw, Object, mm};
use crate::base::random;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use linux_raw_sys::ioctl::{RNDADDENTROPY, RNDGETENTCNT};
use mm::vma::Backing;

fn swallow(source: &mut Source<'_>) -> Result<usize> {
    // The memory is not looked at, as on Linux.
    Ok(source.left())
}

/// /dev/null.
pub struct Null;

impl FileOps for Null {
    fn read(&self, _: At, _: &mut Sink<'_>) -> Result<usize> {
        Ok(0)
    }
    fn write(&self, _: At, source: &mut Source<'_>) -> Result<usize> {
        swallow(source)
    }
}

fn read_zeros(sink: &mut Sink<'_>) -> Result<usize> {
    sink.fill(|_, buffer| {
        buffer.fill(0);
        Ok(buffer.len())
    })
}

/// /dev/zero; a mapping of it is anonymous memory.
pub struct Zero;

impl FileOps for Zero {
    fn read(&self, _: At, sink: &mut Sink<'_>) -> Result<usize> {
        read_zeros(sink)
    }
    fn write(&self, _: At, source: &mut Source<'_>) -> Result<usize> {
        swallow(source)
    }
    fn mmap(&self, shared: bool, _offset: u64) -> Result<Backing<Hw>> {
        if !shared {
            return Ok(Backing::Anon);
        }
        let object = Object::new(mm());
        // As large as any mapping of it may become.
        object.set_len(i64::MAX as u64 & !0xfff);
        Ok(Backing::Object {
            object: object.into(),
            offset: 0,
            file: None,
        })
    }
}

/// /dev/full: reads as zeros, takes nothing.
pub struct Full;

impl FileOps for Full {
    fn read(&self, _: At, sink: &mut Sink<'_>) -> Result<usize> {
        read_zeros(sink)
    }
    fn write(&self, _: At, _: &mut Source<'_>) -> Result<usize> {
        Err(Errno::ENOSPC)
    }
}

/// /dev/random and /dev/urandom.
pub struct Random;

impl FileOps for Random {
    fn read(&self, _: At, sink: &mut Sink<'_>) -> Result<usize> {
        sink.fill_pieces(random::PIECE, |_, buffer| {
            random::fill(buffer);
            Ok(buffer.len())
        })
    }
    fn write(&self, _: At, source: &mut Source<'_>) -> Result<usize> {
        // Entropy from user mode is accepted and not used.
        swallow(source)
    }
    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            RNDGETENTCNT => crate::base::uaccess::write(argument, &256i32).map(|()| 0),
            RNDADDENTROPY => Ok(0),
            _ => Err(Errno::EINVAL),
        }
    }
}
