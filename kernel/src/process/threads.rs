//! The answers of threads and processes to the scheduler (`sched::{Threads, Thread}`).

use crate::base::above::Above;
use crate::base::machine::{AddressSpace, Space};
use crate::process::task::{Task, TaskState};
use crate::process::{shm, signal};
use crate::sched::{Entity, Thread, Threads};

impl Threads for Above {
    type Task = Task;

    fn space_ends(space: &AddressSpace) {
        shm::ended(space);
    }
}

impl Thread for Task {
    #[inline]
    fn entity(&self) -> &Entity {
        &self.sched
    }

    #[inline]
    fn with_space(&self, f: impl FnOnce(&Space)) {
        self.space.with(f);
    }

    fn take_space(&self) -> Option<Space> {
        self.space.replace(None)
    }

    #[inline]
    fn is_interrupted(&self, how: TaskState) -> bool {
        signal::interrupts(self, how)
    }

    fn is_kernels(&self) -> bool {
        self.tid() == 0
    }
}
