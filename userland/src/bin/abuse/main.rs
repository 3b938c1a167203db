//! `abuse NAME [ARGUMENT ...]`: asks the kernel for too much in one way. The kernel may refuse, or
//! end the program that asks; it must live, stay responsive and get its memory back. The last line
//! is `abuse: NAME: done`, the status 0.
//!
//! On any other kernel than Quire it does nothing: there it would hurt others.
mod around;
mod crowd;
mod full;
mod hang;
mod larger;
mod many;
mod memory;
mod mounts;
mod observers;
mod pairs;
mod pieces;
mod signals;
mod transfers;
mod vm86;
mod watch;

use std::fs;
use std::process::ExitCode;
use userland::counters::{free_frames, on_quire};
use userland::sys::proc::{self, Fork, Status};

/// What a way prints as its result, or why it is not what it should be.
type Outcome = Result<String, String>;

/// A way to ask for too much.
struct Way {
    name: &'static str,
    /// Does so, in a child of its own, with the words behind the name.
    act: fn(&[String]) -> Outcome,
    /// Whether the kernel may end the child instead, because memory was short.
    may_be_killed: bool,
    /// Frames that may be missing afterwards.
    keeps: u64,
}

const WAYS: &[Way] = &[
    Way {
        name: "hang",
        act: hang::calls,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "memory",
        act: memory::calls,
        may_be_killed: false,
        // Two pages are out of use, and a folio of which one of them was.
        keeps: SLACK,
    },
    Way {
        name: "pairs",
        act: pairs::of_calls,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "many",
        act: many::of_each,
        may_be_killed: false,
        // The kernel's lists have grown once, and its heap by up to ten pieces of 256 frames, each
        // with something in it that stays: seven runs one after the other keep no more than that.
        keeps: 3 * SLACK,
    },
    Way {
        name: "around",
        act: around::displaced_folios,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "crowd",
        act: crowd::at_once,
        may_be_killed: false,
        // The tables that map the kernel stacks, one for 32 of them, and lists that have grown.
        keeps: 3 * SLACK,
    },
    Way {
        name: "signals",
        act: signals::queue,
        may_be_killed: true,
        keeps: SLACK,
    },
    Way {
        name: "full",
        act: full::calls,
        may_be_killed: true,
        keeps: SLACK,
    },
    Way {
        name: "areas",
        act: full::areas,
        may_be_killed: true,
        keeps: SLACK,
    },
    Way {
        name: "chain",
        act: full::chain,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "vm86",
        act: vm86::virtual_8086,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "mounts",
        act: mounts::stack,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "far",
        act: mounts::far_down,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "larger",
        act: larger::than_memory,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "too_large",
        act: larger::than_the_store,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "pieces",
        act: pieces::of_memory,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "observers",
        act: observers::keep,
        may_be_killed: false,
        keeps: SLACK,
    },
    Way {
        name: "transfers",
        act: transfers::each,
        may_be_killed: false,
        keeps: SLACK,
    },
];

/// Frames that may be missing afterwards: per-CPU lists, the kernel's heap and caches that stay.
const SLACK: u64 = 1024;

fn main() -> ExitCode {
    if !on_quire() {
        eprintln!("abuse: only on Quire: elsewhere it would hurt others");
        return ExitCode::from(2);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let way = words
        .first()
        .and_then(|name| WAYS.iter().find(|way| way.name == name));
    let Some(way) = way else {
        let names: Vec<_> = WAYS.iter().map(|way| way.name).collect();
        eprintln!(
            "usage: abuse NAME [ARGUMENT ...], NAME: {}",
            names.join(" ")
        );
        return ExitCode::from(2);
    };
    let before = free_frames().ok();
    let status = in_child(way, &words[1..]);
    // What ended while it was looked at is free then.
    let settled = fs::write("/proc/sys/vm/drop_caches", "1").ok();
    let after = settled.and_then(|()| free_frames().ok());
    println!(
        "abuse: {}: {status:?}, {before:?} frames free before, {after:?} after",
        way.name
    );
    let lost = before
        .zip(after)
        .is_none_or(|(before, after)| after + way.keeps < before);
    let expected = match status {
        Status::Exited(0) => true,
        Status::Killed(libc::SIGKILL) => way.may_be_killed,
        _ => false,
    };
    if lost || !expected {
        println!(
            "abuse: {}: FAILED{}",
            way.name,
            if lost { ", memory is lost" } else { "" }
        );
        return ExitCode::FAILURE;
    }
    println!("abuse: {}: done", way.name);
    ExitCode::SUCCESS
}

/// Runs a way in a child in a directory of its own, ends what it has left running, and cleans up.
fn in_child(way: &Way, words: &[String]) -> Status {
    let dir = "/tmp/abuse";
    let _ = fs::create_dir_all(dir);
    let status = match proc::fork() {
        Ok(Fork::Child) => {
            let _ = proc::setpgid(0, 0);
            let _ = std::env::set_current_dir(dir);
            let code = match (way.act)(words) {
                Ok(text) => {
                    println!("abuse: {}: {text}", way.name);
                    0
                }
                Err(text) => {
                    println!("abuse: {}: {text}", way.name);
                    1
                }
            };
            proc::exit_now(code)
        }
        Ok(Fork::Parent(pid)) => {
            let status = proc::wait_for(pid);
            while proc::kill(-pid, libc::SIGKILL).is_ok() {
                std::thread::yield_now();
            }
            status
        }
        Err(error) => Err(error),
    };
    let _ = fs::remove_dir_all(dir);
    status.unwrap_or(Status::Exited(255))
}
