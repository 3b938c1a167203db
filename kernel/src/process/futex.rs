//! futex(2): sleeping on a word of user memory.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::uaccess;
use crate::base::user_ptr::UserPtr;
use crate::process::task::{self, Task};
use crate::sched;
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::sync::Lock;
use mm::vma::{Backing, Prot, VmaFlags};

/// A word as a program names it.
#[derive(Clone, Copy)]
pub struct Word {
    /// Where it is in the caller's memory.
    pub at: UserPtr<u32>,
    /// FUTEX_PRIVATE_FLAG: only threads of one process use it.
    pub private: bool,
}

/// Identity of a word, wherever it is mapped: the object or address space it belongs to, and its
/// offset there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    home: usize,
    offset: u64,
}

struct Waiter {
    key: Key,
    bitset: u32,
    task: Arc<Task>,
    woken: Arc<AtomicBool>,
}

static WAITERS: Lock<Vec<Waiter>, { ranks::FUTEX }> = Lock::new(Vec::new());

/// The key of a word: EINVAL unless it is aligned, EFAULT unless it is an address of user mode.
/// Without `private` the word has to be mapped, and be writable or a file's; in shared memory every
/// mapping gives the same key.
fn key(word: Word) -> Result<Key> {
    let (address, private) = (word.at.address(), word.private);
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    uaccess::check(address, 4)?;
    let space = task::current().process().space().ok_or(Errno::EFAULT)?;
    let own = Key {
        home: Arc::as_ptr(&space).addr(),
        offset: address,
    };
    if private {
        return Ok(own);
    }
    let vma = space.vma_at(VirtAddr(address)).ok_or(Errno::EFAULT)?;
    let of_a_file = matches!(vma.backing, Backing::Object { .. });
    if !vma.prot.contains(Prot::WRITE) && !of_a_file {
        return Err(Errno::EFAULT);
    }
    uaccess::load_u32(address)?;
    Ok(match &vma.backing {
        Backing::Object { object, offset, .. } if vma.flags.contains(VmaFlags::SHARED) => Key {
            home: Arc::as_ptr(object).addr(),
            offset: offset * PAGE_SIZE + (address - vma.range.start.0),
        },
        _ => own,
    })
}

fn load(word: Word) -> Result<u32> {
    uaccess::load_u32(word.at.address())
}

/// FUTEX_WAIT_BITSET: sleeps while the word holds `expected`, until `deadline` (ns since boot).
/// EAGAIN: it holds something else. ETIMEDOUT, ERESTARTSYS.
pub fn wait(word: Word, expected: u32, bitset: u32, deadline: Option<u64>) -> Result {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key(word)?;
    let woken = Arc::new(AtomicBool::new(false));
    {
        // Under the lock, so that a wake-up after the word was read finds the waiter.
        let mut waiters = WAITERS.lock();
        if load(word)? != expected {
            return Err(Errno::EAGAIN);
        }
        let waiter = Waiter {
            key,
            bitset,
            task: task::current(),
            woken: woken.clone(),
        };
        if fallible::push(&mut waiters, waiter).is_err() {
            drop(waiters);
            // Without memory to wait it is woken for no reason, as futex(2) allows, once the others
            // have run.
            sched::poll();
            return Ok(());
        }
    }
    let nobody = WaitQueue::new();
    let result = nobody.wait(deadline, || woken.load(Ordering::Acquire).then_some(()));
    if !woken.load(Ordering::Acquire) {
        WAITERS
            .lock()
            .retain(|waiter| !Arc::ptr_eq(&waiter.woken, &woken));
    }
    match result? {
        Some(()) => Ok(()),
        None => Err(Errno::ETIMEDOUT),
    }
}

/// FUTEX_WAKE_BITSET: wakes at most `count` waiters whose bitsets meet; returns how many.
pub fn wake(word: Word, count: u32, bitset: u32) -> Result<u64> {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key(word)?;
    Ok(wake_key(key, count, bitset))
}

/// At the end of a thread: a thread that joins it may wait on the word as private or as shared.
pub fn wake_address(at: UserPtr<u32>, count: u32) {
    for private in [true, false] {
        // An address that is not mapped has no waiters.
        let _ = wake(Word { at, private }, count, u32::MAX);
    }
}

fn wake_key(key: Key, count: u32, bitset: u32) -> u64 {
    let mut waiters = WAITERS.lock();
    let mut woken = 0;
    waiters.retain(|waiter| {
        let hit = woken < u64::from(count) && waiter.key == key && waiter.bitset & bitset != 0;
        if hit {
            woken += 1;
            // Pairs with the load in `wait`.
            waiter.woken.store(true, Ordering::Release);
            sched::wake(&waiter.task);
        }
        !hit
    });
    woken
}

/// FUTEX_CMP_REQUEUE (`expected`) and FUTEX_REQUEUE: wakes `wake` waiters and makes at most
/// `move_on` others wait on the word `target`. Returns how many were woken or moved. EINVAL for
/// counts below 0.
pub fn requeue(
    word: Word,
    target: Word,
    wake: u32,
    move_on: u32,
    expected: Option<u32>,
) -> Result<u64> {
    if i32::try_from(wake | move_on).is_err() {
        return Err(Errno::EINVAL);
    }
    let (from, to) = (key(word)?, key(target)?);
    if let Some(expected) = expected
        && load(word)? != expected
    {
        return Err(Errno::EAGAIN);
    }
    let woken = wake_key(from, wake, u32::MAX);
    let mut waiters = WAITERS.lock();
    let moved = waiters
        .iter_mut()
        .filter(|waiter| waiter.key == from)
        .take(move_on as usize);
    let moved = moved.map(|waiter| waiter.key = to).count();
    Ok(woken + moved as u64)
}

/// FUTEX_WAKE_OP: changes the word `target` as `operation` says, wakes `count` waiters of
/// `word` and, when the old value passes the comparison, `count2` of `target`.
pub fn wake_op(word: Word, target: Word, count: u32, count2: u32, operation: u32) -> Result<u64> {
    let (first, second) = (key(word)?, key(target)?);
    let old = change_word(target, operation)?;
    let too = compare(old, operation)?;
    let mut woken = wake_key(first, count, u32::MAX);
    if too {
        woken += wake_key(second, count2, u32::MAX);
    }
    Ok(woken)
}

/// A 12-bit argument with its sign.
fn signed12(bits: u32) -> i32 {
    ((bits << 20) as i32) >> 20
}

fn change_word(target: Word, operation: u32) -> Result<u32> {
    let argument = signed12(operation >> 12) as u32;
    let argument = if operation & 1 << 31 != 0 {
        1 << (argument & 31)
    } else {
        argument
    };
    loop {
        let old = load(target)?;
        let new = match operation >> 28 & 7 {
            0 => argument,
            1 => old.wrapping_add(argument),
            2 => old | argument,
            3 => old & !argument,
            4 => old ^ argument,
            _ => return Err(Errno::ENOSYS),
        };
        if uaccess::compare_exchange_u32(target.at.address(), old, new)? == old {
            return Ok(old);
        }
    }
}

fn compare(old: u32, operation: u32) -> Result<bool> {
    let (old, argument) = (old as i32, signed12(operation));
    Ok(match operation >> 24 & 15 {
        0 => old == argument,
        1 => old != argument,
        2 => old < argument,
        3 => old <= argument,
        4 => old > argument,
        5 => old >= argument,
        _ => return Err(Errno::ENOSYS),
    })
}
