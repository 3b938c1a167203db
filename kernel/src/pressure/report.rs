//! The OOM report in the log, in Linux's format: memory by use, free blocks by size, the processes,
//! and the victim.

use crate::base::machine::mm;
use crate::process::task::{self, Process, Task};
use crate::sched;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write;
use mm::addr::PAGE_SIZE;
use mm::frame::zone::Zone;

/// Rows of the table of processes; a machine has few, a fork bomb has thousands.
const ROWS: usize = 64;

/// A number of pages in kB.
fn kb(pages: u64) -> u64 {
    (pages * PAGE_SIZE) >> 10
}

/// Logs the shortage: the thread that invoked the OOM killer, memory by use, free blocks by size,
/// the processes.
pub fn shortage(task: &Arc<Task>, total: u64) {
    let process = task.process();
    log::warn!(
        "{} invoked oom-killer: order=0, oom_score_adj={}",
        task.comm(),
        process.oom.get()
    );
    log::warn!("CPU: 0 PID: {} Comm: {}", process.pid(), task.comm());
    log::warn!("Mem-Info:");
    let c = mm().counts();
    log::warn!(
        "active_anon:{} shmem:{} kernel:{} pagetables:{} free:{} of {total} pages",
        c.anon,
        c.object,
        c.kernel,
        c.page_tables,
        c.free
    );
    let slots = mm().slots();
    if slots.total() != 0 {
        let stored = mm().stored();
        let pages = |bytes: u64| bytes.div_ceil(PAGE_SIZE);
        log::warn!(
            "swap slots:{} free:{} stored:{} pages in {}",
            slots.total(),
            slots.free(),
            pages(stored.original),
            pages(stored.used)
        );
    }
    mm().allocator().zones().iter().for_each(zone);
    processes();
}

/// A zone's marks, and its free blocks by size: `DMA32: 3*4kB 1*8kB ... = 20kB`.
fn zone(zone: &Zone) {
    let (marks, name) = (zone.marks(), zone.name);
    log::warn!(
        "{name} free:{}kB min:{}kB low:{}kB high:{}kB managed:{}kB",
        kb(zone.look(|buddy| buddy.free_frames())),
        kb(marks.min),
        kb(marks.low),
        kb(marks.high),
        kb(zone.managed)
    );
    let by_mobility = zone.look(|buddy| buddy.blocks());
    let mut line = String::new();
    let mut sum = 0;
    for order in 0..by_mobility[0].len() {
        let n: u64 = by_mobility.iter().map(|blocks| blocks[order]).sum();
        let _ = write!(line, " {n}*{}kB", kb(1 << order));
        sum += n << order;
    }
    log::warn!("{name}:{line} = {}kB", kb(sum));
}

fn processes() {
    log::warn!("Tasks state (memory values in pages):");
    log::warn!(
        "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes oom_score_adj name"
    );
    let with_memory = task::in_steps(task::processes()).filter_map(|process| {
        let usage = process.space.with(|space| space.usage())?;
        Some((process, usage))
    });
    for (process, u) in with_memory.take(ROWS) {
        // A row is made of ten numbers, and goes over a serial line.
        sched::breathe();
        log::warn!(
            "[{:7}] {:5} {:5} {:8} {:8} {:8} {:8} {:9} {:14} {:13} {}",
            process.pid(),
            process.credentials(|c| c.uid[0]),
            process.pid(),
            u.mapped.total,
            u.rss.total(),
            u.rss.resident_anon(),
            u.rss.file,
            u.rss.shmem,
            u.page_tables * PAGE_SIZE,
            process.oom.get(),
            process.comm()
        );
    }
    let all = task::in_steps(task::processes()).count();
    if all > ROWS {
        log::warn!("... of {all} processes");
    }
}

/// Logs the victim; the one line that a quiet console shows, too.
pub fn killed(process: &Process) {
    let u = process
        .space
        .with(|space| space.usage())
        .unwrap_or_default();
    log::error!(
        "Out of memory: Killed process {} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:{}kB, shmem-rss:{}kB, UID:{} pgtables:{}kB oom_score_adj:{}",
        process.pid(),
        process.comm(),
        kb(u.mapped.total),
        kb(u.rss.resident_anon()),
        kb(u.rss.file),
        kb(u.rss.shmem),
        process.credentials(|c| c.uid[0]),
        kb(u.page_tables),
        process.oom.get()
    );
}
