//! The spin lock under every interleaving of two threads: `./run.sh test --filter "host.loom.*"`,
//! or `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_lock --target-dir
//! target/loom`.
#![cfg(loom)]

use locks::mutant::{self, Mutant};
use locks::{Contention, Lock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU32, fence};
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

/// A CPU that waits has the lock before one that asks later. Each caller has a rank of its own: the
/// waits of a rank are counted for all tests together.
fn in_the_order_of_arrival<const RANK: u8>() {
    loom::model(|| {
        let waits = Contention::of(RANK).waits;
        let lock = Arc::new(Lock::<u32, RANK>::new(0));
        let guard = lock.lock();
        let other = {
            let lock = lock.clone();
            thread::spawn(move || *lock.lock() = 1)
        };
        thread::yield_now();
        let is_waiting = Contention::of(RANK).waits > waits;
        // Whatever was seen of the other one, its ticket is.
        fence(SeqCst);
        drop(guard);
        assert!(*lock.lock() == 1 || !is_waiting, "it was passed");
        other.join().unwrap();
    });
}

#[test]
fn who_waits_is_not_passed() {
    in_the_order_of_arrival::<11>();
}

#[test]
#[should_panic(expected = "it was passed")]
fn a_wait_without_a_ticket_is_caught() {
    mutant::set(Mutant::PassTheLine);
    in_the_order_of_arrival::<12>();
}

/// Two CPUs wait, one after the other; they have the lock in this order. With few switches in
/// between: three threads have too many orders for all.
fn in_the_order_of_tickets<const RANK: u8>() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let waits = Contention::of(RANK).waits;
        let lock = Arc::new(Lock::<Vec<u64>, RANK>::new(Vec::new()));
        let guard = lock.lock();
        let mut others = Vec::new();
        // Each begins when the one before waits.
        while Contention::of(RANK).waits == waits + others.len() as u64 && others.len() < 2 {
            let (lock, number) = (lock.clone(), others.len() as u64);
            others.push(thread::spawn(move || {
                // Whatever was seen of the other one, its ticket is.
                fence(SeqCst);
                lock.lock().push(number);
            }));
            thread::yield_now();
        }
        drop(guard);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(lock.lock().is_sorted(), "the second came first");
    });
}

#[test]
fn tickets_are_served_in_their_order() {
    in_the_order_of_tickets::<13>();
}

#[test]
#[should_panic(expected = "the second came first")]
fn a_ticket_that_does_not_matter_is_caught() {
    mutant::set(Mutant::ServeAnyTicket);
    in_the_order_of_tickets::<14>();
}

/// What was written under the lock is seen by the next one that takes it, with a ticket or by an
/// attempt. The words are not loom cells: their panic inside a guard would end in a second one.
fn what_was_written_is_seen() {
    loom::model(|| {
        let lock = Arc::new(Lock::<[AtomicU32; 2], 10>::new(Default::default()));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || lock.lock().iter().for_each(|word| word.store(1, Relaxed)))
        };
        if let Some(words) = lock.try_lock() {
            let [first, second] = words.each_ref().map(|word| word.load(Relaxed));
            assert!(first == second, "half of a write was seen");
        }
        let [first, second] = lock.lock().each_ref().map(|word| word.load(Relaxed));
        assert!(first == second, "half of a write was seen");
        other.join().unwrap();
    });
}

#[test]
fn writes_come_with_the_lock() {
    what_was_written_is_seen();
}

#[test]
#[should_panic(expected = "half of a write was seen")]
fn a_lock_given_up_unordered_is_caught() {
    mutant::set(Mutant::OpenUnordered);
    what_was_written_is_seen();
}

/// A guard opens its lock while another thread takes it.
fn reopened(take: fn(&Lock<u32, 10>)) {
    loom::model(move || {
        let lock = Arc::new(Lock::<u32, 10>::new(0));
        let mut guard = lock.lock();
        let other = {
            let lock = lock.clone();
            thread::spawn(move || take(&lock))
        };
        let ((), undisturbed) = guard.reopen(thread::yield_now);
        assert!(undisturbed == (*guard == 0), "a disturbance was missed");
        drop(guard);
        other.join().unwrap();
    });
}

fn wait(lock: &Lock<u32, 10>) {
    *lock.lock() += 1;
}

fn attempt(lock: &Lock<u32, 10>) {
    lock.try_lock().into_iter().for_each(|mut n| *n += 1);
}

#[test]
fn a_lock_that_was_opened_for_one_that_waits() {
    reopened(wait);
}

#[test]
fn a_lock_that_was_opened_for_an_attempt() {
    reopened(attempt);
}

#[test]
#[should_panic(expected = "a disturbance was missed")]
fn a_missed_disturbance_is_caught() {
    mutant::set(Mutant::ReopenedIfOpen);
    reopened(attempt);
}
