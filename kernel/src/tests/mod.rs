//! Tests that need the real machine, and failures on purpose.

mod cost;
mod cpus;
mod files;
mod frames;
mod heap;
mod machine;
mod pins;
mod rows;
mod timers;

use crate::arch;
use crate::base::klog::Console;
use crate::base::machine::mm;
use crate::process::task::spawn_kernel_thread;
use crate::sched::kernel_lock;

/// Runs the registered tests that `plan` wants, prints KTAP on the console and ends the machine: 0
/// when all passed, else 1.
pub fn run(plan: &ktest::Plan<'_>) -> ! {
    let hooks = ktest::Hooks {
        clock: &arch::timer::now,
        free_frames: &|| mm().counts().free,
        machine: None,
    };
    let totals = ktest::run(plan, &hooks, &mut Console);
    crate::base::cpus::stop_others();
    arch::cpu::exit(totals.status())
}

/// Fails on purpose, to see the report: `panic`, `null` (a kernel access to nothing), `stack` (an
/// overflow into the guard), or `hang` (a CPU never serves an interrupt again; only debug builds on
/// several CPUs find that).
pub fn crash(how: &str) {
    match how {
        "panic" => panic!("asked for on the command line"),
        "null" => crate::entry::boot::read_null(),
        "stack" => drop(overflow(1)),
        "hang" => spawn_kernel_thread(b"hang", hang).expect("memory for a thread"),
        _ => log::warn!("quire.crash={how} is not one of panic, null, stack, hang"),
    }
}

/// Keeps a CPU, and nothing that another one needs.
fn hang() -> ! {
    kernel_lock::leave();
    loop {
        core::hint::spin_loop();
    }
}

/// Calls itself until the stack is full.
#[expect(unconditional_recursion, reason = "the guard page ends it")]
fn overflow(depth: u64) -> u64 {
    core::hint::black_box(overflow(depth + 1)) + depth
}
