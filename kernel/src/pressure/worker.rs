//! The thread that reclaims unused memory: cached kernel stacks, pages of large folios that are not
//! mapped any more (deferred splits), pages of droppable memory, and the pages on the lists of all
//! CPUs.
//!
//! It does so without the kernel lock, in steps. Who lacks memory asks, and sleeps until a round
//! that began afterwards is over; one round is for all who have asked before it.

use crate::base::kstack;
use crate::base::machine::mm;
use crate::base::requests;
use crate::process::task;
use crate::sched::kernel_lock;
use crate::sched::wait::WaitQueue;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Requests so far.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// Those of them that a round that is over was for.
static SERVED: AtomicU64 = AtomicU64::new(0);
/// Pages that were stored so far.
static FREED: AtomicU64 = AtomicU64::new(0);
/// How many pages a round stores.
const BATCH: u64 = 1024;
static REQUESTS: WaitQueue = WaitQueue::new();
static ENDS: WaitQueue = WaitQueue::new();

/// Starts the thread, before there are programs.
pub fn start() {
    task::spawn_kernel_thread(b"reclaim", run).expect("there is memory at boot");
}

/// Has memory reclaimed that is not used, or not lately. Sleeps: no lock may be held but the kernel
/// lock. Returns how many pages were stored meanwhile; `None`: the thread is to end.
pub fn reclaim() -> Option<u64> {
    let before = FREED.load(Relaxed);
    let number = ASKED.fetch_add(1, Release) + 1;
    REQUESTS.wake_all();
    let is_served = || (SERVED.load(Acquire) >= number).then_some(());
    ENDS.wait_killable(is_served).ok()?;
    Some(FREED.load(Relaxed) - before)
}

fn run() -> ! {
    kernel_lock::leave();
    loop {
        let next = || {
            let asked = ASKED.load(Acquire);
            (asked != SERVED.load(Relaxed)).then_some(asked)
        };
        // No signal reaches the thread.
        if let Ok(Some(asked)) = REQUESTS.wait(None, next) {
            round();
            SERVED.store(asked, Release);
            ENDS.wake_all();
        }
    }
}

fn round() {
    kstack::shrink();
    mm().for_each_space(&mut |space| {
        space.split_deferred();
        space.drop_droppable();
    });
    FREED.fetch_add(mm().reclaim(BATCH), Relaxed);
    mm().drain_pcp();
    // Each CPU drains its own, and has done so when it has answered. One asks at a time.
    kernel_lock::with(requests::barrier);
}
