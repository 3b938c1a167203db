//! Wait queues: sleeping until a condition holds.
//!
//! The pattern is always the same: a queue stands beside the state it is about. The waiter checks
//! the condition, queues itself, checks again and sleeps; code that changes the state wakes the
//! queue. A wake-up is a hint: the waiter checks again.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::sched::timers::{self, TimerAction};
use crate::sched::{self, Task, TaskState, Thread};
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use mm::sync::Lock;

/// Queues that are entered between two pauses.
const STEP: usize = 256;

/// Observers of one queue at most: a wake-up calls them all.
const MOST_OBSERVERS: usize = 1000;

/// What is called with each wake-up of a queue: a file that is watched through a set (epoll).
pub trait Observer: Send + Sync {
    /// The queue was woken for these events of poll(2), all bits for any. Nothing that this calls
    /// may wait.
    fn woken(self: Arc<Self>, events: u16);
}

/// Threads that wait for one thing, and what observes them.
pub struct WaitQueue(Lock<Waiters, { ranks::WAIT_QUEUE }>);

struct Waiters {
    /// In the order they came.
    threads: VecDeque<Arc<Task>>,
    /// A new list for each new one: a wake-up goes through the old list without the lock.
    observers: Option<Arc<Vec<Weak<dyn Observer>>>>,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self(Lock::new(Waiters {
            threads: VecDeque::new(),
            observers: None,
        }))
    }

    /// Wakes all waiting threads.
    pub fn wake_all(&self) {
        self.wake_for(u16::MAX);
    }

    /// Wakes all waiting threads; observers learn for which events of poll(2).
    pub fn wake_for(&self, events: u16) {
        let mut queue = self.0.lock();
        while let Some(task) = queue.threads.pop_front() {
            sched::wake(&task);
        }
        if let Some(observers) = queue.observers.clone() {
            drop(queue);
            notify(&observers, events);
        }
    }

    /// From now on each wake-up calls `observer`, as long as it is there. ENOSPC: there are too
    /// many; ENOMEM.
    pub fn observe(&self, observer: Weak<dyn Observer>) -> Result {
        let mut queue = self.0.lock();
        let mut list = Vec::new();
        let others = queue.observers.as_deref().map_or(&[][..], |list| list);
        fallible::reserve(&mut list, others.len() + 1)?;
        list.extend(others.iter().filter(|it| it.strong_count() > 0).cloned());
        if list.len() == MOST_OBSERVERS {
            return Err(Errno::ENOSPC);
        }
        list.push(observer);
        let old = queue.observers.replace(Arc::new(list));
        drop(queue);
        drop(old);
        Ok(())
    }

    /// Waits until `ready` gives a value: it is asked first, and again after each wake-up.
    /// `deadline` is in ns of [`timers::now`]. `Ok(None)`: it has passed. ERESTARTSYS: a signal is
    /// to be handled.
    pub fn wait<T>(
        &self,
        deadline: Option<u64>,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>> {
        wait_any(&[self], deadline, ready)
    }

    /// As [`WaitQueue::wait`], without deadline. EAGAIN: it is not ready, and `nonblocking`.
    pub fn wait_unless<T>(
        &self,
        nonblocking: bool,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        match ready() {
            Some(value) => Ok(value),
            None if nonblocking => Err(Errno::EAGAIN),
            None => self
                .wait(None, ready)
                .map(|value| value.expect("a wait without deadline has no time-out")),
        }
    }

    /// As [`WaitQueue::wait`], without deadline; only a fatal signal ends it.
    pub fn wait_killable<T>(&self, ready: impl FnMut() -> Option<T>) -> Result<T> {
        wait_on(&[self], None, TaskState::Killable, ready)
            .map(|value| value.expect("a wait without deadline has no time-out"))
    }

    /// `false`: there is no memory for it.
    fn add(&self, task: &Arc<Task>) -> bool {
        let queue = &mut self.0.lock().threads;
        // poll(2) may name one file very often.
        if queue.back().is_some_and(|last| Arc::ptr_eq(last, task)) {
            return true;
        }
        if fallible::reserve(queue, 1).is_err() {
            return false;
        }
        queue.push_back(task.clone());
        true
    }

    fn remove(&self, task: &Arc<Task>) {
        self.0.lock().threads.retain(|t| !Arc::ptr_eq(t, task));
    }
}

