//! The check of all invariants of the memory manager ([`mm::check`]) in the running kernel, with
//! all CPUs at a rendezvous: for tests, which ask for it in `/sys/kernel/mm/quire/check`. It
//! panics on a violation.
//!
//! It needs a moment at which nothing is half done. No CPU is in the memory manager then; and no
//! thread may have been stopped between two steps of a call ([`crate::sched::breathe`]), or have an
//! address space that no thread or process has yet, or has any more.

use super::task::{self, Work};
use crate::base::errno::{Errno, Result};
use crate::base::machine::{Space, kernel_space, mm};
use crate::base::requests;
use crate::base::room;
use crate::sched::{self, kernel_lock};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::addr::PAGE_SIZE;
use mm::check::BYTES_FOR_PAGE;

/// How often a moment is looked for in one call.
const ATTEMPTS: u32 = 16;
/// Frames for what does not grow with memory.
const FRAMES: u64 = 512;

static DONE: AtomicU64 = AtomicU64::new(0);

/// How often everything was checked since boot.
pub fn count() -> u64 {
    DONE.load(Relaxed)
}

/// Checks everything. EAGAIN: there was always something half done; ENOMEM: memory is too short to
/// note what is found, or allocations of this thread fail on purpose; EINTR: it is to end.
pub fn all() -> Result {
    if task::with_current(|task| task.sched.work().contains(Work::HEAP_FAILS)) {
        return Err(Errno::ENOMEM);
    }
    for _ in 0..ATTEMPTS {
        match requests::rendezvous(now) {
            Err(Errno::EAGAIN) => let_others_finish()?,
            done => return done,
        }
    }
    Err(Errno::EAGAIN)
}

/// Lets threads that wait for this CPU or for the kernel lock go on.
fn let_others_finish() -> Result {
    let suspended = kernel_lock::suspend();
    sched::yield_now();
    kernel_lock::resume(suspended);
    match sched::breathe() {
        true => Err(Errno::EINTR),
        false => Ok(()),
    }
}

/// [`all`] if this is a good moment, at a rendezvous.
fn now() -> Result {
    if sched::is_any_paused() {
        return Err(Errno::EAGAIN);
    }
    let spaces = spaces();
    if spaces.len() != mm().spaces() {
        return Err(Errno::EAGAIN);
    }
    if !room::leaves_enough(frames_for(&spaces)) {
        return Err(Errno::ENOMEM);
    }
    // Files that nothing maps are not listed anywhere.
    mm::check::all(mm(), &spaces, None, kernel_space().tables());
    DONE.fetch_add(1, Relaxed);
    Ok(())
}

/// Frames that the check may need to note what it finds.
fn frames_for(spaces: &[Space]) -> u64 {
    let counts = mm().counts();
    let mapped: u64 = spaces.iter().map(|space| space.usage().rss.total()).sum();
    FRAMES + (counts.anon + counts.object + mapped) * BYTES_FOR_PAGE / PAGE_SIZE
}

/// The address spaces of all threads and processes, each once.
fn spaces() -> Vec<Space> {
    let of_tasks = task::tasks_after(0).filter_map(|task| task.space.get());
    let of_processes = task::processes().filter_map(|process| process.space.get());
    let mut spaces: Vec<_> = of_tasks.chain(of_processes).collect();
    spaces.push(sched::empty_space().clone());
    spaces.sort_unstable_by_key(|space| space.key());
    spaces.dedup_by_key(|space| space.key());
    spaces
}
