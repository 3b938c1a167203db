//! Protection keys (pkeys(7)): the calls. What a key allows is a register of each thread, which
//! user mode sets itself; pkey_alloc(2) sets it once.

use super::{Protection, Span, in_space, mprotect, protect};
use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::process::task::Task;
use crate::syscall::door::{Argument, Registers};
use mm::arch::{Cpu, Key, Machine, Refused};

/// A key as a program names it: an int, of which only some are keys.
#[derive(Clone, Copy)]
pub struct KeyNumber(i32);

impl Argument<'_> for KeyNumber {
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        Ok(Self(registers.next() as i32))
    }
}

impl KeyNumber {
    /// EINVAL for what is no key on any machine.
    fn key(self) -> Result<Key> {
        let number = u8::try_from(self.0).map_err(|_| Errno::EINVAL)?;
        Ok(Key(number))
    }
}

/// pkey_alloc(2). EINVAL: flags, of which there are none, or unknown rights; ENOSPC: no key is
/// left, or the machine has none.
pub fn pkey_alloc(task: &Task, flags: u64, rights: u64) -> Result<u64> {
    let refused = u32::try_from(rights).ok().and_then(Refused::from_bits);
    let refused = refused.filter(|_| flags == 0).ok_or(Errno::EINVAL)?;
    let key = in_space(task, |space| space.allocate_key()).ok_or(Errno::ENOSPC)?;
    mm().machine().cpu().set_key(key, refused);
    Ok(key.0.into())
}

/// pkey_free(2). EINVAL: the program does not have the key.
pub fn pkey_free(task: &Task, number: KeyNumber) -> Result<u64> {
    let key = number.key()?;
    in_space(task, |space| space.free_key(key))?;
    Ok(0)
}

/// pkey_mprotect(2): with key -1 it is mprotect(2).
pub fn pkey_mprotect(
    task: &Task,
    span: Span,
    protection: Protection,
    number: KeyNumber,
) -> Result<u64> {
    if number.0 == -1 {
        return mprotect(task, span, protection);
    }
    // Keys that do not exist are refused where others are: behind the other arguments.
    let key = number.key().unwrap_or(Key(Key::MOST));
    protect(task, span, protection, Some(key))
}
