//! Boots the machines of a comparison, a few at the same time.
use super::counted::{Counted, Counting};
use super::listener::Listener;
use super::record::{Job, Record};
use super::{Kernels, LIMIT, SILENCE};
use crate::test::console;
use anyhow::Result;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Each machine needs a CPU and its memory.
const MOST: usize = 4;

/// Takes the jobs in their order; returns when all are done. After an interruption it does not
/// return: the process ends.
pub fn run(
    kernels: &Kernels,
    jobs: &[Job<'_>],
    workers: Option<u32>,
    record: &Record,
) -> Result<()> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = workers.map_or(cpus.min(MOST), |workers| workers as usize);
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if record.is_over() {
                break;
            }
            boot(kernels, job, record)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ends.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
    })?;
    while record.is_over() {
        thread::park();
    }
    Ok(())
}

fn boot(kernels: &Kernels, job: &Job<'_>, record: &Record) -> Result<()> {
    let group = job.group;
    let counted = kernels.counting.as_ref().map(Counting::boot);
    let line = kernels.program(&group.line);
    let mut machine = kernels.machine(job.arch, job.side, group.mib, group.cpus, &line)?;
    machine.plugin = counted.as_ref().map(Counted::plugin);
    let mut listener = Listener::new(record, job, counted);
    let boot = console::watch_patiently(&machine, LIMIT, SILENCE, |piece| listener.hear(piece));
    listener.end(&boot);
    Ok(())
}
