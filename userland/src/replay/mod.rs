//! The classic cases of copy-on-write, replayed for every size of folio: after any order of writes,
//! exits and changes of mappings, each process sees what it wrote, and else what was there when it
//! was forked.
//!
//! The program `cow` and the selftests run them. Every page is filled with a pattern of its own and
//! looked at in every process; nothing here depends on how a kernel shares memory, so all of it
//! runs on Linux as well.
mod area;
mod cases;
pub mod family;
mod pins;
mod shapes;

use crate::controls::Controls;
use crate::counters::on_quire;
use crate::harness::{Outcome, Stop, Test};
use area::Size;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the sizes may be set on a Linux, too, where they are the administrator's.
static MAY_SET: AtomicBool = AtomicBool::new(false);

/// Lets the cases set the sizes on a Linux, too.
pub fn may_set() {
    MAY_SET.store(true, Relaxed);
}

/// The cases, each for one size: `replay_<size>_<case>`.
macro_rules! cases {
    ($name:literal, $size:expr; $($room:ident: $($case:ident)*;)*) => {
        &[$($(Test {
            name: concat!("replay_", $name, "_", stringify!($case)),
            run: || at($size, $room::$case),
        }),*),*]
    };
}

macro_rules! replayed {
    ($name:literal, $size:expr) => {
        cases! { $name, $size;
            cases: parent_first child_first child_exits child_exits_half last_parent last_child last_grandchild
                read_after_fork fork_loop;
            shapes: partial_munmap partial_mremap protect_before protect_after dontfork dontneed_in_child
                partly_populated;
            pins: pin_alone pin_parent_writes pin_child_writes pin_child_gone pin_by_child;
        }
    };
}

/// Every case for every size.
pub const TESTS: &[&[Test]] = &[
    replayed!("4k", Size::Folio(4)),
    replayed!("16k", Size::Folio(16)),
    replayed!("32k", Size::Folio(32)),
    replayed!("64k", Size::Folio(64)),
    replayed!("128k", Size::Folio(128)),
    replayed!("256k", Size::Folio(256)),
    replayed!("512k", Size::Folio(512)),
    replayed!("1024k", Size::Folio(1024)),
    replayed!("2048k", Size::Folio(2048)),
    replayed!("2048k_by_pages", Size::ByPages),
];

/// Runs a case in memory of folios of this size.
fn at(size: Size, case: fn(Size) -> Outcome) -> Outcome {
    let controls = Controls::take();
    if on_quire() || MAY_SET.load(Relaxed) {
        if !controls
            .only(size.kb())
            .map_err(|e| Stop::Skip(format!("the sizes cannot be set: {e:?}")))?
        {
            return Err(Stop::Skip(format!("no folios of {} kB here", size.kb())));
        }
        return case(size);
    }
    // The owner's settings stay: the largest of them is what memory gets that asks for it.
    let largest = controls.largest();
    if size.kb() != 4 && size.kb() != largest {
        return Err(Stop::Skip(format!(
            "this Linux is set to folios of {largest} kB"
        )));
    }
    case(size)
}
