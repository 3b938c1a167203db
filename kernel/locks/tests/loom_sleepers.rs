//! The sleepers of futex(2) under every interleaving: `./run.sh test --filter "host.loom.*"`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_sleepers --target-dir target/loom`.
#![cfg(loom)]

use fallible::OutOfMemory;
use locks::{Key, Lock, Place, Sleeper, Sleepers};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

/// A key that names its bucket.
#[derive(Clone, Copy, PartialEq)]
struct Number(usize);

impl Key for Number {
    fn hash(&self) -> usize {
        self.0
    }
}

/// Two keys, each in a bucket of its own.
const FIRST: Number = Number(0);
const SECOND: Number = Number(1);

/// A thread that sleeps: nothing wakes it but its place, at which it looks again and again.
#[derive(Clone)]
struct Thread(Arc<Place>);

impl Sleeper for Thread {
    fn place(&self) -> &Place {
        &self.0
    }
    fn wake(&self) {}
}

impl Thread {
    fn new() -> Self {
        Thread(Arc::new(Place::new()))
    }
    fn sleep(&self) {
        while !self.0.is_out() {
            thread::yield_now();
        }
    }
}

/// The word has another value.
#[derive(Debug, PartialEq)]
struct Differs;

impl From<OutOfMemory> for Differs {
    fn from(_: OutOfMemory) -> Self {
        panic!("there is memory")
    }
}

type World = Sleepers<Number, Thread, 10, 2>;

/// A thread sleeps while the word is 0, another one changes it and wakes.
fn word_changes(look_under_lock: bool) {
    loom::model(move || {
        let (world, word) = (Arc::new(World::new()), Arc::new(AtomicU32::new(0)));
        let waker = {
            let (world, word) = (world.clone(), word.clone());
            thread::spawn(move || {
                word.store(1, Relaxed);
                world.wake(&FIRST, 1, u32::MAX)
            })
        };
        let me = Thread::new();
        let look = || (word.load(Relaxed) == 0).then_some(()).ok_or(Differs);
        let before = look();
        let entered = match look_under_lock {
            true => world.enter(FIRST, u32::MAX, me.clone(), look),
            false => before.and_then(|()| world.enter(FIRST, u32::MAX, me.clone(), || Ok(()))),
        };
        if entered.is_ok() {
            me.sleep();
        }
        assert_eq!(waker.join().unwrap(), usize::from(entered.is_ok()));
    });
}

#[test]
fn no_wake_up_is_lost() {
    word_changes(true);
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn a_look_before_the_lock_loses_one() {
    word_changes(false);
}

/// A wake-up and a time-out: the sleeper was woken exactly if the waker says that it woke one.
#[test]
fn a_time_out_beside_a_wake_up() {
    loom::model(|| {
        let (world, me) = (Arc::new(World::new()), Thread::new());
        let entered = world.enter::<Differs>(FIRST, u32::MAX, me.clone(), || Ok(()));
        assert_eq!(entered, Ok(()));
        let waker = {
            let world = world.clone();
            thread::spawn(move || world.wake(&FIRST, 1, u32::MAX))
        };
        let woken = world.leave(&me.0);
        assert_eq!(waker.join().unwrap(), usize::from(woken));
        assert_eq!(world.wake(&FIRST, 1, u32::MAX), 0);
    });
}

/// A sleeper that times out while it is moved: it is in no list afterwards, and was woken through
/// the other key exactly if that says so.
#[test]
fn a_time_out_beside_a_move() {
    loom::model(|| {
        let (world, me) = (Arc::new(World::new()), Thread::new());
        let entered = world.enter::<Differs>(FIRST, u32::MAX, me.clone(), || Ok(()));
        assert_eq!(entered, Ok(()));
        let mover = {
            let world = world.clone();
            thread::spawn(move || {
                let moved = world.requeue::<Differs>(&FIRST, &SECOND, 0, 1, || Ok(()));
                (moved, world.wake(&SECOND, 1, u32::MAX))
            })
        };
        let woken = world.leave(&me.0);
        let (moved, through) = mover.join().unwrap();
        assert!(moved.is_ok_and(|moved| moved >= through));
        assert_eq!(through, usize::from(woken));
        assert_eq!(world.wake(&FIRST, 1, u32::MAX), 0);
        assert_eq!(world.wake(&SECOND, 1, u32::MAX), 0);
    });
}

/// Two that are moved in opposite directions: no deadlock, and both are found.
#[test]
fn moves_to_and_fro() {
    loom::model(|| {
        let world = Arc::new(World::new());
        for key in [FIRST, SECOND] {
            let entered = world.enter::<Differs>(key, u32::MAX, Thread::new(), || Ok(()));
            assert_eq!(entered, Ok(()));
        }
        let carry = |from, to| {
            let world = world.clone();
            move || world.requeue::<Differs>(&from, &to, 0, 1, || Ok(()))
        };
        let other = thread::spawn(carry(SECOND, FIRST));
        assert_eq!(carry(FIRST, SECOND)(), Ok(1));
        assert_eq!(other.join().unwrap(), Ok(1));
        let all = [FIRST, SECOND].map(|key| world.wake(&key, 9, u32::MAX));
        assert_eq!(all.iter().sum::<usize>(), 2);
    });
}

/// Two CPUs that take both locks, `in_order` as [`Lock::lock_both`] does, or each its own first.
fn both_locks(in_order: bool) {
    loom::model(move || {
        let locks = Arc::new([Lock::<u32, 10>::new(0), Lock::new(0)]);
        let add = move |locks: &[Lock<u32, 10>; 2], first: usize| {
            let (one, other) = (&locks[first], &locks[1 - first]);
            let (mut a, mut b) = match in_order {
                true => Lock::lock_both(one, other),
                false => (one.lock(), other.lock()),
            };
            *a += 1;
            *b += 1;
        };
        let other = {
            let locks = locks.clone();
            thread::spawn(move || add(&locks, 1))
        };
        add(&locks, 0);
        other.join().unwrap();
        assert_eq!((*locks[0].lock(), *locks[1].lock()), (2, 2));
    });
}

#[test]
fn both_locks_without_a_deadlock() {
    both_locks(true);
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn each_its_own_lock_first_is_a_deadlock() {
    both_locks(false);
}
