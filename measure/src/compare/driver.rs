//! Boots the machines of a comparison, a few at the same time.
use super::counted::{Counted, Counting};
use super::listener::Listener;
use super::record::{Job, Record};
use super::{Kernels, LIMIT, SILENCE};
use anyhow::Result;
use std::thread;
use tools::host::workers;
use tools::machine::console;

/// Takes the jobs in their order; returns when all are done. After an interruption it does not
/// return: the process ends.
pub fn run(
    kernels: &Kernels,
    jobs: &[Job<'_>],
    workers: Option<u32>,
    record: &Record,
) -> Result<()> {
    let ran = workers::map(jobs, workers::of_machines(workers), |job| {
        match record.is_over() {
            true => Ok(()),
            false => boot(kernels, job, record),
        }
    });
    ran.into_iter().collect::<Result<()>>()?;
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
