//! Whom to end: who frees most.

use crate::errno::{Errno, Result};
use crate::machine::AddressSpace;
use crate::task::{self, Process};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use mm::space::Usage;

/// Spared whatever happens (proc(5), oom_score_adj).
const NEVER: i32 = -1000;
/// Ended before all others.
const FIRST: i32 = 1000;

/// oom_score_adj: what the user thinks of ending a process, from -1000 (never) to 1000 (first).
#[derive(Default)]
pub struct Adjustment(AtomicI32);

impl Adjustment {
    /// A child's is its parent's.
    pub fn inherit(&self) -> Adjustment {
        Adjustment(AtomicI32::new(self.get()))
    }
    /// The number.
    pub fn get(&self) -> i32 {
        self.0.load(Relaxed)
    }
    /// Sets it; EINVAL outside -1000 to 1000.
    pub fn set(&self, value: i64) -> Result {
        let value = i32::try_from(value).map_err(|_| Errno::EINVAL)?;
        if !(NEVER..=FIRST).contains(&value) {
            return Err(Errno::EINVAL);
        }
        self.0.store(value, Relaxed);
        Ok(())
    }
}

/// How many pages a process counts for, of `total` in the machine: what its end would free, and a share of all memory as
/// it was adjusted. `None`: it is to be spared.
pub(super) fn points(usage: &Usage, adjustment: i32, total: u64) -> Option<i64> {
    if adjustment == NEVER {
        return None;
    }
    let own = usage.rss_anon + usage.rss_file + usage.rss_shmem + usage.page_tables;
    Some(own as i64 + i64::from(adjustment) * total as i64 / 1000)
}

/// /proc/PID/oom_score: 0 to 1000 and more, as Linux scales it.
pub fn score_of(process: &Process, total: u64) -> i64 {
    let usage = process
        .with_space(|space| space.usage())
        .unwrap_or_default();
    match points(&usage, process.oom.get(), total) {
        Some(points) => (1000 + points * 1000 / total as i64) * 2 / 3,
        None => 0,
    }
}

/// The process that counts for most. Not PID 1, nor who runs in its memory (a child of vfork); not who has none, nor who
/// is spared.
pub(super) fn choose(total: u64) -> Option<Arc<Process>> {
    let init = task::find(1).and_then(|process| process.space());
    let may = |process: &Process, space: &Arc<AddressSpace>| {
        process.pid() != 1 && !init.as_ref().is_some_and(|init| Arc::ptr_eq(init, space))
    };
    let mut worst: Option<(i64, Arc<Process>)> = None;
    for process in task::processes() {
        let Some(space) = process.space().filter(|space| may(&process, space)) else {
            continue;
        };
        let Some(points) = points(&space.usage(), process.oom.get(), total) else {
            continue;
        };
        if worst.as_ref().is_none_or(|(most, _)| points > *most) {
            worst = Some((points, process));
        }
    }
    worst.map(|(_, process)| process)
}

ktest::ktest! {
    /// Points follow size and adjustment: resident pages and tables, adjustment, and the points of 10,000.
    fn oom_points(ctx) {
        for (rss, tables, adjustment, wanted) in [
            (0, 0, 0, Some(0)),
            (100, 20, 0, Some(120)),
            (100, 20, 500, Some(5120)),
            (100, 20, -10, Some(20)),
            (100, 20, -999, Some(120 - 9990)),
            (100, 20, NEVER, None),
            (0, 0, FIRST, Some(10_000)),
        ] {
            let usage = Usage {
                rss_anon: rss,
                page_tables: tables,
                ..Usage::default()
            };
            ktest::check_eq!(ctx, points(&usage, adjustment, 10_000), wanted);
        }
    }
}
