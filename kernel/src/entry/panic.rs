//! The panic report: message, location, running thread, backtrace, last lines of the log; then the
//! machine stops with status 101.

use crate::arch;
use crate::base::klog::{self, Console};
use crate::base::{console, cpus};
use crate::entry::symbols;
use crate::process::task;
use arch_boot::cpus::stopped_at;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

/// The status of a machine that panicked.
pub const STATUS: u8 = 101;
const LOG_BYTES: usize = 1024;

/// Set by the first panic; acquire and release pair with each other, so a panic inside the report
/// ends it.
static PANICKING: AtomicBool = AtomicBool::new(false);

// A host on which the kernel is only checked has std's.
#[cfg_attr(target_os = "none", panic_handler)]
#[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "std's is called"))]
fn panic(info: &PanicInfo<'_>) -> ! {
    let stopped = enter();
    let _ = match info.location() {
        Some(at) => writeln!(
            Console,
            "\nquire: kernel panic: {} at {}:{}",
            info.message(),
            at.file(),
            at.line()
        ),
        None => writeln!(Console, "\nquire: kernel panic: {}", info.message()),
    };
    report(None, stopped)
}

/// Threads whose backtraces [`hang`] prints.
const SHOWN: usize = 32;

/// No thread will ever run again: each waits, and nothing comes. Says where, and stops.
#[cold]
#[inline(never)]
pub fn hang() -> ! {
    let stopped = enter();
    let _ = writeln!(
        Console,
        "\nquire: kernel panic: a hang: all threads wait, no timer is set and no input comes"
    );
    // All other CPUs sleep, and nobody has a lock.
    for task in task::tasks_after(0).take(SHOWN) {
        let (who, state) = (task::describe(&task), task.sched.state_letter());
        let Some((pc, fp)) = task.sched.waits_at() else {
            let _ = writeln!(Console, "{who} ({state}) waits on this CPU");
            continue;
        };
        let _ = writeln!(Console, "{who} ({state}) waits:");
        Trace::default().walk(Some(TraceStart { pc, fp }));
    }
    match task::tasks_after(0).skip(SHOWN).count() {
        0 => {}
        more => drop(writeln!(Console, "and {more} more threads")),
    }
    report(None, stopped)
}

/// Gives each register's name and value to its argument.
pub type Registers<'a> = dyn Fn(&mut dyn FnMut(&'static str, u64)) + 'a;

/// A trap in kernel mode that nothing can mend.
pub fn kernel_trap(what: &str, addr: u64, pc: u64, fp: u64, registers: &Registers<'_>) -> ! {
    let stopped = enter();
    let _ = writeln!(
        Console,
        "\nquire: kernel panic: {what} at address {addr:#x}, pc {pc:#x}"
    );
    let mut column = 0;
    registers(&mut |name, value| {
        column += 1;
        let end = if column % 4 == 0 { "\n" } else { " " };
        let _ = write!(Console, " {name:>6} {value:016x}{end}");
    });
    let _ = writeln!(Console);
    report(Some(TraceStart { pc, fp }), stopped)
}

/// Stops the other CPUs, so that the report can be read; returns those that have stopped, a bit
/// each. Of two CPUs that panic at once, one does not come back.
fn enter() -> u64 {
    let stopped = cpus::stop_others();
    if PANICKING.swap(true, Ordering::AcqRel) {
        console::write(b"\r\nquire: panic inside the panic report\r\n");
        arch::cpu::stop(STATUS);
    }
    stopped
}

/// Where a backtrace starts.
#[derive(Clone, Copy)]
struct TraceStart {
    pc: u64,
    fp: u64,
}

/// Prints the rest of the report, from the frame of a trap or else of the caller, and stops.
fn report(from: Option<TraceStart>, stopped: u64) -> ! {
    let _ = writeln!(Console, "on CPU {}", describe(cpus::current()));
    let _ = writeln!(Console, "backtrace, innermost first:");
    Trace::default().walk(from);
    let missing = cpus::others().filter(|number| stopped & 1 << number == 0);
    for number in cpus::others().filter(|number| stopped & 1 << number != 0) {
        others_report(number);
    }
    for number in missing {
        let _ = writeln!(Console, "CPU {} has not stopped", describe(number));
    }
    let _ = writeln!(Console, "last log lines:");
    klog::read_newest(LOG_BYTES, &mut |bytes| {
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let _ = Console.write_str(core::str::from_utf8(line).unwrap_or("?\n"));
        }
    });
    arch::cpu::stop(STATUS)
}

/// A CPU's number and what it runs.
fn describe(cpu: usize) -> impl fmt::Display {
    fmt::from_fn(move |out| write!(out, "{cpu}, task {}", task::describe_on(cpu)))
}

/// Prints where another CPU has stopped.
fn others_report(number: usize) {
    let Some((pc, fp)) = stopped_at(number) else {
        let _ = writeln!(Console, "CPU {}: in user mode", describe(number));
        return;
    };
    let _ = writeln!(Console, "CPU {}:", describe(number));
    Trace::default().walk(Some(TraceStart { pc, fp }));
}

/// Prints frames; a run of the same address (a recursion) takes two lines.
#[derive(Default)]
struct Trace {
    depth: u32,
    last: u64,
    repeats: u32,
}

impl Trace {
    /// Prints a frame and its callers, or else those of this function.
    fn walk(&mut self, from: Option<TraceStart>) {
        if let Some(from) = from {
            self.frame(from.pc);
        }
        let from = from.map(|frame| frame.fp);
        // A return address may be the first byte of the next function: look up the call before it.
        arch::cpu::backtrace(from, &mut |address| self.frame(address.wrapping_sub(1)));
        self.end_repeats();
    }

    fn frame(&mut self, address: u64) {
        if self.depth > 0 && address == self.last {
            self.depth += 1;
            self.repeats += 1;
            return;
        }
        self.end_repeats();
        let _ = match symbols::lookup(address) {
            Some((name, offset)) => {
                writeln!(
                    Console,
                    "  {:2} {address:016x} {:#}+{offset:#x}",
                    self.depth,
                    rustc_demangle::demangle(name)
                )
            }
            None => writeln!(Console, "  {:2} {address:016x}", self.depth),
        };
        self.depth += 1;
        self.last = address;
    }

    fn end_repeats(&mut self) {
        if self.repeats > 0 {
            let _ = writeln!(Console, "     ... and {} more times", self.repeats);
            self.repeats = 0;
        }
    }
}
