//! timerfd_create(2): a timer as a file, which is readable once it has run out.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::open::io::Sink;
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::sched::timers::{self, Expire, TimerAction, TimerId};
use crate::sched::wait::WaitQueue;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use mm::sync::Lock;

/// Bytes of a read.
const WORD: usize = 8;

/// Times of a timer, in ns.
#[derive(Clone, Copy, Default)]
pub struct Setting {
    /// When it runs out, since boot; 0 when it is off.
    pub deadline: u64,
    /// Then again after this; 0 for once.
    pub interval: u64,
}

#[derive(Default)]
struct State {
    setting: Setting,
    id: Option<TimerId>,
    /// It has run out since it was read or set. The next round is set when it is read: a short
    /// interval interrupts no more often than somebody looks.
    expired: bool,
}

/// A timer.
pub struct TimerFd {
    me: Weak<TimerFd>,
    /// Its times are those of CLOCK_REALTIME.
    pub realtime: bool,
    state: Lock<State, { ranks::PIPE }>,
    queue: WaitQueue,
}

impl TimerFd {
    /// A timer that is off.
    pub fn new(realtime: bool) -> Arc<TimerFd> {
        Arc::new_cyclic(|me| TimerFd {
            me: me.clone(),
            realtime,
            state: Lock::new(State::default()),
            queue: WaitQueue::new(),
        })
    }

    /// timerfd_settime(2).
    pub fn set(&self, setting: Setting) {
        let mut state = self.state.lock();
        if let Some(id) = state.id.take() {
            timers::cancel(id);
        }
        state.expired = false;
        state.setting = setting;
        if setting.deadline != 0 {
            self.arm(&mut state);
        }
    }

    fn arm(&self, state: &mut State) {
        let action = TimerAction::Expire(self.me.clone() as Weak<dyn Expire>);
        state.id = Some(timers::set(state.setting.deadline, action));
    }

    /// The times as they are now; the deadline in ns from now, 0 when it is off.
    pub fn left(&self) -> Setting {
        let state = self.state.lock();
        let Setting { deadline, interval } = state.setting;
        let left = match (deadline, state.expired, interval) {
            (0, ..) | (_, true, 0) => 0,
            (_, true, _) => interval - late(deadline) % interval,
            // A timer that is due but has not fired yet still runs.
            (_, false, _) if state.id.is_some() => deadline.saturating_sub(timers::now()).max(1),
            _ => 0,
        };
        Setting {
            deadline: left,
            interval,
        }
    }

    /// How often it has run out; the next round begins.
    fn take(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.expired) {
            return None;
        }
        let Setting { deadline, interval } = state.setting;
        let Some(missed) = late(deadline).checked_div(interval) else {
            return Some(1);
        };
        let ahead = (missed + 1).saturating_mul(interval);
        state.setting.deadline = deadline.saturating_add(ahead);
        self.arm(&mut state);
        Some(missed + 1)
    }
}

/// Nanoseconds since a deadline.
fn late(deadline: u64) -> u64 {
    timers::now().saturating_sub(deadline)
}

impl Expire for TimerFd {
    fn expire(self: Arc<Self>, id: TimerId) {
        let mut state = self.state.lock();
        if state.id != Some(id) {
            return;
        }
        state.id = None;
        state.expired = true;
        drop(state);
        self.queue.wake_all();
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        if let Some(id) = self.state.get_mut().id.take() {
            timers::cancel(id);
        }
    }
}

impl FileOps for TimerFd {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if sink.left() < WORD {
            return Err(Errno::EINVAL);
        }
        let expired = self.queue.wait_unless(at.nonblocking, || self.take())?;
        match sink.give(&expired.to_ne_bytes())? {
            WORD => Ok(WORD),
            _ => Err(Errno::EFAULT),
        }
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let mut ready = Ready::empty();
        ready.set(Ready::IN, self.state.lock().expired);
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.queue);
    }
}
