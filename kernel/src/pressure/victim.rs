//! Selection of the OOM victim: the process whose end brings most memory back.

use crate::base::machine::{AddressSpace, Space};
use crate::process::task::{self, NEVER, Process};
use alloc::sync::Arc;
use mm::vma::Backing;

/// Badness of a process, in pages of `total` in the machine: the `freed` ones that its end brings
/// back, and the share of all memory that oom_score_adj stands for. `None`: it is exempt.
pub(super) fn points(freed: u64, adjustment: i32, total: u64) -> Option<i64> {
    if adjustment == NEVER {
        return None;
    }
    Some(freed as i64 + i64::from(adjustment) * total as i64 / 1000)
}

/// Pages that come back when the processes that use a space end: its private memory, be it stored
/// or not, and its tables, and what it maps of objects that nothing else has. A file with a name
/// keeps its pages.
fn freed(space: &AddressSpace) -> u64 {
    let usage = space.usage();
    let own = usage.rss.anon + usage.rss.swapped + usage.page_tables;
    match usage.rss.file + usage.rss.shmem {
        0 => own,
        of_objects => own + of_objects.min(kept_by_mappings(space)),
    }
}

/// Pages of the objects that a space maps and no file keeps. Of an object that others map,
/// too, its share by mappings.
fn kept_by_mappings(space: &AddressSpace) -> u64 {
    let mut pages = 0;
    space.for_each_vma(&mut |vma| {
        if let Backing::Object { object, file, .. } = &vma.backing
            && !file.as_ref().is_some_and(|file| file.keeps_pages())
        {
            // Two references are this copy of the area and the file.
            let others = Arc::strong_count(object.object()) - 1 - usize::from(file.is_some());
            pages += object.pages() / others.max(1) as u64;
        }
    });
    pages
}

/// /proc/PID/oom_score: 0 to 1000 and more, as Linux scales it.
pub fn score_of(process: &Process, total: u64) -> i64 {
    let freed = process.space.get().map_or(0, |space| freed(&space));
    match points(freed, process.oom.get(), total) {
        Some(points) => (1000 + points * 1000 / total as i64) * 2 / 3,
        None => 0,
    }
}

/// The process with the highest badness. Not PID 1, nor one that has no memory, nor one that is
/// exempt; nor one that shares its memory with such a process, which would keep it. In steps: the
/// caller holds no lock.
pub(super) fn choose(total: u64) -> Option<Arc<Process>> {
    let mut worst: Option<(i64, Arc<Process>)> = None;
    for process in task::in_steps(task::processes()) {
        let Some(space) = process.space.get() else {
            continue;
        };
        let freed = freed(&space);
        let Some(points) = points(freed, process.oom.get(), total) else {
            continue;
        };
        // Of two that count the same, the younger: a child that took nothing of its own yet, whose
        // parent waits to clean up after it.
        let more = worst.as_ref().is_none_or(|(most, _)| points >= *most);
        if more && !is_kept(&space) {
            worst = Some((points, process));
        }
    }
    worst.map(|(_, process)| process)
}

/// Whether the memory of a space stays because a process uses it that does not end.
fn is_kept(space: &Space) -> bool {
    let stays = |process: &Process| process.pid() == 1 || process.oom.get() == NEVER;
    let mut users = task::in_steps(task::processes()).filter(|process| {
        let uses = process.space.with(|own| space.is(own));
        uses == Some(true)
    });
    users.any(|user| stays(&user))
}

ktest::ktest! {
    /// Points follow size and adjustment: freed pages, adjustment, and the points of 10,000.
    fn oom_points(ctx) {
        for (freed, adjustment, wanted) in [
            (0, 0, Some(0)),
            (120, 0, Some(120)),
            (120, 500, Some(5120)),
            (120, -10, Some(20)),
            (120, -999, Some(120 - 9990)),
            (120, NEVER, None),
            (0, 1000, Some(10_000)),
        ] {
            ktest::check_eq!(ctx, points(freed, adjustment, 10_000), wanted);
        }
    }
}
