//! The signal actions of a process, and its signal sets for /proc.

use super::Process;
use crate::process::signal::{Action, Disposition, Handlers, SigSet};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

impl Process {
    /// Its signal actions.
    pub fn handlers(&self) -> Arc<Handlers> {
        self.handlers.lock().clone()
    }

    pub(crate) fn set_handlers(&self, handlers: Arc<Handlers>) {
        let old = core::mem::replace(&mut *self.handlers.lock(), handlers);
        drop(old);
    }

    /// Whether a signal with this action, which is not blocked, does nothing because this is PID 1.
    pub(crate) fn survives(&self, action: &Action) -> bool {
        action.disposition() == Disposition::Default && self.protected.load(Relaxed)
    }

    /// Pending for the leader, pending for the process, blocked by the leader, ignored, caught.
    pub fn signal_sets(&self) -> [SigSet; 5] {
        let leader = self.leader();
        let handlers = self.handlers();
        // One lock at a time: they have one rank.
        let shared = self.pending.lock().set();
        [
            leader.as_ref().map_or(0, |task| task.pending.lock().set()),
            shared,
            leader.as_ref().map_or(0, |task| task.blocked()),
            handlers.with(Disposition::Ignore),
            handlers.with(Disposition::Handler),
        ]
    }
}
