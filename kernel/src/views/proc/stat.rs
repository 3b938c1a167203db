//! /proc/PID/stat, statm, schedstat: figures in one line.

use super::subject::Subject;
use crate::base::errno::Result;
use crate::fs::devices;
use crate::fs::kinds::pseudo::Text;
use crate::fs::tty;
use crate::process::task::{ProcessTimes, Resource};
use mm::Usage;
use mm::addr::PAGE_SIZE;

/// Nanoseconds of a clock tick: USER_HZ is 100.
pub const TICK: u64 = 10_000_000;

/// CPU time of a process, or of the one thread.
fn times(subject: &Subject) -> ProcessTimes {
    let all = subject.process.times();
    match &subject.task {
        None => all,
        Some(task) => ProcessTimes {
            user: task.sched.times.user(),
            system: task.sched.times.system(),
            ..all
        },
    }
}

/// Figures of the address space; zeros once it is gone.
pub fn usage(subject: &Subject) -> Usage {
    subject
        .process
        .space
        .get()
        .map(|space| space.usage())
        .unwrap_or_default()
}

/// The CPU that the thread runs on or ran on last; of a process its first thread.
fn last_cpu(subject: &Subject) -> usize {
    let first = || subject.process.threads().next();
    let task = subject.task.clone().or_else(first);
    task.map_or(0, |task| task.sched.last_cpu())
}

/// /proc/PID/stat: 52 fields.
pub fn show(subject: &Subject, out: &mut Text) -> Result {
    let process = &subject.process;
    let (name, state) = match &subject.task {
        Some(task) => (task.comm(), task.sched.state_letter()),
        None => (process.comm(), process.state()),
    };
    let (times, usage, image) = (times(subject), usage(subject), process.image());
    let (all, of_children) = process.faults();
    let faults = subject.task.as_ref().map_or(all, |task| task.faults.get());
    let foreground = tty::foreground_of(process.sid());
    let terminal = if foreground.is_some() {
        devices::TERMINAL.encode()
    } else {
        0
    };
    let [pending, _, blocked, ignored, caught] = process.signal_sets();
    let nice = process.nice();
    let rss = usage.rss.total();
    // Fields 1 to 13: identity, faults.
    out.put(format_args!(
        "{} ({name}) {state} {} {} {} {terminal} {} 4194560 {} {} {} {} ",
        subject.number(),
        process.ppid(),
        process.pgid(),
        process.sid(),
        foreground.unwrap_or(-1),
        faults.minor,
        of_children.minor,
        faults.major,
        of_children.major,
    ));
    // 14 to 22: times, priority, threads, start.
    out.put(format_args!(
        "{} {} {} {} {} {nice} {} 0 {} ",
        times.user / TICK,
        times.system / TICK,
        times.children_user / TICK,
        times.children_system / TICK,
        20 + nice,
        process.with_threads(|threads| threads.len()),
        process.start_ns() / TICK,
    ));
    // 23 to 30: memory, text, stack.
    out.put(format_args!(
        "{} {rss} {} {} {} {} 0 0 ",
        usage.mapped.total * PAGE_SIZE,
        process.limits().soft(Resource::Rss),
        image.code.start.0,
        image.code.end.0,
        image.stack.0,
    ));
    // 31 to 44: signals, then scheduling.
    out.put(format_args!(
        "{pending} {blocked} {ignored} {caught} 0 0 0 17 {} 0 0 0 0 0 ",
        last_cpu(subject),
    ));
    // 45 to 52: data, heap, arguments, environment, exit code.
    out.put(format_args!(
        "{} {} {} {} {} {} {} {}\n",
        image.data.start.0,
        image.data.end.0,
        image.brk.0,
        image.args.start.0,
        image.args.end.0,
        image.env.start.0,
        image.env.end.0,
        process.exit_status(),
    ));
    Ok(())
}

/// /proc/PID/statm: pages.
pub fn statm(subject: &Subject, out: &mut Text) -> Result {
    let usage = usage(subject);
    let shared = usage.rss.file + usage.rss.shmem;
    out.put(format_args!(
        "{} {} {shared} {} 0 {} 0\n",
        usage.mapped.total,
        usage.rss.resident_anon() + shared,
        usage.mapped.exec,
        usage.mapped.data + usage.mapped.stack,
    ));
    Ok(())
}

/// /proc/PID/schedstat: time on the CPU, waiting for it, time slices.
pub fn schedstat(subject: &Subject, out: &mut Text) -> Result {
    let times = times(subject);
    out.put(format_args!("{} 0 0\n", times.user + times.system));
    Ok(())
}
