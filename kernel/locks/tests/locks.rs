//! The ranked lock: exclusion between threads, and the order of ranks.

use locks::{Lock, held};
use std::sync::Arc;

#[test]
fn one_holder_at_a_time() {
    let lock = Arc::new(Lock::<(u64, u64), 10>::new((0, 0)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock.clone();
            std::thread::spawn(move || {
                for _ in 0..2_000 {
                    let mut pair = lock.lock();
                    pair.0 += 1;
                    assert_eq!(pair.0, pair.1 + 1, "somebody else was inside");
                    pair.1 += 1;
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*lock.lock(), (8_000, 8_000));
}

#[test]
fn ranks_rise() {
    let (low, high) = (Lock::<(), 10>::new(()), Lock::<(), 200>::new(()));
    let a = low.lock();
    let b = high.lock();
    assert_eq!(held(), 2);
    // Out of order is fine for letting go.
    drop(a);
    drop(b);
    assert_eq!(held(), 0);
    assert!(low.try_lock().is_some());
    assert_eq!(held(), 0);
}

#[test]
fn who_does_not_wait_may_take_a_lower_rank() {
    let (low, high) = (Lock::<(), 10>::new(()), Lock::<(), 200>::new(()));
    let b = high.lock();
    let a = low.try_lock();
    assert!(a.is_some() && low.try_lock().is_none());
    assert_eq!(held(), 2);
    drop(a);
    drop(b);
    assert_eq!(held(), 0);
}

#[test]
#[should_panic(expected = "lock order: taking rank 10 while holding rank 200")]
fn a_lower_rank_is_refused() {
    let (low, high) = (Lock::<(), 10>::new(()), Lock::<(), 200>::new(()));
    let _b = high.lock();
    let _a = low.lock();
}

#[test]
#[should_panic(expected = "lock order")]
fn an_equal_rank_is_refused() {
    let (one, two) = (Lock::<(), 10>::new(()), Lock::<(), 10>::new(()));
    let _a = one.lock();
    let _b = two.lock();
}
