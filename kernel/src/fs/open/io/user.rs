//! User memory that bytes go to or come from.

use super::{IoVec, MAX_TRANSFER};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::base::user_ptr::{UserBytes, UserSlice};
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use mm::addr::PAGE_SIZE;

/// A run of user memory.
#[derive(Clone, Copy, Debug)]
struct UserRun {
    at: u64,
    len: usize,
}

/// User memory: what is left to be transferred.
pub(super) struct User {
    now: UserRun,
    /// The runs after `now`, last first.
    later: Vec<UserRun>,
    pub(super) left: usize,
}

impl User {
    pub(super) fn one(bytes: UserBytes) -> Result<User> {
        let (at, len) = (bytes.first.address(), bytes.len as usize);
        uaccess::check(at, len)?;
        let len = len.min(MAX_TRANSFER);
        Ok(User {
            now: UserRun { at, len },
            later: Vec::new(),
            left: len,
        })
    }

    /// Reads an array of `struct iovec`; EINVAL for more than 1024 or a total length that
    /// overflows.
    pub(super) fn list(list: UserSlice<IoVec>) -> Result<User> {
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
            runs.push(UserRun { at, len });
        }
        runs.reverse();
        let now = runs.pop().unwrap_or(UserRun { at: 0, len: 0 });
        Ok(User {
            now,
            later: runs,
            left: total,
        })
    }

    /// Hands out `len` bytes of user memory in pieces that stay inside a page, so that a bad page
    /// loses nothing before it. Stops at the first failure: how far it came, and the error if that
    /// is nowhere.
    pub(super) fn pieces(
        &mut self,
        len: usize,
        mut copy: impl FnMut(u64, usize, usize) -> Result,
    ) -> Result<usize> {
        let len = len.min(self.left);
        let mut done = 0;
        while done < len {
            if self.now.len == 0 {
                self.now = self.later.pop().unwrap_or(UserRun { at: 0, len: 0 });
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
