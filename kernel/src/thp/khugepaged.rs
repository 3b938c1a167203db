//! khugepaged: collapses small folios into folios of PMD size, in a thread of its own.
//!
//! Each round looks at as many pages as `pages_to_scan` says, eight ranges by default, and then
//! sleeps. Between two ranges other threads get the CPU, so a round may be of any length.

use crate::base::machine::{AddressSpace, Vma, mm};
use crate::base::ranks;
use crate::pressure::worker;
use crate::process::task::{self, Pid};
use crate::sched;
use crate::sched::timers;
use crate::sched::wait::WaitQueue;
use mm::Collapse;
use mm::addr::{VirtAddr, VirtRange};
use mm::sync::Lock;
use mm::thp::khugepaged::Knob;
use mm::thp::policy::block;
use mm::thp::{Khugepaged, PMD_ORDER};
use mm::vma::Backing;

/// Shortest sleep between two rounds, in ns: programs run, too.
const LEAST_SLEEP: u64 = 1_000_000;

/// Settings have changed since the thread looked.
static CHANGED: Lock<bool, { ranks::TASK }> = Lock::new(false);
static SLEEPS: WaitQueue = WaitQueue::new();

fn model() -> &'static Khugepaged {
    &mm().thp().khugepaged
}

/// Starts the thread.
pub fn start() {
    if let Err(error) = task::spawn_kernel_thread(b"khugepaged", run) {
        log::warn!("no khugepaged: {error:?}");
    }
}

/// Settings have changed: the next round comes when they say, or never.
pub fn settings_changed() {
    *CHANGED.lock() = true;
    SLEEPS.wake_all();
}

fn run() -> ! {
    let mut place = ScanCursor {
        pid: 0,
        at: VirtAddr(0),
    };
    let mut sleep = Knob::ScanSleep;
    loop {
        let wanted = mm().thp().controls.orders(true).contains(PMD_ORDER);
        let ms = u64::from(model().get(sleep));
        let next = timers::now() + (ms * 1_000_000).max(LEAST_SLEEP);
        let changed = || core::mem::take(&mut *CHANGED.lock()).then_some(());
        sleep = match SLEEPS.wait(wanted.then_some(next), changed) {
            Ok(None) => round(&mut place),
            // No signal reaches the thread.
            _ => Knob::ScanSleep,
        };
    }
}

/// Scan position: a process, and an address in it.
struct ScanCursor {
    pid: Pid,
    at: VirtAddr,
}

/// One round; returns how long to sleep after it.
fn round(place: &mut ScanCursor) -> Knob {
    let mut budget = u64::from(model().get(Knob::PagesToScan));
    while budget > 0 {
        // No reference is held while other threads run: a process that ends frees its memory.
        let Some(process) = task::processes_after(place.pid - 1).next() else {
            model().count_full_scan();
            (place.pid, place.at) = (0, VirtAddr(0));
            return Knob::ScanSleep;
        };
        if process.pid() != place.pid {
            (place.pid, place.at) = (process.pid(), VirtAddr(0));
        }
        let step = process
            .space
            .with(Clone::clone)
            .map(|space| step(&space, place.at));
        drop(process);
        match step {
            Some(Step::Looked { next }) => {
                place.at = next;
                budget = budget.saturating_sub(PMD_ORDER.pages());
            }
            Some(Step::Passed { next }) => place.at = next,
            Some(Step::NoMem) => return Knob::AllocSleep,
            Some(Step::End) | None => (place.pid, place.at) = (place.pid + 1, VirtAddr(0)),
        }
        sched::breathe();
        sched::yield_now();
    }
    Knob::ScanSleep
}

/// What one step did in a space.
enum Step {
    /// It looked at a range.
    Looked { next: VirtAddr },
    /// It passed over what cannot be collapsed.
    Passed { next: VirtAddr },
    /// There is no more.
    End,
    /// There is no folio.
    NoMem,
}

/// Looks at the next range in a space from `at` on in which something is mapped.
fn step(space: &AddressSpace, at: VirtAddr) -> Step {
    let Some(vma) = space.vma_from(at) else {
        return Step::End;
    };
    let next = vma.range.end;
    let blocks = whole_blocks(vma.range, at);
    let used = blocks.filter(|_| may_collapse(space, &vma));
    let Some(at) = used.and_then(|blocks| space.first_used(blocks)) else {
        return Step::Passed { next };
    };
    let range = block(at, PMD_ORDER);
    let collapse = || space.collapse(range.start, model().limits());
    let collapsed = match collapse() {
        Collapse::NoMem if model().get(Knob::Defrag) != 0 && worker::compact_for(PMD_ORDER) => {
            collapse()
        }
        collapsed => collapsed,
    };
    match collapsed {
        Collapse::Done => model().count_collapsed(),
        Collapse::NoMem => return Step::NoMem,
        _ => {}
    }
    Step::Looked { next: range.end }
}

/// The blocks of PMD size in `range` from `at` on; `None` when there is none.
fn whole_blocks(range: VirtRange, at: VirtAddr) -> Option<VirtRange> {
    let bytes = PMD_ORDER.bytes();
    let start = range.start.max(at).align_up(bytes)?;
    let end = range.end.align_down(bytes);
    (start < end).then(|| VirtRange::new(start, end))
}

fn may_collapse(space: &AddressSpace, vma: &Vma) -> bool {
    let orders = vma.orders(&mm().thp().controls, space.thp_permit());
    matches!(vma.backing, Backing::Anon) && orders.contains(PMD_ORDER)
}
