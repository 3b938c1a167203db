//! timer_create(2): timers of a process that send a signal when they run out.
//!
//! A timer has one signal pending at most. Rounds that end meanwhile are its overrun, which comes
//! with the next signal.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::room;
use crate::process::signal::{self, Fields, SigInfo, bit};
use crate::process::task::{Process, Task};
use crate::sched::timers::{self, Expire, TimerAction, TimerId};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use mm::sync::Lock;

/// Timers of a process at most: the table is one piece of the kernel's heap.
const MOST: usize = 4096;

/// Time between two interrupts of a timer at least, in ns: shorter rounds are counted as overrun.
const LEAST: u64 = 20_000;

/// The timers of a process; the place in the list is the number.
#[derive(Default)]
pub struct PosixTimers(Vec<Option<Arc<PosixTimer>>>);

/// Times of a timer, in ns.
#[derive(Clone, Copy, Default)]
pub struct Times {
    /// When it runs out, since boot; as an answer, how long until then. 0 when it is off.
    pub next: u64,
    /// Then again after this; 0 for once.
    pub interval: u64,
}

/// What happens when a timer runs out.
pub struct Notice {
    /// The signal; `None`: nothing.
    pub signo: Option<i32>,
    /// sigev_value; `None`: the timer's number.
    pub value: Option<u64>,
    /// The thread that gets it; `None`: the process.
    pub thread: Option<Weak<Task>>,
}

#[derive(Default)]
struct State {
    times: Times,
    id: Option<TimerId>,
    /// Rounds without a signal since the last one was sent, and before that.
    overrun: u64,
    last_overrun: u64,
}

/// A timer.
pub struct PosixTimer {
    me: Weak<PosixTimer>,
    number: i32,
    process: Weak<Process>,
    notice: Notice,
    /// Its times are those of CLOCK_REALTIME.
    pub realtime: bool,
    state: Lock<State, { ranks::FUTEX }>,
}

impl PosixTimers {
    /// EINVAL for a number of none.
    fn get(&self, number: i32) -> Result<Arc<PosixTimer>> {
        let place = usize::try_from(number).ok().and_then(|n| self.0.get(n));
        place.cloned().flatten().ok_or(Errno::EINVAL)
    }
}

impl Process {
    /// A new timer that is off; its number. EAGAIN.
    pub fn add_timer(self: &Arc<Self>, realtime: bool, notice: Notice) -> Result<i32> {
        room::check(Errno::EAGAIN)?;
        let list = &mut self.timers.lock().0;
        let free = list.iter().position(Option::is_none);
        let at = free.unwrap_or(list.len());
        if at == list.len() && (at >= MOST || fallible::push(list, None).is_err()) {
            return Err(Errno::EAGAIN);
        }
        list[at] = Some(Arc::new_cyclic(|me| PosixTimer {
            me: me.clone(),
            number: at as i32,
            process: Arc::downgrade(self),
            notice,
            realtime,
            state: Lock::new(State::default()),
        }));
        Ok(at as i32)
    }

    /// One by number. EINVAL.
    pub fn timer(&self, number: i32) -> Result<Arc<PosixTimer>> {
        self.timers.lock().get(number)
    }

    /// timer_delete(2). EINVAL.
    pub fn delete_timer(&self, number: i32) -> Result {
        let mut timers = self.timers.lock();
        let timer = timers.get(number)?;
        timers.0[number as usize] = None;
        drop(timers);
        timer.set(Times::default());
        Ok(())
    }

    /// The end of the process, or execve(2).
    pub fn delete_timers(&self) {
        let timers = core::mem::take(&mut *self.timers.lock());
        for timer in timers.0.into_iter().flatten() {
            timer.set(Times::default());
        }
    }
}

impl PosixTimer {
    /// timer_settime(2).
    pub fn set(&self, times: Times) {
        let mut state = self.state.lock();
        if let Some(id) = state.id.take() {
            timers::cancel(id);
        }
        *state = State {
            times,
            ..State::default()
        };
        if times.next != 0 {
            self.arm(&mut state);
        }
    }

    fn arm(&self, state: &mut State) {
        let action = TimerAction::Expire(self.me.clone() as Weak<dyn Expire>);
        let at = state.times.next.max(timers::now() + LEAST);
        state.id = Some(timers::set(at, action));
    }

    /// timer_gettime(2): the times as they are now.
    pub fn left(&self) -> Times {
        let state = self.state.lock();
        let next = match state.id {
            // A timer that is due but has not fired yet still runs.
            Some(_) => state.times.next.saturating_sub(timers::now()).max(1),
            None => 0,
        };
        Times {
            next,
            interval: state.times.interval,
        }
    }

    /// timer_getoverrun(2): of the last signal.
    pub fn overrun(&self) -> i32 {
        i32::try_from(self.state.lock().last_overrun).unwrap_or(i32::MAX)
    }

    /// Whether its last signal is still to be handled.
    fn is_pending(&self, signo: i32, process: &Process) -> bool {
        let pending = match self.notice.thread.as_ref().and_then(Weak::upgrade) {
            Some(thread) => thread.pending.lock().set(),
            None => process.pending.lock().set(),
        };
        pending & bit(signo) != 0
    }

    fn send(&self, signo: i32, process: &Arc<Process>, overrun: u64) {
        let info = SigInfo {
            signo,
            code: c::SI_TIMER,
            fields: Fields::Timer {
                number: self.number,
                overrun: i32::try_from(overrun).unwrap_or(i32::MAX),
                value: self.notice.value.unwrap_or(self.number as u64),
            },
        };
        match &self.notice.thread {
            None => signal::send_process(process, info),
            Some(thread) => thread
                .upgrade()
                .iter()
                .for_each(|it| signal::send_task(it, info)),
        }
    }
}

impl Expire for PosixTimer {
    fn expire(self: Arc<Self>, id: TimerId) {
        let mut state = self.state.lock();
        if state.id != Some(id) {
            return;
        }
        state.id = None;
        let late = timers::now().saturating_sub(state.times.next);
        // Rounds that were missed because interrupts were off are overrun, too.
        if let Some(missed) = late.checked_div(state.times.interval) {
            let ahead = (missed + 1).saturating_mul(state.times.interval);
            state.times.next = state.times.next.saturating_add(ahead);
            state.overrun += missed;
            self.arm(&mut state);
        }
        drop(state);
        let (Some(process), Some(signo)) = (self.process.upgrade(), self.notice.signo) else {
            return;
        };
        let pending = self.is_pending(signo, &process);
        let mut state = self.state.lock();
        if pending {
            state.overrun += 1;
            return;
        }
        let overrun = core::mem::take(&mut state.overrun);
        state.last_overrun = overrun;
        drop(state);
        self.send(signo, &process, overrun);
    }
}
