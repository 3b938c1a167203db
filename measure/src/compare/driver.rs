//! Boots the machines of a comparison, a few at the same time.
use super::listener::Listener;
use super::program;
use super::record::{Job, Record};
use crate::bench;
use crate::counting::{Counted, Counting};
use crate::kernels::Kernels;
use anyhow::Result;
use std::thread;
use tools::host::workers;
use tools::machine::qemu::Machine;

/// Takes the jobs in their order; returns when all are done. After an interruption it does not
/// return: the process ends.
pub fn run(
    kernels: &Kernels,
    jobs: &[Job<'_>],
    workers: Option<u32>,
    record: &Record,
) -> Result<()> {
    let ran = workers::map(jobs, workers::of_machines(workers), |job| {
        match record.store.is_over() {
            true => Ok(()),
            false => boot(kernels, job, record),
        }
    });
    ran.into_iter().collect::<Result<()>>()?;
    while record.store.is_over() {
        thread::park();
    }
    Ok(())
}

/// The machine of a boot.
pub fn machine(kernels: &Kernels, job: &Job<'_>) -> Result<Machine> {
    let group = job.group;
    let line = program(kernels, &group.line);
    let mut machine = kernels.machine(job.arch, job.side, group.mib, group.cpus, &line)?;
    if group.swaps {
        kernels.swap(&mut machine, job.side);
    }
    Ok(machine)
}

fn boot(kernels: &Kernels, job: &Job<'_>, record: &Record) -> Result<()> {
    let counted = kernels.counting.as_ref().map(Counting::boot);
    let mut machine = machine(kernels, job)?;
    machine.plugin = counted.as_ref().map(Counted::plugin);
    let mut listener = Listener::new(record, job, counted);
    let boot = bench::watch(&machine, |piece| listener.hear(piece));
    listener.end(&boot);
    Ok(())
}
