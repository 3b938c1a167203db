//! flock(2): locks on whole files, held by open files.

use crate::errno::{Errno, Result};
use crate::fs::file::OpenFile;
use crate::ranks;
use crate::wait::WaitQueue;
use alloc::vec::Vec;
use mm::sync::Lock;

/// A lock that is held.
struct Held {
    /// Device and number of the file.
    file: (u64, u64),
    /// The open file that holds it, by its address: it lives as long as the lock.
    owner: usize,
    exclusive: bool,
}

static HELD: Lock<Vec<Held>, { ranks::OPEN_FILE }> = Lock::new(Vec::new());
/// A lock was released.
static RELEASED: WaitQueue = WaitQueue::new();

fn identity(file: &OpenFile) -> ((u64, u64), usize) {
    let node = file.place.inode.node();
    ((node.device, node.number), core::ptr::from_ref(file).addr())
}

/// Takes or changes a lock, or waits for it; EAGAIN when it must not wait.
pub fn lock(file: &OpenFile, exclusive: bool, nonblocking: bool) -> Result {
    // A change gives up the old lock first, as flock(2) warns.
    unlock(file);
    file.set_locked();
    if try_lock(file, exclusive) {
        return Ok(());
    }
    if nonblocking {
        return Err(Errno::EAGAIN);
    }
    RELEASED
        .wait(None, || try_lock(file, exclusive).then_some(()))
        .map(drop)
}

fn try_lock(file: &OpenFile, exclusive: bool) -> bool {
    let (file, owner) = identity(file);
    let mut held = HELD.lock();
    let free = !held
        .iter()
        .any(|h| h.file == file && (exclusive || h.exclusive));
    if free {
        // Without memory for the lock nobody gets it; the caller waits or is told EAGAIN.
        if fallible::reserve(&mut *held, 1).is_err() {
            return false;
        }
        held.push(Held {
            file,
            owner,
            exclusive,
        });
    }
    free
}

/// Releases the open file's lock, if it holds one.
pub fn unlock(file: &OpenFile) {
    let (_, owner) = identity(file);
    HELD.lock().retain(|held| held.owner != owner);
    RELEASED.wake_all();
}
