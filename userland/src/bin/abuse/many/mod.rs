//! Very many of what the kernel keeps lists of. A call that walks such a list lets others in, and
//! one that needs an entry does not walk it once for each.
mod files;
mod names;
mod processes;
mod threads;

use super::Outcome;
use super::watch::{Case, run};
use userland::sys::{Result, file, proc};

/// A case that takes so many ns is killed.
const PATIENCE: u64 = 60_000_000_000;

const CASES: &[Case] = &[
    Case {
        name: "children",
        act: processes::children,
    },
    Case {
        name: "stopped",
        act: processes::stopped,
    },
    Case {
        name: "zombies",
        act: processes::zombies,
    },
    Case {
        name: "alarms",
        act: processes::alarms,
    },
    Case {
        name: "shared_page",
        act: processes::shared_page,
    },
    Case {
        name: "full",
        act: processes::full,
    },
    Case {
        name: "sleepers",
        act: threads::sleepers,
    },
    Case {
        name: "futex",
        act: threads::futex,
    },
    Case {
        name: "threads",
        act: threads::threads,
    },
    Case {
        name: "signals",
        act: threads::signals,
    },
    Case {
        name: "descriptors",
        act: files::descriptors,
    },
    Case {
        name: "pipes",
        act: files::pipes,
    },
    Case {
        name: "poll",
        act: files::poll,
    },
    Case {
        name: "locks",
        act: files::locks,
    },
    Case {
        name: "vectors",
        act: files::vectors,
    },
    Case {
        name: "bytes",
        act: files::bytes,
    },
    Case {
        name: "deep",
        act: names::deep,
    },
    Case {
        name: "wide",
        act: names::wide,
    },
    Case {
        name: "links",
        act: names::links,
    },
    Case {
        name: "path",
        act: names::path,
    },
];

/// All cases, or those that are named.
pub fn of_each(names: &[String]) -> Outcome {
    run("many", CASES, PATIENCE, names)
}

/// Raises a limit of this process.
fn more(which: proc::Resource, limit: usize) -> Result<()> {
    proc::setrlimit(which, limit as u64, limit as u64)
}

/// Reads a file to its end, in one call if that gives all.
fn read_all(name: &str) {
    let mut buffer = vec![0; 4 << 20];
    if let Ok(fd) = file::open(name, libc::O_RDONLY, 0) {
        while file::read(fd, &mut buffer).is_ok_and(|n| n > 0) {}
        let _ = file::close(fd);
    }
}
