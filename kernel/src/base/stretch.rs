//! Latency: the longest stretches in the kernel without interrupts, and without a context switch.
//!
//! The kernel runs with interrupts off and is not preempted ([0001]), so one long system call keeps
//! the whole machine. A stretch begins when a thread enters the kernel and ends when it leaves,
//! blocks, or calls [`crate::sched::breathe`]; the thread's clock ([`crate::process::task::Times`])
//! is read there anyway. `/sys/kernel/mm/quire/longest_stretch` shows the longest of each kind in
//! ns (under QEMU's -icount: instructions) with the reason why the thread was in the kernel; a
//! write resets them.
//!
//! [0001]: ../../../docs/decisions/0001-interrupts-off-in-the-kernel.md

use crate::arch::timer;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use syscalls::Sysno;

/// Why a thread is in the kernel: a system call by number, or one of the reasons below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reason(pub u32);

impl Reason {
    /// A page fault in user mode.
    pub const FAULT: Reason = Reason(1 << 16);
    /// An interrupt that met user mode or the idle CPU.
    pub const INTERRUPT: Reason = Reason(Self::FAULT.0 + 1);
    /// Another exception in user mode.
    pub const EXCEPTION: Reason = Reason(Self::FAULT.0 + 2);
    /// The end of a thread.
    pub const END: Reason = Reason(Self::FAULT.0 + 3);
    /// A thread of the kernel's own.
    pub const KERNEL_THREAD: Reason = Reason(Self::FAULT.0 + 4);

    fn name(self) -> &'static str {
        match self {
            Self::FAULT => "fault",
            Self::INTERRUPT => "interrupt",
            Self::EXCEPTION => "exception",
            Self::END => "end",
            Self::KERNEL_THREAD => "kernel",
            Self(number) => Sysno::new(number as usize).map_or("unknown", |call| call.name()),
        }
    }
}

/// The longest stretch of one kind.
struct Longest {
    /// In ticks of the machine's clock.
    ticks: AtomicU64,
    reason: AtomicU32,
}

impl Longest {
    const fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            reason: AtomicU32::new(0),
        }
    }
    fn note(&self, ticks: u64, reason: Reason) {
        if ticks > self.ticks.load(Relaxed) {
            self.ticks.store(ticks, Relaxed);
            self.reason.store(reason.0, Relaxed);
        }
    }
    fn line(&self, what: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = timer::ticks_to_ns(self.ticks.load(Relaxed));
        let name = Reason(self.reason.load(Relaxed)).name();
        writeln!(out, "{what} {ns} {name}")
    }
}

static INTERRUPTS: Longest = Longest::new();
static THREADS: Longest = Longest::new();
/// The shorter of the two: what is not longer changes neither.
static SHORTER: AtomicU64 = AtomicU64::new(0);

/// Whether a stretch of so many ticks may be one of the longest.
#[inline]
pub fn is_long(ticks: u64) -> bool {
    ticks > SHORTER.load(Relaxed)
}

/// Notes a stretch in which no interrupt was served.
#[cold]
pub fn without_interrupts(ticks: u64, reason: Reason) {
    INTERRUPTS.note(ticks, reason);
    set_shorter();
}

/// Notes a stretch in which no other thread could run.
#[cold]
pub fn without_threads(ticks: u64, reason: Reason) {
    THREADS.note(ticks, reason);
    set_shorter();
}

fn set_shorter() {
    let (a, b) = (INTERRUPTS.ticks.load(Relaxed), THREADS.ticks.load(Relaxed));
    SHORTER.store(a.min(b), Relaxed);
}

/// Two lines, `interrupts NS REASON` and `threads NS REASON`.
pub fn longest() -> impl fmt::Display {
    fmt::from_fn(|out| {
        INTERRUPTS.line("interrupts", out)?;
        THREADS.line("threads", out)
    })
}

/// Resets both.
pub fn forget() {
    INTERRUPTS.ticks.store(0, Relaxed);
    THREADS.ticks.store(0, Relaxed);
    SHORTER.store(0, Relaxed);
}
