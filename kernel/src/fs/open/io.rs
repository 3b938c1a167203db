//! Where bytes go and come from: user memory in one piece or in a list, or the kernel's own. Files
//! are written once for all of them.
//!
//! User memory may fault, and resolving a fault takes locks: no lock is held while a source or sink
//! is used. Files copy through a buffer of their own.

use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::base::user_ptr::{UserBytes, UserSlice};
use crate::sched;
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use mm::addr::PAGE_SIZE;

/// Longest transfer of one call, as in Linux: 2 GiB less a page.
pub const MAX_TRANSFER: usize = 0x7fff_f000;
/// Small transfers use a buffer on the stack.
const SMALL: usize = 256;
/// Larger ones go in pieces of at most this size.
const LARGE: usize = 16 << 10;

/// `struct iovec`: address and length.
pub type IoVec = [u64; 2];

/// A run of user memory.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: u64,
    len: usize,
}

/// User memory: what is left to be transferred.
struct User {
    now: Run,
    /// The runs after `now`, last first.
    later: Vec<Run>,
    left: usize,
}

impl User {
    fn one(bytes: UserBytes) -> Result<User> {
        let (at, len) = (bytes.first.address(), bytes.len as usize);
        uaccess::check(at, len)?;
        let len = len.min(MAX_TRANSFER);
        Ok(User {
            now: Run { at, len },
            later: Vec::new(),
            left: len,
        })
    }

    /// Reads an array of `struct iovec`; EINVAL for more than 1024 or a total length that
    /// overflows.
    fn list(list: UserSlice<IoVec>) -> Result<User> {
        if list.len > u64::from(c::UIO_MAXIOV) {
            return Err(Errno::EINVAL);
        }
        let mut runs = Vec::new();
        fallible::reserve(&mut runs, list.len as usize)?;
        let mut total = 0usize;
        for element in list.elements() {
            let [at, len] = element.read()?;
            if len > isize::MAX as u64 {
                return Err(Errno::EINVAL);
            }
            let len = (len as usize).min(MAX_TRANSFER - total);
            uaccess::check(at, len)?;
            total += len;
            runs.push(Run { at, len });
        }
        runs.reverse();
        let now = runs.pop().unwrap_or(Run { at: 0, len: 0 });
        Ok(User {
            now,
            later: runs,
            left: total,
        })
    }

    /// Hands out `len` bytes of user memory in pieces that stay inside a page, so that a bad page
    /// loses nothing before it. Stops at the first failure: how far it came, and the error if that
    /// is nowhere.
    fn pieces(
        &mut self,
        len: usize,
        mut copy: impl FnMut(u64, usize, usize) -> Result,
    ) -> Result<usize> {
        let len = len.min(self.left);
        let mut done = 0;
        while done < len {
            if self.now.len == 0 {
                self.now = self.later.pop().unwrap_or(Run { at: 0, len: 0 });
                continue;
            }
            let page_left = (PAGE_SIZE - self.now.at % PAGE_SIZE) as usize;
            let piece = page_left.min(self.now.len).min(len - done);
            match copy(self.now.at, done, piece) {
                Ok(()) => {}
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            self.now.at += piece as u64;
            self.now.len -= piece;
            self.left -= piece;
            done += piece;
        }
        Ok(done)
    }
}

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
        through_buffer(self.left(), LARGE, |_, buffer| {
            let n = self.take(buffer)?;
            let taken = consume(&buffer[..n])?;
            Ok((taken, taken < buffer.len()))
        })
    }
    /// As [`Self::drain`], in pieces of at most `size` bytes, each of which is consumed whole or
    /// not at all.
    pub fn drain_pieces(
        &mut self,
        size: usize,
        mut consume: impl FnMut(&[u8]) -> Result,
    ) -> Result<usize> {
        through_buffer(self.left(), size, |_, buffer| {
            let n = self.take(buffer)?;
            consume(&buffer[..n])?;
            Ok((n, n < buffer.len()))
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
        through_buffer(self.left(), size, |done, buffer| {
            let n = produce(done, buffer)?;
            let given = self.give(&buffer[..n])?;
            Ok((given, given < buffer.len()))
        })
    }
    /// Fills it from a stream: `take` writes what there is into a buffer, and waits only when
    /// `first`; what user memory refuses goes to `put_back`.
    pub fn receive(
        &mut self,
        mut take: impl FnMut(&mut [u8], bool) -> Result<usize>,
        mut put_back: impl FnMut(&[u8]),
    ) -> Result<usize> {
        through_buffer(self.left(), LARGE, |done, buffer| {
            let n = take(buffer, done == 0)?;
            let given = self.give(&buffer[..n]);
            let taken = given.unwrap_or(0);
            if taken < n {
                put_back(&buffer[taken..n]);
            }
            given.map(|given| (given, given < buffer.len()))
        })
    }
}

/// Moves `total` bytes through a buffer: `step` gets the bytes done so far and the buffer, returns
/// how many it moved and whether that was the end. An error after the first bytes is left for the
/// next call to find.
fn through_buffer(
    total: usize,
    largest: usize,
    mut step: impl FnMut(usize, &mut [u8]) -> Result<(usize, bool)>,
) -> Result<usize> {
    let mut small = [0; SMALL];
    let mut large = Vec::new();
    // Without memory for a larger one the small buffer does, too.
    let len = total.min(largest);
    let buffer = if len <= SMALL || fallible::reserve_exact(&mut large, len).is_err() {
        &mut small[..len.min(SMALL)]
    } else {
        large.resize(len, 0);
        &mut large[..]
    };
    let mut done = 0;
    while done < total {
        let piece = buffer.len().min(total - done);
        match step(done, &mut buffer[..piece]) {
            Ok((moved, end)) => {
                done += moved;
                if end || done < total && sched::breathe() {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}
