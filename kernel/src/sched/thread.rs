//! The interface from the scheduler to the floors above: threads, reserves of memory, entry code.

use super::{Entity, TaskState};
use crate::arch::trap::Irq;
use crate::base::above::Above;
use crate::base::machine::{AddressSpace, Space};
use alloc::sync::Arc;

/// A thread as the scheduler sees it.
pub trait Thread: Send + Sync + 'static {
    /// Its part of the thread.
    fn entity(&self) -> &Entity;
    /// Calls `f` with the thread's address space, if it still has one.
    fn with_space(&self, f: impl FnOnce(&Space));
    /// Takes its address space away: it has none from now on. The caller drops it.
    fn take_space(&self) -> Option<Space>;
    /// Whether a sleep of this kind ends now because of a signal.
    fn is_interrupted(&self, how: TaskState) -> bool;
    /// Whether it is one of the kernel's own, which no program waits for.
    fn is_kernels(&self) -> bool;
}

/// The floor that makes threads.
pub trait Threads {
    /// A thread.
    type Task: Thread;
    /// An address space is about to be unmapped, of which nobody has a reference any more.
    fn space_ends(space: &AddressSpace);
}

/// The floor that gives memory back.
pub trait Reserves {
    /// [`Work::MAKE_ROOM`]: the thread has used a reserve, and brings it back. May sleep.
    fn refill(task: &Arc<Task>);
}

/// The floor that meets the hardware.
pub trait Entry {
    /// Where every thread starts, on its own kernel stack.
    const THREAD_MAIN: extern "C" fn(usize) -> !;
    /// Does what an interrupt asks for.
    fn interrupt(irq: Irq);
    /// No thread will ever run again: says where each waits, and stops the machine.
    fn hang() -> !;
}

/// A thread, of which this floor knows what [`Thread`] says.
pub type Task = <Above as Threads>::Task;
