//! Addresses in user memory, with the type of what lies there: one value ([`UserPtr`]), an array
//! ([`UserSlice`]), a string ([`UserStr`]).
//!
//! They hold what a program passed: it may be null, not aligned, or no address of user mode at all.
//! Each access checks it ([`uaccess`]) and returns EFAULT.

use crate::base::errno::Result;
use crate::base::uaccess::{self, Plain};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// The address of a `T` in user memory.
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

    /// The address, for what keeps it: a stack pointer, a futex.
    #[inline]
    pub fn address(self) -> u64 {
        self.address
    }

    /// Element `n` of an array that begins here.
    #[inline]
    pub fn element(self, n: u64) -> Self {
        self.field(n.wrapping_mul(size_of::<T>() as u64))
    }

    /// What lies `offset` bytes further on, as another type.
    #[inline]
    pub fn field<F>(self, offset: u64) -> UserPtr<F> {
        self.address.wrapping_add(offset).into()
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

    /// Writes a value unless the pointer is null; EFAULT.
    #[inline]
    pub fn write_given(self, value: &T) -> Result {
        self.given().map_or(Ok(()), |at| at.write(value))
    }
}

/// An array in user memory: the address of its first element, and its length.
pub struct UserSlice<T> {
    /// The first element.
    pub first: UserPtr<T>,
    /// How many elements.
    pub len: u64,
}

impl<T> Clone for UserSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for UserSlice<T> {}

impl<T> UserSlice<T> {
    /// The elements' addresses, in order.
    pub fn elements(self) -> impl Iterator<Item = UserPtr<T>> {
        (0..self.len).map(move |n| self.first.element(n))
    }
}

/// A range of bytes in user memory.
pub type UserBytes = UserSlice<u8>;

impl UserBytes {
    /// Copies the first bytes; EFAULT.
    #[inline]
    pub fn read(self, into: &mut [u8]) -> Result {
        uaccess::read_bytes(self.first.address, into)
    }

    /// Writes bytes, `offset` bytes after the first; EFAULT.
    #[inline]
    pub fn write(self, offset: u64, from: &[u8]) -> Result {
        uaccess::write_bytes(self.first.address.wrapping_add(offset), from)
    }
}

/// The address of a string in user memory, which ends with a NUL.
#[derive(Clone, Copy)]
pub struct UserStr(u64);

impl From<u64> for UserStr {
    #[inline]
    fn from(address: u64) -> Self {
        Self(address)
    }
}

impl UserStr {
    /// `None` for a null pointer.
    #[inline]
    pub fn given(self) -> Option<Self> {
        (self.0 != 0).then_some(self)
    }

    /// Reads the string without its NUL, which `max` counts: EFAULT, ENAMETOOLONG, ENOMEM.
    pub fn read(self, max: usize) -> Result<Vec<u8>> {
        uaccess::read_cstr(self.0, max)
    }
}
