//! The spin lock under every interleaving of two threads: `./run.sh test --filter "host.loom.*"`,
//! or `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_lock --target-dir
//! target/loom`.
#![cfg(loom)]

use locks::Lock;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// loom's cell panics when two accesses are not ordered by the lock's acquire and release.
fn count_up(threads: usize) {
    loom::model(move || {
        let lock = Arc::new(Lock::<UnsafeCell<u32>, 10>::new(UnsafeCell::new(0)));
        let add = |lock: Arc<Lock<UnsafeCell<u32>, 10>>| {
            let guard = lock.lock();
            #[allow(unsafe_code)]
            // SAFETY: the lock is held; loom checks exactly that.
            guard.with_mut(|n| unsafe { *n += 1 });
        };
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || add(lock))
            })
            .collect();
        add(lock.clone());
        others.into_iter().for_each(|t| t.join().unwrap());
        #[allow(unsafe_code)]
        // SAFETY: the lock is held.
        lock.lock()
            .with(|n| assert_eq!(unsafe { *n }, threads as u32));
    });
}

#[test]
fn two_threads() {
    count_up(2);
}

#[test]
fn a_failed_attempt_takes_nothing() {
    loom::model(|| {
        let lock = Arc::new(Lock::<u32, 10>::new(0));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || lock.try_lock().map(|mut n| *n += 1).is_some())
        };
        let here = lock.try_lock().map(|mut n| *n += 1).is_some();
        let there = other.join().unwrap();
        assert!(
            here || there,
            "both were refused though nobody stayed inside"
        );
        assert_eq!(*lock.lock(), u32::from(here) + u32::from(there));
    });
}
