//! /proc/PID/status, limits, io: one figure a line.

use super::stat::usage;
use super::subject::Subject;
use crate::base::errno::Result;
use crate::fs::kinds::pseudo::Text;
use crate::process::task::{self, Capabilities, Resource};
use crate::process::trace;
use alloc::format;
use alloc::string::String;
use mm::addr::PAGE_SIZE;

/// /proc/PID/status.
pub fn show(subject: &Subject, out: &mut Text) -> Result {
    identity(subject, out);
    if subject.process.space.get().is_some() {
        memory(subject, out);
    }
    signals(subject, out);
    scheduling(subject, out);
    Ok(())
}

fn state_name(letter: char) -> &'static str {
    match letter {
        'R' => "R (running)",
        'S' => "S (sleeping)",
        'D' => "D (disk sleep)",
        'T' => "T (stopped)",
        't' => "t (tracing stop)",
        _ => "Z (zombie)",
    }
}

fn identity(subject: &Subject, out: &mut Text) {
    let process = &subject.process;
    let (name, state) = match &subject.task {
        Some(task) => (task.comm(), task.sched.state_letter()),
        None => (process.comm(), process.state()),
    };
    let thread = subject.thread();
    let umask = thread
        .as_ref()
        .and_then(|task| task.try_fs())
        .map_or(0, |fs| fs.umask());
    let files = thread
        .and_then(|task| task.try_files())
        .map_or(0, |files| files.size());
    let (uid, gid, groups) = process.credentials(|c| (c.uid, c.gid, c.groups.clone()));
    let (pid, tid) = (process.pid(), subject.number());
    out.put(format_args!(
        "Name:\t{name}\nUmask:\t{umask:04o}\nState:\t{}\n",
        state_name(state)
    ));
    let tracer = subject.thread().map_or(0, |task| trace::tracer_of(&task));
    out.put(format_args!(
        "Tgid:\t{pid}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{}\nTracerPid:\t{tracer}\n",
        process.ppid()
    ));
    out.put(format_args!(
        "Uid:\t{}\t{}\t{}\t{}\n",
        uid[0], uid[1], uid[2], uid[1]
    ));
    out.put(format_args!(
        "Gid:\t{}\t{}\t{}\t{}\n",
        gid[0], gid[1], gid[2], gid[1]
    ));
    out.put(format_args!("FDSize:\t{files}\nGroups:\t"));
    // There may be 65,536.
    task::in_steps(groups.iter()).for_each(|group| out.put(format_args!("{group} ")));
    out.put(format_args!("\n"));
    out.put(format_args!(
        "NStgid:\t{pid}\nNSpid:\t{tid}\nNSpgid:\t{}\nNSsid:\t{}\n",
        process.pgid(),
        process.sid()
    ));
    out.put(format_args!("Kthread:\t0\n"));
}

fn kb(out: &mut Text, name: &str, pages: u64) {
    out.put(format_args!(
        "{name}:\t{:>8} kB\n",
        pages * (PAGE_SIZE >> 10)
    ));
}

fn memory(subject: &Subject, out: &mut Text) {
    let usage = usage(subject);
    let image = subject.process.image();
    let text = image.code.len().div_ceil(PAGE_SIZE);
    let space = subject.process.space.get();
    let large = space.is_some_and(|space| !space.thp_permit().is_none());
    kb(out, "VmPeak", usage.peak_total);
    kb(out, "VmSize", usage.mapped.total);
    kb(out, "VmLck", usage.mapped.locked);
    kb(out, "VmPin", 0);
    kb(out, "VmHWM", usage.rss.peak);
    kb(out, "VmRSS", usage.rss.total());
    kb(out, "RssAnon", usage.rss.resident_anon());
    kb(out, "RssFile", usage.rss.file);
    kb(out, "RssShmem", usage.rss.shmem);
    kb(out, "VmData", usage.mapped.data);
    kb(out, "VmStk", usage.mapped.stack);
    kb(out, "VmExe", text);
    kb(out, "VmLib", usage.mapped.exec.saturating_sub(text));
    kb(out, "VmPTE", usage.page_tables);
    kb(out, "VmSwap", usage.rss.swapped);
    kb(out, "HugetlbPages", usage.rss.hugetlb);
    out.put(format_args!(
        "CoreDumping:\t0\nTHP_enabled:\t{}\nuntag_mask:\t0xffffffffffffffff\n",
        u8::from(large)
    ));
}

fn signals(subject: &Subject, out: &mut Text) {
    let process = &subject.process;
    let queue_limit = process.limits().soft(Resource::SigPending);
    let [pending, shared, blocked, ignored, caught] = process.signal_sets();
    out.put(format_args!(
        "Threads:\t{}\n",
        process.with_threads(|threads| threads.len())
    ));
    out.put(format_args!(
        "SigQ:\t{}/{queue_limit}\n",
        crate::process::signal::queued()
    ));
    for (name, set) in [
        ("SigPnd", pending),
        ("ShdPnd", shared),
        ("SigBlk", blocked),
        ("SigIgn", ignored),
        ("SigCgt", caught),
    ] {
        out.put(format_args!("{name}:\t{set:016x}\n"));
    }
    let capabilities = process.credentials(|it| it.capabilities);
    for (name, set) in [
        ("CapInh", capabilities.inheritable),
        ("CapPrm", capabilities.permitted),
        ("CapEff", capabilities.effective),
        ("CapBnd", Capabilities::ALL),
        ("CapAmb", 0),
    ] {
        out.put(format_args!("{name}:\t{set:016x}\n"));
    }
    out.put(format_args!(
        "NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"
    ));
    out.put(format_args!(
        "Speculation_Store_Bypass:\tunknown\nSpeculationIndirectBranch:\tunknown\n"
    ));
}

fn scheduling(subject: &Subject, out: &mut Text) {
    let (voluntary, involuntary) = subject
        .thread()
        .map_or((0, 0), |task| task.sched.switches());
    out.put(format_args!(
        "Cpus_allowed:\t1\nCpus_allowed_list:\t0\nMems_allowed:\t1\nMems_allowed_list:\t0\n"
    ));
    out.put(format_args!(
        "voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{involuntary}\n"
    ));
}

const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

/// /proc/PID/limits.
pub fn limits(subject: &Subject, out: &mut Text) -> Result {
    let limits = subject.process.limits();
    let value = |value: u64| {
        if value == u64::MAX {
            String::from("unlimited")
        } else {
            format!("{value}")
        }
    };
    out.put(format_args!(
        "{:<25} {:<20} {:<20} {:<10}\n",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    ));
    for (number, (name, unit)) in LIMITS.iter().enumerate() {
        let (soft, hard) = limits.get(number)?;
        out.put(format_args!(
            "{name:<25} {:<20} {:<20} {unit:<10}\n",
            value(soft),
            value(hard)
        ));
    }
    Ok(())
}

/// /proc/PID/io: transfers are not counted.
pub fn io(_: &Subject, out: &mut Text) -> Result {
    for name in [
        "rchar",
        "wchar",
        "syscr",
        "syscw",
        "read_bytes",
        "write_bytes",
        "cancelled_write_bytes",
    ] {
        out.put(format_args!("{name}: 0\n"));
    }
    Ok(())
}
