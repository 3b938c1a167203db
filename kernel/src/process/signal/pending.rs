//! Signals that were sent and not yet handled: of a standard signal one, of a real-time signal as
//! many as RLIMIT_SIGPENDING and memory allow, over all processes. Beyond that a real-time signal
//! is refused, or pends as one without what came with it, as kill(2) and the kernel want it.

use super::{
    FIRST_REALTIME, Fields, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSYS, SIGTRAP, SigInfo,
    SigSet, bit,
};
use crate::base::errno::{Errno, Result};
use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use linux_raw_sys::general as abi;

/// Faults of the thread itself come before what others sent.
const SYNCHRONOUS: SigSet =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS);

/// Signals in all queues: they are one user's, since all are root.
static QUEUED: AtomicU64 = AtomicU64::new(0);

/// Signals in all queues, for RLIMIT_SIGPENDING and /proc/PID/status.
pub fn queued() -> u64 {
    QUEUED.load(Relaxed)
}

/// A set of pending signals with what came with each.
pub struct Pending {
    set: SigSet,
    queue: VecDeque<SigInfo>,
}

impl Pending {
    /// None.
    pub const fn new() -> Self {
        Self {
            set: 0,
            queue: VecDeque::new(),
        }
    }

    /// Which.
    pub fn set(&self) -> SigSet {
        self.set
    }

    /// Adds one; a standard signal that is pending already is not added again. EAGAIN: a real-time
    /// signal, from something else than kill(2) and the kernel, finds `limit` signals queued, or no
    /// memory.
    pub fn add(&mut self, info: SigInfo, limit: u64) -> Result {
        let realtime = info.signo >= FIRST_REALTIME;
        if self.set & bit(info.signo) != 0 && !realtime {
            return Ok(());
        }
        let from_kill = [abi::SI_USER as i32, abi::SI_KERNEL as i32].contains(&info.code);
        let room = (!realtime || queued() < limit) && fallible::reserve(&mut self.queue, 1).is_ok();
        if room {
            self.queue.push_back(info);
            QUEUED.fetch_add(1, Relaxed);
        } else if realtime && !from_kill {
            return Err(Errno::EAGAIN);
        }
        self.set |= bit(info.signo);
        Ok(())
    }

    /// Drops all of a set.
    pub fn remove(&mut self, set: SigSet) {
        if self.set & set != 0 {
            self.set &= !set;
            let before = self.queue.len();
            self.queue.retain(|info| bit(info.signo) & set == 0);
            QUEUED.fetch_sub((before - self.queue.len()) as u64, Relaxed);
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
        let mut of_it = (0..self.queue.len()).filter(|at| self.queue[*at].signo == signo);
        let (at, more) = (of_it.next(), of_it.next().is_some());
        if !more {
            self.set &= !bit(signo);
        }
        let queued = at.and_then(|at| self.queue.remove(at));
        QUEUED.fetch_sub(u64::from(queued.is_some()), Relaxed);
        // What found no room says that kill(2) sent it, and not from where.
        Some(queued.unwrap_or(SigInfo {
            signo,
            code: abi::SI_USER as i32,
            fields: Fields::Sender { pid: 0, uid: 0 },
        }))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        QUEUED.fetch_sub(self.queue.len() as u64, Relaxed);
    }
}

ktest::ktest! {
    /// A real-time signal beyond the limit is refused, but for kill's and the kernel's, which pend
    /// once and say nothing.
    fn signals_beyond_the_limit(ctx) {
        let before = queued();
        let mut pending = Pending::new();
        let info = |code| SigInfo { signo: FIRST_REALTIME, code, fields: Fields::Sender { pid: 7, uid: 0 } };
        let (kill, queue) = (info(abi::SI_USER as i32), info(abi::SI_QUEUE));
        ktest::check_eq!(ctx, pending.add(queue, before + 1), Ok(()));
        ktest::check_eq!(ctx, pending.add(queue, before + 1), Err(Errno::EAGAIN));
        ktest::check_eq!(ctx, pending.add(info(abi::SI_TKILL), before + 1), Err(Errno::EAGAIN));
        ktest::check_eq!(ctx, pending.add(kill, before + 1), Ok(()));
        ktest::check_eq!(ctx, queued(), before + 1);
        ktest::check_eq!(ctx, pending.take(SigSet::MAX), Some(queue));
        ktest::check_eq!(ctx, pending.set(), 0);
        ktest::check_eq!(ctx, pending.add(kill, before), Ok(()));
        let silent = SigInfo { fields: Fields::Sender { pid: 0, uid: 0 }, ..kill };
        ktest::check_eq!(ctx, pending.take(SigSet::MAX), Some(silent));
        ktest::check_eq!(ctx, pending.take(SigSet::MAX), None);
        ktest::check_eq!(ctx, pending.add(SigInfo::kernel(SIGSEGV), before), Ok(()));
        drop(pending);
        ktest::check_eq!(ctx, queued(), before);
    }
}
