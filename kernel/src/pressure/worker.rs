//! The thread that reclaims unused memory: cached kernel stacks, pages of large folios that are not
//! mapped any more (deferred splits), pages of droppable memory, and the pages on the lists of all
//! CPUs.
//!
//! It does so without the kernel lock, in steps. Who lacks memory asks, and sleeps until some was
//! freed, or until a round that began afterwards is over; one round is for all who have asked
//! before it. A round for nobody begins when free memory is below its low marks, and stores cold
//! pages until it is above the high ones.
//!
//! *Progress* is frames: the pages that a round stores, less the frames that the store takes for
//! them, are to be [`STEP`] for each thread that waits, or as many are to be free at its end.
//! Programs that find less only move the same pages into the store and back, or wait for pages that
//! cannot be stored: after [`FRUITLESS`] such rounds there is no progress, however many pages were
//! stored.

use crate::base::kstack;
use crate::base::machine::mm;
use crate::base::requests;
use crate::process::task;
use crate::sched::wait::WaitQueue;
use crate::sched::{self, kernel_lock};
use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::Machine;
use mm::thp::PMD_ORDER;

/// Requests so far.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// Those of them that a round that is over was for.
static SERVED: AtomicU64 = AtomicU64::new(0);
/// Threads that wait.
static WAITING: AtomicU64 = AtomicU64::new(0);
/// Pages that were stored so far.
static STORED: AtomicU64 = AtomicU64::new(0);
/// Frames that this has gained.
static GAINED: AtomicU64 = AtomicU64::new(0);
/// Rounds in a row without progress.
static IN_VAIN: AtomicU64 = AtomicU64::new(0);
/// Frames that a round is to gain for each thread that waits.
const STEP: u64 = 32;
/// A thread tries again when so many were gained for each that waits, or [`STEP`] in all.
const FEW: u64 = 4;
/// Who wants a folio takes smaller ones when so many pages were stored meanwhile: two units.
const ENOUGH: u64 = 32;
/// Pages that are stored before those who wait are looked after.
const PAGES: u64 = 8;
/// How many pages a round stores at most: enough for [`MOST`] threads, if a quarter of what is
/// stored is gained, as of all that is worth it.
const BATCH: u64 = 4 * MOST * STEP;
const MOST: u64 = 32;
/// After so many rounds without progress the OOM killer is asked: one may have come while others
/// took what it had gained.
const FRUITLESS: u64 = 3;
/// Free memory is below its low marks: a round for nobody is to begin.
static IS_TIGHT: AtomicBool = AtomicBool::new(false);
/// Memory is in pieces: it is to be compacted.
static IN_PIECES: AtomicBool = AtomicBool::new(false);
/// The last such round found no cold page. There is none until a round stores something.
static ALL_HOT: AtomicBool = AtomicBool::new(false);
/// vm.swappiness: 0, no round for nobody. A page of a file costs as much to store as a private one,
/// so that there is nothing to weigh, and no other values differ.
pub static SWAPPINESS: AtomicI64 = AtomicI64::new(60);
/// The thread does something.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);
static REQUESTS: WaitQueue = WaitQueue::new();
static ENDS: WaitQueue = WaitQueue::new();

/// Whether the thread has something to do.
pub fn is_running() -> bool {
    IS_RUNNING.load(Relaxed)
}

/// Waits until the thread has ended what it does: it has nothing of what was dropped meanwhile.
pub fn settle() {
    // A thread that is to end need not know.
    let _ = ENDS.wait_killable(|| (!IS_RUNNING.load(Acquire)).then_some(()));
}

/// Whether the rounds that were made last had progress.
pub fn has_hope() -> bool {
    IN_VAIN.load(Relaxed) == 0
}

