//! futex(2): sleeping on a word of user memory. The lists of those who sleep are
//! [`locks::Sleepers`]; the kernel lock is not needed.

use crate::base::errno::{Errno, Result};
use crate::base::machine::Object;
use crate::base::ranks;
use crate::base::uaccess;
use crate::base::user_ptr::UserPtr;
use crate::process::task::{self, Task};
use crate::sched;
use crate::sched::wait;
use alloc::sync::Arc;
use fallible::OutOfMemory;
use locks::{Key, Place, Sleeper, Sleepers};
use mm::addr::{PAGE_SIZE, VirtAddr};
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
#[derive(Clone)]
struct Home {
    of: usize,
    offset: u64,
    /// The object, so that no other one gets its address while somebody sleeps. A space is kept by
    /// the thread that sleeps.
    _object: Option<Arc<Object>>,
}

impl PartialEq for Home {
    fn eq(&self, other: &Self) -> bool {
        (self.of, self.offset) == (other.of, other.offset)
    }
}

impl Key for Home {
    /// By Fibonacci hashing (D. Knuth, The Art of Computer Programming 3, 6.4): words of one
    /// structure go to different buckets.
    fn hash(&self) -> usize {
        let word = (self.of as u64 >> 4) ^ (self.offset >> 2);
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
    }
}

/// A thread that sleeps on a word.
struct Waiter(Arc<Task>);

impl Sleeper for Waiter {
    fn place(&self) -> &Place {
        &self.0.futex
    }
    fn wake(&self) {
        sched::wake(&self.0);
    }
}

/// Lists of those who sleep.
const BUCKETS: usize = 256;

static WAITERS: Sleepers<Home, Waiter, { ranks::FUTEX }, BUCKETS> = Sleepers::new();

/// The identity of a word: EINVAL unless it is aligned, EFAULT unless it is an address of user
/// mode. Without `private` the word has to be mapped, and be writable or a file's; in shared memory
/// every mapping gives the same.
fn home(word: Word) -> Result<Home> {
    let (address, private) = (word.at.address(), word.private);
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    uaccess::check(address, 4)?;
    let task = task::current();
    let space = task
        .space
        .with(|space| core::ptr::from_ref(&**space).addr());
    let own = Home {
        of: space.ok_or(Errno::EFAULT)?,
        offset: address,
        _object: None,
    };
    if private {
        return Ok(own);
    }
    let vma = loop {
        // It waits for a change of the VMAs, and fails where there is none for good.
        load(word)?;
        let found = task.space.with(|space| space.vma_at(VirtAddr(address)));
        if let Some(vma) = found.flatten() {
            break vma;
        }
    };
    let of_a_file = matches!(vma.backing, Backing::Object { .. });
    if !vma.prot.contains(Prot::WRITE) && !of_a_file {
        return Err(Errno::EFAULT);
    }
    Ok(match &vma.backing {
        Backing::Object { object, offset, .. } if vma.flags.contains(VmaFlags::SHARED) => Home {
            of: Arc::as_ptr(object.object()).addr(),
            offset: offset * PAGE_SIZE + (address - vma.range.start.0),
            _object: Some(object.object().clone()),
        },
        _ => own,
    })
}

fn load(word: Word) -> Result<u32> {
    uaccess::load_u32(word.at.address())
}

/// Why a look at a word ends a call, or makes it begin anew.
enum Refusal {
    /// The word is not in memory.
    Absent,
    Error(Errno),
}

impl From<OutOfMemory> for Refusal {
    fn from(_: OutOfMemory) -> Self {
        Refusal::Error(Errno::ENOMEM)
    }
}

type Look<T = ()> = core::result::Result<T, Refusal>;

/// Looks at a word under locks, where there must be no page fault. EAGAIN: it differs.
fn look(word: Word, expected: u32) -> Look {
    match uaccess::load_u32_in_memory(word.at.address()) {
        Ok(value) if value == expected => Ok(()),
        Ok(_) => Err(Refusal::Error(Errno::EAGAIN)),
        Err(_) => Err(Refusal::Absent),
    }
}

/// Calls `act` with the identity of a word, and again as long as it finds the word absent.
/// ERESTARTSYS: the thread is to end.
fn at_home<T>(word: Word, mut act: impl FnMut(Home) -> Look<T>) -> Result<T> {
    loop {
        match act(home(word)?) {
            Ok(value) => return Ok(value),
            Err(Refusal::Error(errno)) => return Err(errno),
            Err(Refusal::Absent) => {
                load(word)?;
                if sched::breathe() {
                    return Err(Errno::ERESTARTSYS);
                }
            }
        }
    }
}

/// FUTEX_WAIT_BITSET: sleeps while the word holds `expected`, until `deadline` (ns since boot).
/// EAGAIN: it holds something else. ETIMEDOUT, ERESTARTSYS.
pub fn wait(word: Word, expected: u32, bitset: u32, deadline: Option<u64>) -> Result {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let task = task::current();
    let entered = at_home(word, |home| {
        let waiter = Waiter(task.clone());
        WAITERS.enter(home, bitset, waiter, || look(word, expected))
    });
    if entered == Err(Errno::ENOMEM) {
        // Without memory to wait it is woken for no reason, as futex(2) allows, once the others
        // have run.
        sched::poll();
        return Ok(());
    }
    entered?;
    let slept = wait::wait_any(&[], deadline, || task.futex.is_out().then_some(()));
    // One that was woken counts as woken, whatever came at the same time: the waker has counted it.
    if WAITERS.leave(&task.futex) {
        return Ok(());
    }
    slept.and(Err(Errno::ETIMEDOUT))
}

/// FUTEX_WAKE_BITSET: wakes at most `count` waiters whose bitsets meet; returns how many.
pub fn wake(word: Word, count: u32, bitset: u32) -> Result<u64> {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(wake_home(&home(word)?, count, bitset))
}

fn wake_home(home: &Home, count: u32, bitset: u32) -> u64 {
    WAITERS.wake(home, count as usize, bitset) as u64
}

/// At the end of a thread: a thread that joins it may wait on the word as private or as shared.
pub fn wake_address(at: UserPtr<u32>, count: u32) {
    for private in [true, false] {
        // An address that is not mapped has no waiters.
        let _ = wake(Word { at, private }, count, u32::MAX);
    }
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
    let (wake, move_on) = (wake as usize, move_on as usize);
    let done = at_home(word, |from| {
        let to = home(target).map_err(Refusal::Error)?;
        let look = || expected.map_or(Ok(()), |expected| look(word, expected));
        WAITERS.requeue(&from, &to, wake, move_on, look)
    })?;
    Ok(done as u64)
}

/// FUTEX_WAKE_OP: changes the word `target` as `operation` says, wakes `count` waiters of
/// `word` and, when the old value passes the comparison, `count2` of `target`.
pub fn wake_op(word: Word, target: Word, count: u32, count2: u32, operation: u32) -> Result<u64> {
    let (first, second) = (home(word)?, home(target)?);
    let old = change_word(target, operation)?;
    let too = compare(old, operation)?;
    let mut woken = wake_home(&first, count, u32::MAX);
    if too {
        woken += wake_home(&second, count2, u32::MAX);
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
