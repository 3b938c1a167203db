//! What the QEMU plugin (`measure/plugin`) does, without QEMU: everything of it that is a pure
//! function of what the emulator reports, so that it can be tested on the host. The tools read the
//! plugin's results with it, too.
//!
//! | module | what it has |
//! |---|---|
//! | [`args`] | the plugin's arguments |
//! | [`marks`] | the stores by which a program begins and ends measurements |
//! | [`session`] | the measurement that is open, and what was counted in it |
//! | [`counts`] | counters of one CPU, by mode |
//! | [`insn`] | instructions that are atomic, that write in bulk, that flush a TLB, or that change where page tables are |
//! | [`lines`] | the cache lines that a CPU touched, and which two CPUs contend for |
//! | [`model`] | a model of the hardware, fed with what the guest does; guest memory for its walks |
//! | [`pages`] | streams of accesses to pages, recorded, written and read |
//! | [`record`] | one measurement as a line of JSON, written and read |
//! | [`turns`] | which of several CPUs on one thread executes |

#![forbid(unsafe_code)]

pub mod args;
pub mod counts;
pub mod insn;
pub mod lines;
pub mod marks;
pub mod model;
pub mod pages;
pub mod record;
pub mod session;
pub mod turns;

use serde::{Deserialize, Serialize};

/// The machine that is emulated; in records by the name that QEMU, Linux and Rust have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// x86_64.
    X86_64,
    /// aarch64.
    Aarch64,
}

impl Arch {
    /// By its name.
    pub fn named(name: &str) -> Option<Arch> {
        serde_json::from_value(name.into()).ok()
    }
}
