//! Work that is done side by side by a few threads.
use anyhow::{Result, bail};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Machines that run at the same time when the user names no number: each needs a CPU and its
/// memory.
const MOST: usize = 4;

/// How many machines run at the same time: as many as the user says, or as this computer has CPUs.
pub fn of_machines(named: Option<u32>) -> usize {
    named.map_or(cpus().min(MOST), |named| named as usize)
}

/// The CPUs of this computer.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// `f` of each job, begun in their order; the results are in their order, too. A panic in one is
/// passed on when the others are done.
pub fn map<T: Sync, R: Send>(jobs: &[T], workers: usize, f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                return;
            };
            let result = f(job);
            if let Ok(mut done) = done.lock() {
                done.push((at, result));
            }
        }
    };
    thread::scope(|scope| {
        let workers = 0..workers.clamp(1, jobs.len().max(1));
        let workers: Vec<_> = workers.map(|_| scope.spawn(work)).collect();
        for worker in workers {
            // As it is: the scope's own says only that there was one.
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Work whose panic is an error, which ends nothing else.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied());
        bail!("panicked: {}", text.unwrap_or("without a text"))
    })
}

/// Jobs that some threads put in while others do them: of those that are there, the one that takes
/// longest comes first.
pub struct Queue<T> {
    jobs: Mutex<Jobs<T>>,
    /// A job came, or no more will.
    changed: Condvar,
}

struct Jobs<T> {
    /// With how long they take, in any unit.
    waiting: Vec<(u64, T)>,
    /// No more will come.
    closed: bool,
    /// None will be done.
    given_up: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue {
            jobs: Mutex::new(Jobs {
                waiting: Vec::new(),
                closed: false,
                given_up: false,
            }),
            changed: Condvar::new(),
        }
    }
}

impl<T> Queue<T> {
    fn jobs(&self) -> MutexGuard<'_, Jobs<T>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in a job that takes so long.
    pub fn put(&self, long: u64, job: T) {
        self.jobs().waiting.push((long, job));
        self.changed.notify_one();
    }

    /// The next job, which is waited for; `None` when all are done.
    pub fn next(&self) -> Option<T> {
        let mut jobs = self.jobs();
        while jobs.waiting.is_empty() && !jobs.closed && !jobs.given_up {
            jobs = self
                .changed
                .wait(jobs)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if jobs.given_up {
            return None;
        }
        let longest = jobs
            .waiting
            .iter()
            .enumerate()
            .max_by_key(|(_, (long, _))| *long);
        let at = longest.map(|(at, _)| at)?;
        Some(jobs.waiting.swap_remove(at).1)
    }

    /// Nothing more comes when the result is dropped.
    pub fn closing(&self) -> impl Drop + '_ {
        Closing(self)
    }

    /// Nothing that waits is done.
    pub fn give_up(&self) {
        self.jobs().given_up = true;
        self.changed.notify_all();
    }

    /// Whether nothing that waits is done.
    pub fn is_given_up(&self) -> bool {
        self.jobs().given_up
    }
}

struct Closing<'a, T>(&'a Queue<T>);

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        self.0.jobs().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn the_longest_job_comes_first() {
        let queue = Queue::default();
        let closing = queue.closing();
        for long in [3, 9, 5] {
            queue.put(long, long);
        }
        drop(closing);
        assert_eq!(
            [(); 4].map(|()| queue.next()),
            [Some(9), Some(5), Some(3), None]
        );
        let queue = Queue::default();
        queue.put(1, 1);
        queue.give_up();
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs: Vec<u32> = (0..100).collect();
        let squares: Vec<u32> = jobs.iter().map(|n| n * n).collect();
        assert_eq!(map(&jobs, 3, |n| n * n), squares);
        assert_eq!(map(&jobs, 0, |n| n * n), squares);
        assert!(map(&[], 3, |n: &u32| *n).is_empty());
    }

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let jobs = [1, 2, 3];
        let third = |&job: &i32| assert!(job < 3, "job {job}");
        let error = caught(|| Ok(map(&jobs, 2, third))).unwrap_err();
        assert_eq!(error.to_string(), "panicked: job 3");
        let fixed = |(): &()| panic!("no number");
        let error = caught(|| Ok(map(&[()], 1, fixed))).unwrap_err();
        assert_eq!(error.to_string(), "panicked: no number");
        assert_eq!(
            caught(|| Ok(map(&jobs, 2, |job| job + 1))).unwrap(),
            [2, 3, 4]
        );
    }

    #[test]
    fn jobs_run_side_by_side() {
        let both = Barrier::new(2);
        map(&[(), ()], 2, |()| both.wait().is_leader());
    }
}
