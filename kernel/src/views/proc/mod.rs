//! /proc, proc(5): Linux's paths and formats. A figure that is not kept reads 0; every line and
//! field of Linux is present.
//!
//! A new file is an entry in a table: `system::FILES` and `sysctl::register` for the machine,
//! `process::FILES` for a process.

mod areas;
mod dir;
mod fds;
mod frames;
mod kpage;
mod locked;
mod maps;
pub mod meminfo;
mod memory;
mod mounts;
mod observed;
mod process;
mod query;
mod scan;
mod smaps;
mod stat;
mod status;
mod subject;
mod sysctl;
mod system;
mod sysvipc;
mod tables;
mod vmstat;
mod words;

use crate::base::errno::{Errno, Result};
use crate::fs::kinds::pseudo_tree::{Dynamic, Tree};
use crate::fs::tree::inode::{DirEntry, Inode, LinkTarget};
use crate::process::task;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use dir::SubjectDir;
use spin::Once;
use subject::Subject;

/// st_dev of all its files, of which most are made when they are looked up.
static DEVICE: Once<u64> = Once::new();

/// All of /proc.
pub fn tree() -> Tree {
    let tree = Tree::new(Some(Box::new(Processes)));
    DEVICE.call_once(|| tree.device());
    for (path, show) in system::FILES {
        tree.show(path, show);
    }
    tree.show("meminfo", meminfo::show);
    tree.show("vmstat", vmstat::show);
    // A program that writes to it wants to be woken (psi triggers).
    tree.show_only(
        "pressure/memory",
        Errno::EOPNOTSUPP,
        system::memory_pressure,
    );
    tree.show("buddyinfo", frames::buddyinfo);
    tree.show("pagetypeinfo", frames::pagetypeinfo);
    tree.show("zoneinfo", frames::zoneinfo);
    sysctl::register(&tree);
    kpage::register(&tree);
    sysvipc::register(&tree);
    let path = |text: alloc::string::String| Ok(LinkTarget::Path(text.into_bytes()));
    tree.link("self", move || {
        path(format!("{}", task::current().process().pid()))
    });
    tree.link("thread-self", move || {
        let task = task::current();
        path(format!("{}/task/{}", task.process().pid(), task.tid()))
    });
    tree.link("mounts", move || path("self/mounts".into()));
    tree.link("net", move || path("self/net".into()));
    tree
}

/// The directories whose names are numbers.
struct Processes;

fn parse_number(name: &[u8]) -> Option<i32> {
    let text = core::str::from_utf8(name).ok()?;
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

impl Dynamic for Processes {
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let pid = parse_number(name).ok_or(Errno::ENOENT)?;
        // A thread's number works too, although it is not listed.
        let (process, task) = match task::find(pid) {
            Some(process) => (process, None),
            None => {
                let task = task::find_task(pid).ok_or(Errno::ENOENT)?;
                (task.process().clone(), Some(task))
            }
        };
        Ok(SubjectDir::entry(
            &Subject { process, task },
            process::FILES,
        ))
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let after = i32::try_from(after).unwrap_or(i32::MAX);
        dir::list(task::processes_after(after).map(|one| one.pid()), emit);
    }
}
