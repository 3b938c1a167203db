//! Signals that were sent and not yet handled: of a standard signal one, of a real-time signal all.

use super::{
    FIRST_REALTIME, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSYS, SIGTRAP, SigInfo, SigSet, bit,
};
use alloc::vec::Vec;

/// Faults of the thread itself come before what others sent.
const SYNCHRONOUS: SigSet =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS);

/// A set of pending signals with what came with each.
pub struct Pending {
    set: SigSet,
    queue: Vec<SigInfo>,
}

impl Pending {
    /// None.
    pub const fn new() -> Self {
        Self {
            set: 0,
            queue: Vec::new(),
        }
    }

    /// Which.
    pub fn set(&self) -> SigSet {
        self.set
    }

    /// How many real-time signals are queued, for RLIMIT_SIGPENDING.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Adds one; a standard signal that is pending already is not added again.
    pub fn add(&mut self, info: SigInfo) {
        let again = self.set & bit(info.signo) != 0;
        self.set |= bit(info.signo);
        if !again || info.signo >= FIRST_REALTIME {
            self.queue.push(info);
        }
    }

    /// Drops all of a set.
    pub fn remove(&mut self, set: SigSet) {
        if self.set & set != 0 {
            self.set &= !set;
            self.queue.retain(|info| bit(info.signo) & set == 0);
        }
    }

    /// Takes the first signal of `allowed` to be handled: SIGKILL, then faults, then the lowest number.
    pub fn take(&mut self, allowed: SigSet) -> Option<SigInfo> {
        let candidates = self.set & allowed;
        if candidates == 0 {
            return None;
        }
        let first = [bit(SIGKILL), SYNCHRONOUS, SigSet::MAX]
            .iter()
            .map(|class| candidates & class)
            .find(|set| *set != 0)?;
        let signo = first.trailing_zeros() as i32 + 1;
        let at = self.queue.iter().position(|info| info.signo == signo)?;
        let info = self.queue.remove(at);
        if !self.queue.iter().any(|info| info.signo == signo) {
            self.set &= !bit(signo);
        }
        Some(info)
    }
}
