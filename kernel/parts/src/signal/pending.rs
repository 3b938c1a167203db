//! Signals that were sent and not yet handled: of a standard signal one, of a real-time signal as
//! many as RLIMIT_SIGPENDING and memory allow, over all processes. Beyond that a real-time signal
//! is refused, or pends as one without what came with it, as kill(2) and the kernel want it.

use super::{
    FIRST_REALTIME, Fields, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSYS, SIGTRAP, SigInfo,
    SigSet, bit,
};
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

/// A real-time signal finds as many queued as there may be, or no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

/// A set of pending signals with what came with each.
#[derive(Default)]
pub struct Pending {
    set: SigSet,
    queue: VecDeque<SigInfo>,
}

impl Pending {
    /// Which.
    #[inline]
    pub fn set(&self) -> SigSet {
        self.set
    }

    /// The one that was queued after `n` others, and stays.
    pub fn nth(&self, n: usize) -> Option<SigInfo> {
        self.queue.get(n).copied()
    }

    /// Adds one; a standard signal that is pending already is not added again. [`QueueFull`]: a
    /// real-time signal, from something else than kill(2) and the kernel, finds `limit` signals
    /// queued, or no memory.
    pub fn add(&mut self, info: SigInfo, limit: u64) -> Result<(), QueueFull> {
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
            return Err(QueueFull);
        }
        self.set |= bit(info.signo);
        Ok(())
    }

    /// Drops all of a set.
    #[inline]
    pub fn remove(&mut self, set: SigSet) {
        if self.set & set != 0 {
            self.set &= !set;
            let before = self.queue.len();
            self.queue.retain(|info| bit(info.signo) & set == 0);
            QUEUED.fetch_sub((before - self.queue.len()) as u64, Relaxed);
        }
    }

    /// Takes the first signal of `allowed` to be handled: SIGKILL, then faults, then the lowest
    /// number.
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn info(signo: i32, code: i32) -> SigInfo {
        SigInfo {
            signo,
            code,
            fields: Fields::Sender { pid: 7, uid: 0 },
        }
    }
    const KILL: i32 = abi::SI_USER as i32;

    /// One test: what is queued is counted for all.
    #[test]
    fn what_is_queued_is_counted_and_limited() {
        let first = FIRST_REALTIME;
        let (kill, queue) = (info(first, KILL), info(first, abi::SI_QUEUE));
        let mut pending = Pending::default();
        assert_eq!(pending.add(queue, 1), Ok(()));
        assert_eq!(pending.add(queue, 1), Err(QueueFull));
        assert_eq!(pending.add(info(first, abi::SI_TKILL), 1), Err(QueueFull));
        // kill's and the kernel's pend once beyond the limit, and say nothing.
        assert_eq!(pending.add(kill, 1), Ok(()));
        assert_eq!(queued(), 1);
        assert_eq!(pending.take(SigSet::MAX), Some(queue));
        assert_eq!(pending.set(), 0);
        assert_eq!(pending.add(kill, 0), Ok(()));
        let silent = SigInfo {
            fields: Fields::Sender { pid: 0, uid: 0 },
            ..kill
        };
        assert_eq!(pending.take(SigSet::MAX), Some(silent));
        assert_eq!(pending.take(SigSet::MAX), None);

        // A real-time signal queues, in order; a standard one is pending once.
        for number in [1, 2] {
            let fields = Fields::Sender {
                pid: number,
                uid: 0,
            };
            assert_eq!(pending.add(SigInfo { fields, ..queue }, 9), Ok(()));
            assert_eq!(pending.add(info(SIGSEGV, number), 0), Ok(()));
        }
        assert_eq!(queued(), 3);
        // A lower number comes later than a fault, and SIGKILL before all.
        assert_eq!(pending.add(info(1, KILL), 0), Ok(()));
        assert_eq!(pending.add(info(SIGKILL, KILL), 0), Ok(()));
        let order: [i32; 5] = core::array::from_fn(|_| {
            let next = pending.take(SigSet::MAX).expect("pending");
            match next.fields {
                Fields::Sender { pid, .. } if next.signo == first => 100 + pid,
                _ => next.signo,
            }
        });
        assert_eq!(order, [SIGKILL, SIGSEGV, 1, 101, 102]);
        assert_eq!((pending.take(SigSet::MAX), queued()), (None, 0));

        // What is not allowed stays; what is removed or dropped is counted no more.
        assert_eq!(pending.add(info(2, KILL), 0), Ok(()));
        assert_eq!(pending.add(info(3, KILL), 0), Ok(()));
        assert_eq!(pending.take(!bit(2)).map(|info| info.signo), Some(3));
        pending.remove(bit(2));
        assert_eq!((pending.set(), queued()), (0, 0));
        assert_eq!(pending.add(info(SIGSEGV, KILL), 0), Ok(()));
        assert_eq!(queued(), 1);
        drop(pending);
        assert_eq!(queued(), 0);
    }
}
