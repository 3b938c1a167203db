//! /proc/PID and /proc/PID/task/TID: the table, and the small files.

use super::dir::{Item, Make, SubjectDir, node};
use super::subject::{Known, Subject};
use super::{fds, maps, memory, mounts, smaps, stat, status, tables};
use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::fs::kinds::pseudo::Text;
use crate::fs::tree::inode::{DirEntry, Directory, FileKind, Inode, LinkTarget, Node};
use crate::pressure;
use crate::process::task;
use alloc::format;
use alloc::sync::Arc;
use mm::thp::{Permit, sizes};

/// What a process's directory holds.
pub const FILES: &[Item] = &[
    (
        "task",
        Make::Dir(|s| {
            Arc::new(ThreadDirectory {
                node: node(s, FileKind::Directory, 0o555, 1),
                subject: s.known(),
            })
        }),
    ),
    ("fd", Make::Dir(fds::links)),
    ("fdinfo", Make::Dir(fds::infos)),
    ("net", Make::Dir(|s| SubjectDir::entry(s, &[]))),
    ("attr", Make::Dir(|s| SubjectDir::entry(s, &[]))),
    ("status", Make::Show(status::show)),
    ("stat", Make::Show(stat::show)),
    ("statm", Make::Show(stat::statm)),
    ("maps", Make::File(maps::open_maps, 0o444)),
    ("smaps", Make::File(smaps::open_smaps, 0o444)),
    ("smaps_rollup", Make::File(smaps::open_rollup, 0o444)),
    ("pagemap", Make::File(memory::open_pagemap, 0o400)),
    ("page_tables", Make::File(tables::open, 0o400)),
    ("clear_refs", Make::Store(memory::clear_refs)),
    ("mem", Make::File(memory::open_mem, 0o600)),
    (
        "cmdline",
        Make::File(|s| memory::open_strings(s, |image| image.args), 0o444),
    ),
    (
        "environ",
        Make::File(|s| memory::open_strings(s, |image| image.env), 0o444),
    ),
    (
        "auxv",
        Make::File(|s| memory::open_strings(s, |image| image.auxv), 0o444),
    ),
    ("comm", Make::Knob(comm, set_comm)),
    ("exe", Make::Link(exe)),
    (
        "cwd",
        Make::Link(|s| Ok(LinkTarget::Place(context(s)?.cwd()))),
    ),
    (
        "root",
        Make::Link(|s| Ok(LinkTarget::Place(context(s)?.root()))),
    ),
    ("limits", Make::Show(status::limits)),
    ("mounts", Make::File(mounts::open_mounts, 0o444)),
    ("mountinfo", Make::File(mounts::open_mountinfo, 0o444)),
    (
        "oom_score",
        Make::Show(|s, out| out.is(pressure::score_of(&s.process, mm().counts().total))),
    ),
    (
        "oom_score_adj",
        Make::Knob(|s, out| out.is(s.process.oom.get()), set_oom_score_adj),
    ),
    (
        "oom_adj",
        Make::Knob(
            |s, out| out.is(s.process.oom.get() * 17 / 1000),
            set_oom_adj,
        ),
    ),
    ("wchan", Make::Show(|_, out| out.is_bare("0"))),
    ("io", Make::Show(status::io)),
    ("loginuid", Make::Show(|_, out| out.is_bare("4294967295"))),
    ("sessionid", Make::Show(|_, out| out.is_bare("4294967295"))),
    ("cgroup", Make::Show(|_, out| out.is("0::/"))),
    ("personality", Make::Show(|_, out| out.is("00000000"))),
    (
        "coredump_filter",
        Make::Knob(|_, out| out.is("00000033"), accept_number),
    ),
    ("schedstat", Make::Show(stat::schedstat)),
    ("thp_orders", Make::Knob(thp_orders, set_thp_orders)),
    (
        "timerslack_ns",
        Make::Knob(|_, out| out.is(50000), accept_number),
    ),
    ("ksm_stat", Make::Show(|_, out| out.is("ksm_rmap_items 0"))),
];

fn accept_number(_: &Subject, text: &str) -> Result {
    text.parse::<i64>().map(drop).map_err(|_| Errno::EINVAL)
}

/// The sizes of large folios that the process permits itself; not a file of Linux.
fn thp_orders(subject: &Subject, out: &mut Text) -> Result {
    let permit = subject.space()?.thp_permit();
    out.is(sizes::shown(permit.orders()))
}

fn set_thp_orders(subject: &Subject, text: &str) -> Result {
    let orders = sizes::parse(text).map_err(|_| Errno::EINVAL)?;
    subject
        .space()?
        .change_thp_permit(|permit| Permit::new(permit.disable(), orders));
    Ok(())
}

/// Only root may make a process less likely to be ended.
fn set_oom_score_adj(subject: &Subject, text: &str) -> Result {
    let value: i64 = text.parse().map_err(|_| Errno::EINVAL)?;
    let root = task::current().process().credentials(|c| c.euid() == 0);
    if !root && value < i64::from(subject.process.oom.get()) {
        return Err(Errno::EACCES);
    }
    subject.process.oom.set(value)
}

/// The older scale: -17 (never) to 15.
fn set_oom_adj(subject: &Subject, text: &str) -> Result {
    match text.parse() {
        Ok(15) => set_oom_score_adj(subject, "1000"),
        Ok(n @ -17..=14) => set_oom_score_adj(subject, &format!("{}", n * 1000 / 17)),
        _ => Err(Errno::EINVAL),
    }
}

fn context(subject: &Subject) -> Result<Arc<crate::fs::FsContext>> {
    subject
        .thread()
        .and_then(|task| task.try_fs())
        .ok_or(Errno::ENOENT)
}

fn exe(subject: &Subject) -> Result<LinkTarget> {
    let exe = subject.process.exe().ok_or(Errno::ENOENT)?;
    Ok(LinkTarget::Place(exe.place))
}

fn comm(subject: &Subject, out: &mut Text) -> Result {
    match &subject.task {
        Some(task) => out.line(task.comm()),
        None => out.line(subject.process.comm()),
    }
    Ok(())
}

fn set_comm(subject: &Subject, text: &str) -> Result {
    subject
        .thread()
        .ok_or(Errno::ESRCH)?
        .set_comm(text.as_bytes());
    Ok(())
}

/// /proc/PID/task.
struct ThreadDirectory {
    node: Node,
    subject: Known,
}

impl Inode for ThreadDirectory {
    fn node(&self) -> &Node {
        &self.node
    }
    fn directory(&self) -> Option<&dyn Directory> {
        Some(self)
    }
}

impl Directory for ThreadDirectory {
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let process = self.subject.subject()?.process;
        let task = super::parse_number(name)
            .and_then(task::find_task)
            .ok_or(Errno::ENOENT)?;
        if !Arc::ptr_eq(task.process(), &process) {
            return Err(Errno::ENOENT);
        }
        let task = Some(task);
        // A thread's directory holds what a process's does, but for its threads: the first entry.
        Ok(SubjectDir::entry(&Subject { process, task }, &FILES[1..]))
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let after = i32::try_from(after).unwrap_or(i32::MAX);
        let Ok(Subject { process, .. }) = self.subject.subject() else {
            return;
        };
        let threads = task::tasks_after(after).filter(|one| Arc::ptr_eq(one.process(), &process));
        super::dir::list(threads.map(|one| one.tid()), emit);
    }
}
