//! Fault injection: a heap that finds no memory, on purpose.
//!
//! A process that has written K to `/sys/kernel/mm/quire/heap_fail` (or PID 1 with
//! `quire.heap_fail=K`), and its children from then on, make each system call as if the heap had no
//! memory from the call's K-th allocation on. Fallible allocations fail; the rest come from the
//! [reserve](super::reserve), and how much of it a call needs at one time is measured and shown
//! with the call's name in `/sys/kernel/mm/quire/heap_reserve`. Page faults, interrupts and a
//! thread's end count as calls.
//!
//! With the word `measure` instead of K nothing fails, and infallible allocations are measured all
//! the same: a call that is refused early does not show what it needs later.

use super::{Threads, reserve};
use crate::base::Pid;
use crate::base::above::Above;
use arrayvec::ArrayVec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use spin::mutex::SpinMutex;

/// Allocations of one call that are tracked one by one; further ones count as if they were never
/// freed.
const MOST_LIVE: usize = 256;

/// Instead of an allocation's number: none fails, those that could not have are measured.
const MEASURE: u32 = u32::MAX;

/// A call is watched.
static ON: AtomicBool = AtomicBool::new(false);
static WATCH: SpinMutex<Watch> = SpinMutex::new(Watch::new());

/// The call that is watched, and the most that any has used.
struct Watch {
    thread: Pid,
    call: &'static str,
    /// The allocation that fails first.
    from: u64,
    /// None fails.
    measures: bool,
    allocations: u64,
    live: ArrayVec<Allocation, MOST_LIVE>,
    /// Calls of `fallible::check` so far: what was allocated before one did not come from the
    /// reserve, which was whole then.
    checks: u64,
    /// Bytes that the call has allocated since and not freed.
    used: usize,
    refused: u64,
    most: Use,
    largest: Use,
}

/// An allocation that did not fail.
struct Allocation {
    at: usize,
    bytes: usize,
}

/// Bytes, and the call that needed them.
#[derive(Clone, Copy)]
struct Use {
    bytes: usize,
    call: &'static str,
}

impl Use {
    const NONE: Use = Use {
        bytes: 0,
        call: "-",
    };

    fn raise(&mut self, bytes: usize, call: &'static str) {
        if bytes > self.bytes {
            *self = Use { bytes, call };
        }
    }
}

impl Watch {
    const fn new() -> Self {
        Watch {
            thread: 0,
            call: "-",
            from: 0,
            measures: false,
            allocations: 0,
            live: ArrayVec::new_const(),
            checks: 0,
            used: 0,
            refused: 0,
            most: Use::NONE,
            largest: Use::NONE,
        }
    }

    /// Nothing of the reserve is used.
    fn start_anew(&mut self) {
        self.live.clear();
        self.used = 0;
        self.checks = fallible::checks();
    }

    /// Whether the running thread is the one that is watched.
    fn is_mine(&self) -> bool {
        Above::running() == Some(self.thread)
    }
}

/// K, or [`MEASURE`] for `measure`; `None` for other words.
pub fn parse(text: &str) -> Option<u32> {
    match text {
        "measure" => Some(MEASURE),
        number => number.parse().ok().filter(|k| *k != MEASURE),
    }
}

/// Whether a call is watched.
#[inline]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// A thread's call is watched from here on: `call` is its name, `from` what was [`parse`]d.
pub fn watch(thread: Pid, call: &'static str, from: u32) {
    let mut watch = WATCH.lock();
    watch.thread = thread;
    watch.call = call;
    watch.measures = from == MEASURE;
    watch.from = if watch.measures { 1 } else { from.into() };
    watch.allocations = 0;
    watch.start_anew();
    if watch.measures {
        fallible::count_checks();
    }
    drop(watch);
    ON.store(true, Relaxed);
}

/// The thread goes back to user mode, or ends.
pub fn end() {
    ON.store(false, Relaxed);
    reserve::look();
}

/// Whether an allocation finds no memory.
pub fn refuses() -> bool {
    let mut watch = WATCH.lock();
    if !watch.is_mine() {
        return false;
    }
    watch.allocations += 1;
    if watch.allocations < watch.from {
        return false;
    }
    if watch.measures {
        return false;
    }
    let refused = fallible::is_refusable();
    watch.refused += u64::from(refused);
    // It takes from the reserve, which is not whole then.
    fallible::set_short(true);
    refused
}

/// An allocation has got its memory.
pub fn allocated(at: usize, bytes: usize) {
    let mut watch = WATCH.lock();
    if watch.allocations < watch.from || fallible::is_refusable() || !watch.is_mine() {
        return;
    }
    if watch.checks != fallible::checks() {
        watch.start_anew();
    }
    let call = watch.call;
    // Without a place in the list it counts as if it stayed.
    let _ = watch.live.try_push(Allocation { at, bytes });
    watch.used += bytes;
    let used = watch.used;
    watch.most.raise(used, call);
    watch.largest.raise(bytes, call);
}

/// Memory was given back.
pub fn freed(at: usize) {
    let mut watch = WATCH.lock();
    if let Some(index) = watch.live.iter().position(|live| live.at == at) {
        watch.used -= watch.live.swap_remove(index).bytes;
    }
}

/// Begins to measure anew.
pub fn reset() {
    let mut watch = WATCH.lock();
    watch.refused = 0;
    watch.most = Use::NONE;
    watch.largest = Use::NONE;
}

/// What was measured, a line each. `most` is to stay below `limit`, `largest` below `block`.
pub fn figures() -> impl fmt::Display {
    let (set_aside, whole) = reserve::bytes();
    let (refused, most, largest) = {
        let watch = WATCH.lock();
        (watch.refused, watch.most, watch.largest)
    };
    fmt::from_fn(move |out| {
        writeln!(out, "limit {}", reserve::MOST_PER_CALL)?;
        writeln!(out, "most {} {}", most.bytes, most.call)?;
        writeln!(out, "block {}", reserve::BLOCK_BYTES)?;
        writeln!(out, "largest {} {}", largest.bytes, largest.call)?;
        writeln!(out, "refused {refused}")?;
        writeln!(out, "set_aside {set_aside} of {whole}")?;
        writeln!(out, "taken {}", reserve::taken())?;
        writeln!(out, "used {}", super::used())
    })
}
