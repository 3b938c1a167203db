//! The only way kernel code reads or writes user memory: every address is checked to lie in user
//! space, every fault becomes EFAULT.
//!
//! A fault may wait, for a change of the VMAs by another thread: no lock is held during an access,
//! but for [`load_u32_in_memory`]. Debug builds check that at each access.

#![allow(unsafe_code)]

use crate::arch::{pte::Format, uaccess as raw};
use crate::base::cpus;
use crate::base::errno::{Errno, Result};
use alloc::vec::Vec;
use arch_boot::cpus::NR_CPUS;
use core::mem::{MaybeUninit, size_of};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use linux_raw_sys::general;
use locks::Apart;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;

/// Types that any bytes make a valid value of, without padding that could leak kernel memory when
/// they are written out from [`core::mem::zeroed`] storage.
///
/// # Safety
/// Every bit pattern is a valid value, and there are no pointers or padding whose content matters.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),* $(,)?) => {
        // SAFETY: integers, and C structures of integers from Linux's headers: any bits are valid.
        $(unsafe impl Plain for $t {})*
    };
}

plain! {
    u8, i8, u16, i16, u32, i32, u64, i64, usize, isize,
    general::stat, general::statx, general::statfs, general::__kernel_timespec, general::__kernel_old_timeval,
    general::__kernel_old_itimerval,
}

// SAFETY: an array of plain values has no bytes of its own.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// EFAULT unless `len` bytes from `addr` lie in user space.
pub fn check(addr: u64, len: usize) -> Result {
    match addr.checked_add(len as u64) {
        Some(end) if end <= Format::USER_END.0 => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// What an access that may wait asserts.
#[inline(always)]
fn may_wait() {
    assert!(
        mm::sync::held() == 0,
        "user memory is accessed with a lock held"
    );
}

/// Copies bytes from user memory.
pub fn read_bytes(from: u64, into: &mut [u8]) -> Result {
    may_wait();
    check(from, into.len())?;
    raw::copy_from_user(into, from).map_err(|_| Errno::EFAULT)
}

/// Copies bytes to user memory.
pub fn write_bytes(to: u64, from: &[u8]) -> Result {
    may_wait();
    check(to, from.len())?;
    raw::copy_to_user(to, from).map_err(|_| Errno::EFAULT)
}

/// Reads one value; the address need not be aligned.
pub fn read<T: Plain>(from: u64) -> Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the slice covers the value's storage, which is initialised to zeros.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    read_bytes(from, bytes)?;
    // SAFETY: Plain: any bytes are a valid value.
    Ok(unsafe { value.assume_init() })
}

/// Writes one value; the address need not be aligned.
pub fn write<T: Plain>(to: u64, value: &T) -> Result {
    // SAFETY: the slice covers the value, and Plain says its bytes may be seen.
    let bytes =
        unsafe { core::slice::from_raw_parts((value as *const T).cast::<u8>(), size_of::<T>()) };
    write_bytes(to, bytes)
}

/// A zeroed value, to be filled field by field before it is written out.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: Plain: zeros are a valid value.
    unsafe { core::mem::zeroed() }
}

/// Reads a string up to its NUL, which is left out. `max` counts the NUL: without one in `max`
/// bytes, ENAMETOOLONG; without memory for it, ENOMEM.
pub fn read_cstr(from: u64, max: usize) -> Result<Vec<u8>> {
    let mut string = Vec::new();
    let mut at = from;
    while string.len() < max {
        // Not past the page: the next one may be absent although the string ends before it.
        let chunk = (PAGE_SIZE - at % PAGE_SIZE)
            .min(256)
            .min((max - string.len()) as u64) as usize;
        let mut bytes = [0; 256];
        read_bytes(at, &mut bytes[..chunk])?;
        fallible::reserve(&mut string, chunk)?;
        if let Some(end) = bytes[..chunk].iter().position(|b| *b == 0) {
            string.extend_from_slice(&bytes[..end]);
            return Ok(string);
        }
        string.extend_from_slice(&bytes[..chunk]);
        at += chunk as u64;
    }
    Err(Errno::ENAMETOOLONG)
}

/// Reads an aligned word in one piece (futex); EINVAL when it is not aligned.
pub fn load_u32(from: u64) -> Result<u32> {
    may_wait();
    check_word(from)?;
    raw::load_u32(from).map_err(|()| Errno::EFAULT)
}

/// As [`load_u32`], without a page fault: for a caller that holds locks. EFAULT, too, when the word
/// is not in memory.
pub fn load_u32_in_memory(from: u64) -> Result<u32> {
    check_word(from)?;
    let refused = &NO_FAULTS[cpus::current()];
    refused.store(true, Relaxed);
    let value = raw::load_u32(from);
    refused.store(false, Relaxed);
    value.map_err(|()| Errno::EFAULT)
}

/// Whether a page fault of the kernel's on this CPU may be resolved.
pub fn may_fault() -> bool {
    !NO_FAULTS[cpus::current()].load(Relaxed)
}

/// By CPU, whether [`load_u32_in_memory`] runs. Only that CPU uses it, and nothing interrupts it.
static NO_FAULTS: [Apart<AtomicBool>; NR_CPUS] = [const { Apart(AtomicBool::new(false)) }; NR_CPUS];

/// Replaces an aligned word when it holds `old`; returns what it held.
pub fn compare_exchange_u32(at: u64, old: u32, new: u32) -> Result<u32> {
    may_wait();
    check_word(at)?;
    raw::compare_exchange_u32(at, old, new).map_err(|()| Errno::EFAULT)
}

fn check_word(at: u64) -> Result {
    if !at.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    check(at, 4)
}
