//! Addresses in user memory that say what lies there.

use crate::base::errno::Result;
use crate::base::uaccess::{self, Plain};
use core::marker::PhantomData;

/// The address of a `T` in user memory, as a program has given it: it may be null, not aligned, or
/// no address of user mode at all, which a look finds out.
pub struct UserPtr<T> {
    address: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for UserPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for UserPtr<T> {}

impl<T> From<u64> for UserPtr<T> {
    /// From the register that a program passed it in.
    #[inline]
    fn from(address: u64) -> Self {
        Self {
            address,
            of: PhantomData,
        }
    }
}

impl<T> UserPtr<T> {
    /// `None` for a null pointer: for arguments that may be left out.
    #[inline]
    pub fn given(self) -> Option<Self> {
        (self.address != 0).then_some(self)
    }
}

impl<T: Plain> UserPtr<T> {
    /// Reads the value; EFAULT.
    #[inline]
    pub fn read(self) -> Result<T> {
        uaccess::read(self.address)
    }

    /// Writes a value; EFAULT.
    #[inline]
    pub fn write(self, value: &T) -> Result {
        uaccess::write(self.address, value)
    }
}
