//! Time in which threads wait for memory: for frames, or for what is stored. Whether all do is
//! asked when a wait begins or ends.

use super::worker;
use crate::base::ranks;
use crate::sched::{self, timers};
use mm::sync::Lock;
use parts::stalls::{Line, Stalls};

static STALLS: Lock<Stalls, { ranks::STALLS }> = Lock::new(Stalls::NONE);

/// Does `f`, in which the running thread waits for memory.
pub fn waiting<R>(f: impl FnOnce() -> R) -> R {
    let idle = 1 + usize::from(worker::is_running());
    let busy = sched::runnable() > idle;
    STALLS.lock().change(timers::now(), true, busy);
    let result = f();
    STALLS.lock().change(timers::now(), false, true);
    result
}

/// The lines "some" and "full".
pub fn lines() -> [Line; 2] {
    STALLS.lock().lines(timers::now())
}
