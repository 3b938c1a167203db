//! The answers of threads to the heap, and processes with fault injection.

use super::{Pid, Process, Task, Work};
use crate::arch::trap::{Trap, UserContext};
use crate::base::above::Above;
use crate::base::cpus;
use crate::base::heap::{self, fail};
use crate::sched;
use core::sync::atomic::Ordering::Relaxed;
use syscalls::Sysno;

impl heap::Threads for Above {
    #[inline]
    fn running() -> Option<Pid> {
        sched::try_current(cpus::current()).map(|task| task.tid())
    }

    #[inline]
    fn owe_reserve() {
        if let Some(task) = sched::try_current(cpus::current()) {
            task.sched.add_work(Work::MAKE_ROOM);
        }
    }
}

/// Makes the allocations of a process and its children fail from the `from`-th of each call on; 0:
/// no more.
pub fn set_heap_fail(process: &Process, from: u32) {
    process.heap_fail.store(from, Relaxed);
    process.with_threads(|threads| {
        for task in threads {
            match from {
                0 => task.sched.clear_work(Work::HEAP_FAILS),
                _ => task.sched.add_work(Work::HEAP_FAILS),
            }
        }
    });
}

/// The thread has come into the kernel: its call is watched from here on.
pub fn watch_heap_of_trap(task: &Task, trap: &Trap, user: &UserContext) {
    let call = match trap {
        Trap::Syscall => Sysno::new(user.syscall_number() as usize).map_or("?", |call| call.name()),
        Trap::PageFault { .. } | Trap::ProtectionKey { .. } => "page fault",
        Trap::Interrupt(_) => "interrupt",
        _ => "exception",
    };
    watch_heap(task, call);
}

/// As [`watch_heap_of_trap`], for what is no trap.
pub fn watch_heap(task: &Task, call: &'static str) {
    fail::watch(task.tid(), call, task.process().heap_fail.load(Relaxed));
}
