//! flock(2): locks on whole files, held by open files.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::open::file::OpenFile;
use crate::sched::wait::WaitQueue;
use alloc::collections::BTreeMap;
use mm::sync::Lock;

/// A file by its device and number.
type File = (u64, u64);
/// The open file that holds a lock, by its address: it lives as long as the lock.
type Owner = usize;

/// Locks that are held, and whether they are exclusive.
static HELD: Lock<BTreeMap<(File, Owner), bool>, { ranks::OPEN_FILE }> = Lock::new(BTreeMap::new());
/// A lock was released.
static RELEASED: WaitQueue = WaitQueue::new();

fn identity(file: &OpenFile) -> (File, Owner) {
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
    // An exclusive lock is the only one of its file.
    let first = held.range((file, 0)..=(file, Owner::MAX)).next();
    let free = first.is_none_or(|(_, held)| !exclusive && !held);
    // Without memory for the lock it is not taken; the caller waits or gets EAGAIN.
    if !free || fallible::check().is_err() {
        return false;
    }
    held.insert((file, owner), exclusive);
    true
}

/// Releases the open file's lock, if it holds one.
pub fn unlock(file: &OpenFile) {
    HELD.lock().remove(&identity(file));
    RELEASED.wake_all();
}
