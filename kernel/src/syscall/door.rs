//! The door of the system calls: registers become typed arguments, once, where a call is
//! dispatched.
//!
//! A call is a function of [`Argument`]s, such as `fn(&Task, Fd, UserBytes) -> Result<u64>`.
//! [`Call::run`] reads them from the registers in order and calls it. Linux's interface, not the
//! kernel's use, says how wide an argument is: of an `int` the upper half of the register does not
//! count.

use super::Call;
use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserPtr, UserSlice, UserStr};
use crate::fs::{DirFd, Fd};
use crate::process::task::Task;
use alloc::sync::Arc;
use bitflags::Flags;
use mm::addr::VirtAddr;

/// What a call's arguments are read from.
pub struct Registers<'a> {
    task: &'a Arc<Task>,
    user: Option<&'a mut UserContext>,
    args: [u64; 6],
    used: usize,
}

impl Registers<'_> {
    /// The next register; a call has six of them.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.used += 1;
        self.args[self.used - 1]
    }
}

/// A parameter of a function that answers a system call.
pub trait Argument<'a>: Sized {
    /// Reads it from the next register, or from two; the error that the call returns when it is
    /// wrong whatever the other arguments are.
    fn take(registers: &mut Registers<'a>) -> Result<Self>;
}

/// Answers a system call: a function of `Arguments`.
pub trait Handler<'a, Arguments> {
    /// Reads the arguments and calls the function.
    fn call(self, registers: Registers<'a>) -> Result<u64>;
}

macro_rules! handlers {
    ($($name:ident $type:ident),*) => {
        impl<'a, F, $($type),*> Handler<'a, ($($type,)*)> for F
        where
            F: FnOnce($($type),*) -> Result<u64>,
            $($type: Argument<'a>,)*
        {
            #[inline(always)]
            fn call(self, mut registers: Registers<'a>) -> Result<u64> {
                $(let $name = $type::take(&mut registers)?;)*
                self($($name),*)
            }
        }
    };
}

handlers!(a A);
handlers!(a A, b B);
handlers!(a A, b B, c C);
handlers!(a A, b B, c C, d D);
handlers!(a A, b B, c C, d D, e E);
handlers!(a A, b B, c C, d D, e E, g G);
handlers!(a A, b B, c C, d D, e E, g G, h H);

impl<'a> Call<'a> {
    /// Answers the call with `handler`.
    #[inline(always)]
    pub fn run<Arguments>(self, handler: impl Handler<'a, Arguments>) -> Result<u64> {
        handler.call(Registers {
            task: self.task,
            args: self.user.syscall_args(),
            user: Some(self.user),
            used: 0,
        })
    }
}

impl<'a> Argument<'a> for &'a Arc<Task> {
    #[inline(always)]
    fn take(registers: &mut Registers<'a>) -> Result<Self> {
        Ok(registers.task)
    }
}

impl<'a> Argument<'a> for &'a Task {
    #[inline(always)]
    fn take(registers: &mut Registers<'a>) -> Result<Self> {
        Ok(registers.task)
    }
}

impl<'a> Argument<'a> for &'a mut UserContext {
    #[inline(always)]
    fn take(registers: &mut Registers<'a>) -> Result<Self> {
        Ok(registers.user.take().expect("a call has one user context"))
    }
}

/// Types that any register makes a value of.
macro_rules! plain {
    ($($type:ty: $convert:expr),* $(,)?) => {
        $(impl Argument<'_> for $type {
            #[inline(always)]
            fn take(registers: &mut Registers<'_>) -> Result<Self> {
                let convert: fn(u64) -> Self = $convert;
                Ok(convert(registers.next()))
            }
        })*
    };
}

plain! {
    u64: |register| register,
    i64: |register| register as i64,
    u32: |register| register as u32,
    i32: |register| register as i32,
    Fd: Fd::from,
    DirFd: DirFd::from,
    UserStr: UserStr::from,
    VirtAddr: VirtAddr,
}

impl<T> Argument<'_> for UserPtr<T> {
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        Ok(registers.next().into())
    }
}

/// Address and length, in two registers.
impl<T> Argument<'_> for UserSlice<T> {
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        Ok(Self {
            first: registers.next().into(),
            len: registers.next(),
        })
    }
}

/// EINVAL when `flags` has others than `known`: for types of flags that several calls share.
pub fn only<F: Flags + Copy>(flags: F, known: F) -> Result<F> {
    match known.contains(flags) {
        true => Ok(flags),
        false => Err(Errno::EINVAL),
    }
}

/// Makes types of flags arguments: what `unknown` bits are to a call stands behind the type.
///
/// - `invalid`: EINVAL.
/// - `ignored`: dropped.
/// - `kept`: the call decides, because another error comes first or a part of the word is a number.
macro_rules! flag_arguments {
    ($($type:ty: $unknown:ident),* $(,)?) => {
        $(impl $crate::syscall::door::Argument<'_> for $type {
            #[inline(always)]
            fn take(
                registers: &mut $crate::syscall::door::Registers<'_>,
            ) -> $crate::base::errno::Result<Self> {
                let bits = registers.next() as <Self as bitflags::Flags>::Bits;
                $crate::syscall::door::flag_arguments!(@ $unknown bits)
            }
        })*
    };
    (@ invalid $bits:ident) => {
        Self::from_bits($bits).ok_or($crate::base::errno::Errno::EINVAL)
    };
    (@ ignored $bits:ident) => {
        Ok(Self::from_bits_truncate($bits))
    };
    (@ kept $bits:ident) => {
        Ok(Self::from_bits_retain($bits))
    };
}

pub(super) use flag_arguments;
