//! The signal actions of a process, which threads and CLONE_SIGHAND share.

use super::*;
use crate::base::ranks;
use alloc::sync::Arc;
use mm::sync::Lock;

/// The actions of a process; CLONE_SIGHAND shares them.
pub struct Handlers(Lock<Actions, { ranks::SIGNAL }>);

impl Handlers {
    /// All default.
    pub fn new() -> Arc<Self> {
        Self::of(Actions::default())
    }

    fn of(actions: Actions) -> Arc<Self> {
        Arc::new(Self(Lock::new(actions)))
    }

    /// A copy of its own, for fork.
    pub fn copy(&self) -> Arc<Self> {
        Self::of(*self.0.lock())
    }

    /// A copy for execve(2), [`Actions::after_exec`].
    pub fn copy_for_exec(&self) -> Arc<Self> {
        Self::of(self.0.lock().after_exec())
    }

    /// The action of a signal.
    pub fn get(&self, signo: i32) -> Action {
        self.0.lock().get(signo)
    }

    /// Sets an action; returns the old one.
    pub fn set(&self, signo: i32, action: Action) -> Action {
        self.0.lock().set(signo, action)
    }

    /// Whether children that end are not kept as zombies.
    pub fn reaps_children(&self) -> bool {
        self.0.lock().reaps_children()
    }

    /// The signals with actions of one kind, for /proc/PID/status.
    pub fn with(&self, wanted: Disposition) -> SigSet {
        self.0.lock().with(wanted)
    }
}
