//! flock(2): locks on whole files, held by open files.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::sched::wait::WaitQueue;
use alloc::collections::BTreeMap;
use mm::sync::Lock;

/// Who holds a lock, or may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The file by its device and number.
    pub file: (u64, u64),
    /// The open file by its address: it lives as long as the lock.
    pub owner: usize,
}

/// Locks that are held, and whether they are exclusive.
static HELD: Lock<BTreeMap<Holder, bool>, { ranks::OPEN_FILE }> = Lock::new(BTreeMap::new());
/// A lock was released.
static RELEASED: WaitQueue = WaitQueue::new();

/// Takes or changes a lock, or waits for it; EAGAIN when it must not wait.
pub fn lock(holder: Holder, exclusive: bool, nonblocking: bool) -> Result {
    // A change gives up the old lock first, as flock(2) warns.
    unlock(holder);
    if try_lock(holder, exclusive) {
        return Ok(());
    }
    if nonblocking {
        return Err(Errno::EAGAIN);
    }
    RELEASED
        .wait(None, || try_lock(holder, exclusive).then_some(()))
        .map(drop)
}

fn try_lock(holder: Holder, exclusive: bool) -> bool {
    let mut held = HELD.lock();
    // An exclusive lock is the only one of its file.
    let [least, most] = [0, usize::MAX].map(|owner| Holder { owner, ..holder });
    let first = held.range(least..=most).next();
    let free = first.is_none_or(|(_, held)| !exclusive && !held);
    // Without memory for the lock it is not taken; the caller waits or gets EAGAIN.
    if !free || fallible::check().is_err() {
        return false;
    }
    held.insert(holder, exclusive);
    true
}

/// Releases a lock, if it is held.
pub fn unlock(holder: Holder) {
    HELD.lock().remove(&holder);
    RELEASED.wake_all();
}
