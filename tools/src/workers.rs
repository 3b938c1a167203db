//! Work that is done side by side by a few threads.
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
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
        for _ in 0..workers.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs: Vec<u32> = (0..100).collect();
        let squares: Vec<u32> = jobs.iter().map(|n| n * n).collect();
        assert_eq!(map(&jobs, 3, |n| n * n), squares);
        assert_eq!(map(&jobs, 0, |n| n * n), squares);
        assert!(map(&[], 3, |n: &u32| *n).is_empty());
    }

    #[test]
    fn jobs_run_side_by_side() {
        let both = Barrier::new(2);
        map(&[(), ()], 2, |()| both.wait().is_leader());
    }
}