#[cold]
fn notify(observers: &[Weak<dyn Observer>], events: u16) {
    for observer in observers.iter().filter_map(Weak::upgrade) {
        observer.woken(events);
    }
}

/// Waits on several queues at once, as [`WaitQueue::wait`] does on one.
pub fn wait_any<T>(
    queues: &[&WaitQueue],
    deadline: Option<u64>,
    ready: impl FnMut() -> Option<T>,
) -> Result<Option<T>> {
    wait_on(queues, deadline, TaskState::Interruptible, ready)
}

/// Sleeps until `deadline` (`None`: for ever) or a signal (ERESTARTSYS).
pub fn sleep_until(deadline: Option<u64>) -> Result {
    wait_any(&[], deadline, || None::<()>).map(|_| ())
}

fn wait_on<T>(
    queues: &[&WaitQueue],
    deadline: Option<u64>,
    how: TaskState,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<Option<T>> {
    let mut value = ready();
    if value.is_none() {
        sleep_on(queues, deadline, how, &mut || {
            value = ready();
            value.is_some()
        })?;
    }
    Ok(value)
}

/// Sleeps until `ready`, which is asked after each wake-up. `Ok`, too, when `deadline` has passed.
/// One copy of this function serves all conditions.
fn sleep_on(
    queues: &[&WaitQueue],
    deadline: Option<u64>,
    how: TaskState,
    ready: &mut dyn FnMut() -> bool,
) -> Result {
    let task = sched::running();
    let entity = task.entity();
    let mut timer = None;
    let result = loop {
        entity.prepare();
        let queued = in_steps(queues).all(|queue| queue.add(&task));
        // Checked again now that a wake-up cannot be missed. The check may pause.
        let result = if ready() {
            Some(Ok(()))
        } else if task.is_interrupted(how) {
            Some(Err(Errno::ERESTARTSYS))
        } else if deadline.is_some_and(|at| at <= timers::now()) {
            Some(Ok(()))
        } else {
            None
        };
        let sleeps = result.is_none() && queued;
        if let (true, Some(at), None) = (sleeps, deadline, timer) {
            timer = Some(timers::set(at, TimerAction::Wake(task.clone())));
        }
        if sleeps && entity.settle(how) {
            entity.count_voluntary_switch();
            sched::schedule();
        } else {
            entity.set_state(TaskState::Runnable);
        }
        if result.is_none() && !queued {
            // Without memory for its place in a queue the thread polls.
            sched::poll();
        }
        in_steps(queues).for_each(|queue| queue.remove(&task));
        if let Some(result) = result {
            break result;
        }
    };
    if let Some(timer) = timer {
        timers::cancel(timer);
    }
    result
}

/// Pauses now and then: poll(2) may wait on very many queues.
fn in_steps<'a>(queues: &'a [&WaitQueue]) -> impl Iterator<Item = &'a WaitQueue> {
    queues.iter().zip(1..).map(|(queue, n)| {
        if n % STEP == 0 {
            sched::breathe();
        }
        *queue
    })
}

/// A one-shot event.
pub struct Completion {
    done: AtomicBool,
    queue: WaitQueue,
}

impl Completion {
    /// An event that has not happened.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            done: AtomicBool::new(false),
            queue: WaitQueue::new(),
        })
    }

    /// Signals the event.
    pub fn complete(&self) {
        // Pairs with the load in `wait_killable`.
        self.done.store(true, Ordering::Release);
        self.queue.wake_all();
    }

    /// Waits until it has happened, or until the thread is killed.
    pub fn wait_killable(&self) -> Result {
        self.queue
            .wait_killable(|| self.done.load(Ordering::Acquire).then_some(()))
    }
}