/// A process ends: progress is counted anew.
pub fn hope_again() {
    IN_VAIN.store(0, Relaxed);
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

/// Has memory compacted, for who does not wait for that.
pub fn wake_to_compact() {
    if !IN_PIECES.swap(true, Release) {
        REQUESTS.wake_all();
    }
}

/// Has memory reclaimed that is not used, or not lately, for a thread whose `attempt` to get some
/// it was (from 0). Sleeps: no lock may be held but the kernel lock. Returns whether there is
/// progress, so that it may try again; `None`: the thread is to end.
pub fn reclaim(attempt: u32) -> Option<bool> {
    let before = GAINED.load(Relaxed);
    let gained = || GAINED.load(Acquire) - before;
    wait(|waiting| gained() >= STEP.min(FEW * waiting))?;
    // What is not stored comes back once.
    let some = attempt == 0 || gained() > 0;
    Some(some && IN_VAIN.load(Relaxed) < FRUITLESS)
}

/// The same until there is a folio of this order, while that takes no more than [`ENOUGH`].
pub fn reclaim_for(order: Order) {
    let before = STORED.load(Relaxed);
    let is_over = || mm().allocator().has_block(order) || STORED.load(Acquire) - before >= ENOUGH;
    // A thread that is to end finds that out later.
    wait(|_| is_over());
}

/// Waits for reclaim until there `is_enough` for so many threads that wait, or a round is over;
/// `None`: the thread is to end.
fn wait(is_enough: impl Fn(u64) -> bool) -> Option<()> {
    let number = ASKED.fetch_add(1, Release) + 1;
    let waiting = WAITING.fetch_add(1, Relaxed) + 1;
    REQUESTS.wake_all();
    let is_served = || (is_enough(waiting) || SERVED.load(Acquire) >= number).then_some(());
    let served = ENDS.wait_killable(is_served);
    WAITING.fetch_sub(1, Relaxed);
    served.ok()
}

fn run() -> ! {
    kernel_lock::leave();
    loop {
        let next = || {
            let asked = ASKED.load(Acquire);
            let is_for_nobody = IS_TIGHT.load(Acquire) || IN_PIECES.load(Acquire);
            (is_for_nobody || asked != SERVED.load(Relaxed)).then_some(asked)
        };
        // No signal reaches the thread.
        let Ok(Some(asked)) = REQUESTS.wait(None, next) else {
            continue;
        };
        IS_RUNNING.store(true, Relaxed);
        if IN_PIECES.swap(false, Acquire) {
            compact_for(PMD_ORDER);
        }
        match asked == SERVED.load(Relaxed) {
            true if !IS_TIGHT.load(Acquire) => {}
            true => {
                let (stored, _) = store(0, |want| mm().reclaim_cold(want));
                ALL_HOT.store(stored == 0, Relaxed);
            }
            false => {
                round();
                SERVED.store(asked, Release);
                ENDS.wake_all();
            }
        }
        IS_TIGHT.store(false, Release);
        IS_RUNNING.store(false, Release);
        ENDS.wake_all();
    }
}

/// Has a block of this order freed by moving pages, unless that would be in vain, after each CPU
/// has given back what is in its lists; returns whether there is one. No lock may be held but the
/// kernel lock.
pub fn compact_for(order: Order) -> bool {
    if !mm().may_compact(order) {
        return false;
    }
    drain_all();
    let mut found = false;
    mm().machine()
        .unlocked(&mut || found = mm().compact_for(order));
    found
}
/// Has all pageblocks emptied that can be; as [`compact_for`].
pub fn compact_all() {
    drain_all();
    mm().machine().unlocked(&mut || mm().compact_all());
}
/// Each CPU drains its own lists, and has done so when it has answered. One asks at a time.
fn drain_all() {
    mm().drain_pcp();
    kernel_lock::with(requests::barrier);
}

fn round() {
    let needed = needed();
    kstack::shrink();
    mm().for_each_living(&mut |space| {
        space.split_deferred();
        space.drop_droppable();
    });
    let (stored, gained) = store(needed, |want| mm().reclaim(want));
    if stored != 0 {
        ALL_HOT.store(false, Relaxed);
    }
    drain_all();
    let left = mm().allocator().free_for_users();
    match gained.max(left) < needed {
        true => IN_VAIN.fetch_add(1, Relaxed),
        false => IN_VAIN.swap(0, Relaxed),
    };
}

/// Frames for those who wait.
fn needed() -> u64 {
    STEP * WAITING.load(Relaxed).min(MOST)
}

/// Stores pages by `f` until memory is not tight and so many frames are gained, and those who wait
/// have enough, there are no more, or it is a batch of them. Returns how many were stored, and the
/// frames gained by that.
fn store(needed_before: u64, f: impl Fn(u64) -> u64) -> (u64, u64) {
    let (mut all, mut gained) = (0, 0);
    loop {
        let used = mm().stored().used;
        let stored = f(PAGES);
        let taken = mm().stored().used.saturating_sub(used) / PAGE_SIZE;
        let more = stored.saturating_sub(taken);
        (all, gained) = (all + stored, gained + more);
        GAINED.fetch_add(more, Release);
        STORED.fetch_add(stored, Release);
        let is_enough = gained >= needed_before.max(needed()) && !mm().allocator().is_tight();
        if stored == 0 || all >= BATCH || is_enough {
            return (all, gained);
        }
        ENDS.wake_all();
        sched::yield_now();
    }
}
