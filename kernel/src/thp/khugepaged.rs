//! khugepaged: makes folios of PMD size out of smaller ones, in nobody's time.
//!
//! Linux has a thread for it. This kernel has no threads of its own, and its interrupts come only where no lock is held (in
//! user mode, while nobody runs, between two pieces of a transfer), so it is a work item of the timer: each round looks
//! at as many pages as `pages_to_scan` says, eight ranges by default, and sets the time for the next.

use crate::machine::{AddressSpace, mm};
use crate::ranks;
use crate::task::{self, Pid};
use crate::timers::{self, Action, TimerId};
use mm::addr::VirtAddr;
use mm::space::Collapse;
use mm::sync::Lock;
use mm::thp::khugepaged::Knob;
use mm::thp::policy::{allowed, block};
use mm::thp::{Khugepaged, PMD_ORDER};
use mm::vma::{Backing, VmaFlags};

/// Between two rounds at least, in ns: programs get on, too.
const LEAST_SLEEP: u64 = 1_000_000;

struct Scan {
    /// The time of the next round; `None` while no area may have folios of this size.
    timer: Option<TimerId>,
    /// Where the next round goes on: a process, and an address in it.
    next: (Pid, VirtAddr),
}

static SCAN: Lock<Scan, { ranks::TASK }> = Lock::new(Scan {
    timer: None,
    next: (0, VirtAddr(0)),
});

fn model() -> &'static Khugepaged {
    &mm().thp().khugepaged
}

/// Settings have changed: the next round comes when they say, or never.
pub fn settings_changed() {
    arm(Knob::ScanSleep);
}

/// Sets the time of the next round.
fn arm(sleep: Knob) {
    let mut scan = SCAN.lock();
    if let Some(timer) = scan.timer.take() {
        timers::cancel(timer);
    }
    if mm().thp().controls.orders(true).contains(PMD_ORDER) {
        let sleep = u64::from(model().get(sleep)) * 1_000_000;
        let at = timers::now() + sleep.max(LEAST_SLEEP);
        scan.timer = Some(timers::set(at, Action::Khugepaged));
    }
}

/// One round; called by the timer.
pub fn round() {
    let mut budget = u64::from(model().get(Knob::PagesToScan));
    let (first, mut from) = SCAN.lock().next;
    let mut sleep = Knob::ScanSleep;
    for process in task::processes() {
        if process.pid() < first {
            continue;
        }
        let start = if process.pid() == first {
            from
        } else {
            VirtAddr(0)
        };
        let Some(space) = process.space() else {
            continue;
        };
        from = start;
        match scan(&space, &mut from, &mut budget) {
            Outcome::Through => {}
            stopped => {
                SCAN.lock().next = (process.pid(), from);
                if matches!(stopped, Outcome::NoMem) {
                    sleep = Knob::AllocSleep;
                }
                return arm(sleep);
            }
        }
    }
    model().count_full_scan();
    SCAN.lock().next = (0, VirtAddr(0));
    arm(sleep);
}

/// How the scan of a space ended.
enum Outcome {
    /// With its last area.
    Through,
    /// With the pages of this round.
    Enough,
    /// For want of a folio.
    NoMem,
}

/// Goes on in a space from `at`, which is moved along.
fn scan(space: &AddressSpace, at: &mut VirtAddr, budget: &mut u64) -> Outcome {
    let limits = model().limits();
    while let Some(vma) = space.vma_from(*at) {
        let has = |flag| vma.flags.contains(flag);
        let orders = allowed(
            &mm().thp().controls,
            has(VmaFlags::HUGEPAGE),
            has(VmaFlags::NOHUGEPAGE),
            space.thp_disable(),
        );
        let may = matches!(vma.backing, Backing::Anon) && orders.contains(PMD_ORDER);
        let mut range = block(vma.range.start.max(*at), PMD_ORDER);
        if range.start < vma.range.start {
            range = block(range.end, PMD_ORDER);
        }
        while may && range.end <= vma.range.end {
            *at = range.start;
            if *budget == 0 {
                return Outcome::Enough;
            }
            *budget = budget.saturating_sub(PMD_ORDER.pages());
            match space.collapse(range.start, limits) {
                Collapse::Done => model().count_collapsed(),
                Collapse::NoMem => return Outcome::NoMem,
                _ => {}
            }
            range = block(range.end, PMD_ORDER);
        }
        *at = vma.range.end;
    }
    Outcome::Through
}
