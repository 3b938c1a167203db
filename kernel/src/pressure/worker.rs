//! The thread that reclaims unused memory: cached kernel stacks, pages of large folios that are not
//! mapped any more (deferred splits), pages of droppable memory, and the pages on the lists of all
//! CPUs.
//!
//! It does so without the kernel lock, in steps. Who lacks memory asks, and sleeps until some was
//! stored, or until a round that began afterwards is over; one round is for all who have asked
//! before it. A round for nobody begins when free memory is below its low marks, and stores cold
//! pages until it is above the high ones.

use crate::base::kstack;
use crate::base::machine::mm;
use crate::base::requests;
use crate::process::task;
use crate::sched::kernel_lock;
use crate::sched::wait::WaitQueue;
use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use mm::frame::zone::Zone;

/// Requests so far.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// Those of them that a round that is over was for.
static SERVED: AtomicU64 = AtomicU64::new(0);
/// Pages that were stored so far.
static FREED: AtomicU64 = AtomicU64::new(0);
/// How many pages a round stores at most, and after how many of them those who wait try again.
const BATCH: u64 = 1024;
const STEP: u64 = 32;
/// Free memory is below its low marks: a round for nobody is to begin.
static IS_TIGHT: AtomicBool = AtomicBool::new(false);
/// The last such round found no cold page. There is none until a round stores something.
static ALL_HOT: AtomicBool = AtomicBool::new(false);
/// vm.swappiness: 0, no round for nobody. There is nothing but private memory to choose from, so
/// that no other values differ.
pub static SWAPPINESS: AtomicI64 = AtomicI64::new(60);
static REQUESTS: WaitQueue = WaitQueue::new();
static ENDS: WaitQueue = WaitQueue::new();

/// Rounds in a row that have left hardly any memory.
static FRUITLESS: AtomicU64 = AtomicU64::new(0);

/// Whether rounds only give programs the few pages back that they wait for next.
pub fn is_hopeless() -> bool {
    FRUITLESS.load(Relaxed) >= 3
}
/// A process ends: the next rounds are asked anew.
pub fn hope_again() {
    FRUITLESS.store(0, Relaxed);
}

/// Starts the thread, before there are programs.
pub fn start() {
    task::spawn_kernel_thread(b"reclaim", run).expect("there is memory at boot");
}

/// Has cold pages stored, for who does not wait for them.
pub fn wake() {
    let may = SWAPPINESS.load(Relaxed) != 0 && !ALL_HOT.load(Relaxed);
    if may && !IS_TIGHT.swap(true, Release) {
        REQUESTS.wake_all();
    }
}

/// Has memory reclaimed that is not used, or not lately. Sleeps: no lock may be held but the kernel
/// lock. Returns how many pages were stored meanwhile; `None`: the thread is to end.
pub fn reclaim() -> Option<u64> {
    let before = FREED.load(Relaxed);
    let number = ASKED.fetch_add(1, Release) + 1;
    REQUESTS.wake_all();
    let is_served = || {
        let enough = FREED.load(Acquire) - before >= STEP;
        (enough || SERVED.load(Acquire) >= number).then_some(())
    };
    ENDS.wait_killable(is_served).ok()?;
    Some(FREED.load(Relaxed) - before)
}

fn run() -> ! {
    kernel_lock::leave();
    loop {
        let next = || {
            let asked = ASKED.load(Acquire);
            let is_tight = IS_TIGHT.load(Acquire);
            (is_tight || asked != SERVED.load(Relaxed)).then_some(asked)
        };
        // No signal reaches the thread.
        let Ok(Some(asked)) = REQUESTS.wait(None, next) else {
            continue;
        };
        match asked == SERVED.load(Relaxed) {
            true => {
                let stored = store(|want| mm().reclaim_cold(want));
                ALL_HOT.store(stored == 0, Relaxed);
            }
            false => {
                round();
                SERVED.store(asked, Release);
                ENDS.wake_all();
            }
        }
        IS_TIGHT.store(false, Release);
    }
}

fn round() {
    kstack::shrink();
    mm().for_each_space(&mut |space| {
        space.split_deferred();
        space.drop_droppable();
    });
    let stored = store(|want| mm().reclaim(want));
    if stored != 0 {
        ALL_HOT.store(false, Relaxed);
    }
    mm().drain_pcp();
    // Each CPU drains its own, and has done so when it has answered. One asks at a time.
    kernel_lock::with(requests::barrier);
    let left: u64 = mm().allocator().zones().iter().map(Zone::for_users).sum();
    if stored < STEP && left < STEP {
        FRUITLESS.fetch_add(1, Relaxed);
    } else {
        hope_again();
    }
}

/// Stores pages by `f` until memory is not tight, there are no more, or it is a batch of them.
fn store(f: impl Fn(u64) -> u64) -> u64 {
    let mut all = 0;
    loop {
        let stored = f(STEP);
        all += stored;
        FREED.fetch_add(stored, Release);
        if stored == 0 || all >= BATCH || !mm().allocator().is_tight() {
            return all;
        }
        ENDS.wake_all();
    }
}
