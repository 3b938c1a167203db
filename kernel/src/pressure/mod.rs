//! Out of memory: reclaim, then the OOM killer, which ends the process whose end frees most memory.
//! The kernel's own allocations are from what user memory leaves to it (`mm`'s reserve), and
//! programs are refused before that is used up ([`crate::base::room`]).
//!
//! ```text
//! no memory for a fault, fork, mmap ...
//!    |  wait until memory is reclaimed ([`worker`]), try again
//!    |  no progress: is an OOM victim ending already?  no: select one, log it, SIGKILL
//!    |  wait until its memory is back, try again
//!    v  or until this thread is to end itself
//! ```

mod report;
pub mod stall;
mod victim;
pub mod worker;

pub use victim::score_of;

use crate::base::above::Above;
use crate::base::errno::Errno;
use crate::base::heap;
use crate::base::kstack;
use crate::base::machine::{Space, mm};
use crate::base::ranks;
use crate::base::room;
use crate::fs::caller::Frames;
use crate::process::signal::{self, SIGKILL, SigInfo};
use crate::process::task::{self, Process, Task, TaskState, Work};
use crate::sched::{self, Reserves, Thread, kernel_lock};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::addr::Order;
use mm::sync::Lock;

/// The last OOM victim; it may have ended since.
static VICTIM: Lock<Option<Weak<Process>>, { ranks::PROCESS_TABLE }> = Lock::new(None);
static KILLS: AtomicU64 = AtomicU64::new(0);

/// Processes that ended because memory was short (`oom_kill` in /proc/vmstat).
pub fn kills() -> u64 {
    KILLS.load(Relaxed)
}

/// There was no memory for what the running thread does, for the `attempt`-th time (from 0).
/// `true`: it may try again; `false`: it is to end. May sleep, so no lock may be held but the
/// kernel lock, which is.
pub fn make_room(task: &Arc<Task>, attempt: u32) -> bool {
    debug_assert!(kernel_lock::is_mine());
    if task.sched.work().contains(Work::EXIT) || signal::interrupts(task, TaskState::Killable) {
        return false;
    }
    if task.sched.work().contains(Work::HEAP_FAILS) {
        // There is memory, but fault injection denies it to this process.
        signal::kill_current(task);
        return false;
    }
    match stall::waiting(|| worker::reclaim(attempt)) {
        None => return false,
        Some(true) => return true,
        Some(false) => {}
    }
    if !is_one_dying() && !kill_one(task) {
        return false;
    }
    let is_back = || (!is_one_dying()).then_some(());
    stall::waiting(|| task::MEMORY_IS_BACK.wait_killable(is_back)).is_ok()
}

/// Has memory reclaimed or compacted for a folio, which smaller ones can replace: nobody is killed
/// for it. May sleep, so no lock may be held.
#[cold]
pub fn make_room_for(task: &Arc<Task>, order: Order) {
    let is_tight = mm().is_worth_waiting(order);
    if task.sched.work().contains(Work::HEAP_FAILS) || is_tight && !worker::has_hope() {
        return;
    }
    stall::waiting(|| match is_tight {
        true => kernel_lock::with(|| worker::reclaim_for(order)),
        false => drop(worker::compact_for(order)),
    });
}

/// Whether an action, before which there were so many stalls ([`mm::Mm::stalls`]), has failed for
/// want of frames, of which some are there now. May sleep, as [`make_room`].
#[cold]
pub fn makes_room(task: &Arc<Task>, stalls_before: u64, attempt: u32) -> bool {
    let short = || mm().stalls() != stalls_before || room::check(Errno::ENOMEM).is_err();
    let make_room = || make_room(task, attempt);
    !task.sched.work().contains(Work::HEAP_FAILS) && short() && kernel_lock::with(make_room)
}

impl Frames for Above {
    #[inline]
    fn come(stalls: u64, attempt: u32) -> bool {
        // Without swap only the end of a process brings some, and a file may as well be full.
        let task = sched::current().filter(|_| mm().slots().total() != 0);
        task.is_some_and(|task| makes_room(&task, stalls, attempt))
    }
}

impl crate::fs::room::Reclaim for Above {
    #[inline]
    fn comes(attempt: u32) -> bool {
        let task = sched::current().filter(|task| mm().slots().total() != 0 && !task.is_kernels());
        let fails = |task: &Arc<Task>| task.sched.work().contains(Work::HEAP_FAILS);
        let reclaim = || stall::waiting(|| worker::reclaim(attempt));
        // No process is killed for a file.
        task.is_some_and(|task| !fails(&task) && kernel_lock::with(reclaim) == Some(true))
    }
}

/// How often room is made for a refill before it is put off.
const ATTEMPTS: u32 = 4;

/// Refills the reserves of user memory and of the heap after a system call that has used them, and
/// has pages stored when free memory is below its low marks. May sleep, so no lock may be held.
pub fn refill(task: &Arc<Task>) {
    task.sched.clear_work(Work::MAKE_ROOM);
    if mm().allocator().is_tight() {
        worker::wake();
    }
    if mm().wants_compaction() {
        worker::wake_to_compact();
    }
    if task.is_kernels() {
        // The thread of reclaim would wait for itself.
        heap::reserve::refill();
        return;
    }
    for attempt in 0..ATTEMPTS {
        let whole = heap::reserve::refill();
        let short = attempt < 2 && mm().allocator().free_for_users() == 0;
        if whole && !short || !make_room(task, attempt) {
            return;
        }
    }
}

impl Reserves for Above {
    #[inline]
    fn refill(task: &Arc<Task>) {
        kernel_lock::with(|| refill(task));
    }
}

/// The part of [`worker::reclaim`] that may be done under any lock of the kernel crate below
/// [`ranks::KERNEL_STACKS`].
pub fn reclaim_under_locks(task: &Task) {
    kstack::shrink();
    task.space.with(|space| space.split_deferred());
    mm().drain_pcp();
}

/// Whether the OOM victim still has its memory.
fn is_one_dying() -> bool {
    let chosen = VICTIM.lock().as_ref().and_then(Weak::upgrade);
    chosen.is_some_and(|process| process.has_memory())
}

/// Selects an OOM victim and kills it, and every process that shares its memory. `false`: there is
/// no killable process, so the running one ends.
fn kill_one(task: &Arc<Task>) -> bool {
    let (total, kills_before) = (mm().counts().total, kills());
    report::shortage(task, total);
    let chosen = victim::choose(total);
    // Other threads ran meanwhile, and one has selected a victim. Be it gone already: what it had
    // may do for this one, too.
    if kills() != kills_before {
        return true;
    }
    let Some(victim) = chosen else {
        log::error!(
            "Out of memory and no killable processes: {} ends",
            task.process().pid()
        );
        signal::kill_current(task);
        return false;
    };
    worker::hope_again();
    *VICTIM.lock() = Some(Arc::downgrade(&victim));
    report::killed(&victim);
    KILLS.fetch_add(1, Relaxed);
    // Weak: the victim may end while the processes that share its space are looked for.
    let space = victim.space.with(Space::downgrade).unwrap_or_default();
    for process in task::in_steps(task::processes()) {
        let shares = process.space.with(|own| space.is(own));
        if shares == Some(true) || Arc::ptr_eq(&process, &victim) {
            signal::send_process(&process, SigInfo::kernel(SIGKILL));
        }
    }
    true
}
