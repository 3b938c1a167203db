//! Sources and sinks of bytes: user memory in one piece or in a list, or the kernel's own. Files
//! are written once for all of them.
//!
//! User memory may fault, and resolving a fault takes locks: no lock is held while a source or sink
//! is used. Files copy through a buffer of their own.

mod buffer;
mod user;

use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::base::user_ptr::{UserBytes, UserSlice};
use alloc::vec::Vec;
use buffer::{LARGE, Moved, through_buffer};
use user::User;

/// Longest transfer of one call, as in Linux: 2 GiB less a page.
pub const MAX_TRANSFER: usize = 0x7fff_f000;
/// `struct iovec`: address and length.
pub type IoVec = [u64; 2];

enum From<'a> {
    User(User),
    Kernel(&'a [u8]),
}

/// Where the bytes of a write come from.
pub struct Source<'a>(From<'a>);

impl<'a> Source<'a> {
    /// One piece of user memory.
    pub fn user(bytes: UserBytes) -> Result<Source<'a>> {
        Ok(Source(From::User(User::one(bytes)?)))
    }
    /// A list of pieces of user memory (writev).
    pub fn user_list(list: UserSlice<IoVec>) -> Result<Source<'a>> {
        Ok(Source(From::User(User::list(list)?)))
    }
    /// The kernel's bytes.
    pub fn kernel(bytes: &'a [u8]) -> Source<'a> {
        Source(From::Kernel(bytes))
    }
    /// Bytes not taken yet.
    pub fn left(&self) -> usize {
        match &self.0 {
            From::User(user) => user.left,
            From::Kernel(bytes) => bytes.len(),
        }
    }
    /// Leaves only the first `len` bytes.
    pub fn limit(&mut self, len: usize) {
        match &mut self.0 {
            From::User(user) => user.left = user.left.min(len),
            From::Kernel(bytes) => *bytes = &bytes[..len.min(bytes.len())],
        }
    }
    /// Takes bytes: as many as fit, or are left, or lie before a bad page. EFAULT when the first
    /// page is bad.
    pub fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        match &mut self.0 {
            From::User(user) => user.pieces(into.len(), |at, done, len| {
                uaccess::read_bytes(at, &mut into[done..done + len])
            }),
            From::Kernel(bytes) => {
                let (taken, rest) = bytes.split_at(into.len().min(bytes.len()));
                into[..taken.len()].copy_from_slice(taken);
                *bytes = rest;
                Ok(taken.len())
            }
        }
    }
    /// Hands out where the bytes stand in user memory, in pieces that stay inside a page, with how
    /// many came before: all, or up to the first that `f` refuses; the error when that is the
    /// first. How many bytes. Nothing of the kernel's own.
    pub fn each_piece(&mut self, f: impl FnMut(u64, usize, usize) -> Result) -> Result<usize> {
        match &mut self.0 {
            From::User(user) => user.pieces(usize::MAX, f),
            From::Kernel(_) => Err(Errno::EFAULT),
        }
    }
    /// Takes everything; EINVAL when it is more than `max` bytes.
    pub fn take_all(&mut self, max: usize) -> Result<Vec<u8>> {
        if self.left() > max {
            return Err(Errno::EINVAL);
        }
        let mut bytes = fallible::filled(0, self.left())?;
        let n = self.take(&mut bytes)?;
        bytes.truncate(n);
        Ok(bytes)
    }
    /// Hands everything to `consume`, piece by piece, until it takes less than it is given. How
    /// many bytes it took.
    pub fn drain(&mut self, mut consume: impl FnMut(&[u8]) -> Result<usize>) -> Result<usize> {
        through_buffer(self.left(), LARGE, &mut |_, buffer| {
            let n = self.take(buffer)?;
            let taken = consume(&buffer[..n])?;
            Ok(Moved::ending_before(taken, buffer))
        })
    }
    /// As [`Self::drain`], in pieces of at most `size` bytes, each of which is consumed whole or
    /// not at all.
    pub fn drain_pieces(
        &mut self,
        size: usize,
        mut consume: impl FnMut(&[u8]) -> Result,
    ) -> Result<usize> {
        through_buffer(self.left(), size, &mut |_, buffer| {
            let n = self.take(buffer)?;
            consume(&buffer[..n])?;
            Ok(Moved::ending_before(n, buffer))
        })
    }
}

enum To<'a> {
    User(User),
    Kernel(&'a mut [u8]),
}

/// Where the bytes of a read go.
pub struct Sink<'a>(To<'a>);

impl<'a> Sink<'a> {
    /// One piece of user memory.
    pub fn user(bytes: UserBytes) -> Result<Sink<'a>> {
        Ok(Sink(To::User(User::one(bytes)?)))
    }
    /// A list of pieces of user memory (readv).
    pub fn user_list(list: UserSlice<IoVec>) -> Result<Sink<'a>> {
        Ok(Sink(To::User(User::list(list)?)))
    }
    /// The kernel's bytes.
    pub fn kernel(bytes: &'a mut [u8]) -> Sink<'a> {
        Sink(To::Kernel(bytes))
    }
    /// Bytes that there is still room for.
    pub fn left(&self) -> usize {
        match &self.0 {
            To::User(user) => user.left,
            To::Kernel(bytes) => bytes.len(),
        }
    }
    /// Gives bytes: as many as there is room for, up to a bad page. EFAULT when the first page is
    /// bad.
    pub fn give(&mut self, from: &[u8]) -> Result<usize> {
        match &mut self.0 {
            To::User(user) => user.pieces(from.len(), |at, done, len| {
                uaccess::write_bytes(at, &from[done..done + len])
            }),
            To::Kernel(bytes) => {
                let n = from.len().min(bytes.len());
                let (filled, rest) = core::mem::take(bytes).split_at_mut(n);
                filled.copy_from_slice(&from[..n]);
                *bytes = rest;
                Ok(n)
            }
        }
    }
    /// Fills it with what `produce` writes into a buffer, piece by piece, until that is less than
    /// asked for; `produce` gets the number of bytes so far. How many bytes arrived.
    pub fn fill(
        &mut self,
        produce: impl FnMut(usize, &mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        self.fill_pieces(LARGE, produce)
    }
    /// As [`Self::fill`], in pieces of at most `size` bytes, for what takes long to make.
    pub fn fill_pieces(
        &mut self,
        size: usize,
        mut produce: impl FnMut(usize, &mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        through_buffer(self.left(), size, &mut |done, buffer| {
            let n = produce(done, buffer)?;
            let given = self.give(&buffer[..n])?;
            Ok(Moved::ending_before(given, buffer))
        })
    }
    /// Fills it from a stream: `take` writes what there is into a buffer, and waits only when
    /// `first`; what user memory refuses goes to `put_back`.
    pub fn receive(
        &mut self,
        mut take: impl FnMut(&mut [u8], bool) -> Result<usize>,
        mut put_back: impl FnMut(&[u8]),
    ) -> Result<usize> {
        through_buffer(self.left(), LARGE, &mut |done, buffer| {
            let n = take(buffer, done == 0)?;
            let given = self.give(&buffer[..n]);
            let taken = given.unwrap_or(0);
            if taken < n {
                put_back(&buffer[taken..n]);
            }
            given.map(|given| Moved::ending_before(given, buffer))
        })
    }
}
