//! The shootdown's requests under every interleaving: `./run.sh test --filter "host.loom.*"`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p arch-x86_64 --test loom_shootdown --target-dir
//! target/loom`.
#![cfg(loom)]

use arch_x86_64::shootdown::{Flush, Loaded, Requests};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

/// A page-table entry (1: it maps the frame), the frame, and a CPU's requests.
#[derive(Default)]
struct World {
    entry: AtomicU64,
    frame: UnsafeCell<u64>,
    requests: Requests,
    finished: AtomicBool,
}

/// The CPU with the stale entry: it has cached what it read, uses the frame by it, and serves.
fn stale(world: &World, acknowledge_first: bool) {
    let mut cached = world.entry.load(Ordering::Relaxed);
    while !world.finished.load(Ordering::Relaxed) {
        if cached == 1 {
            // loom panics when the initiator's write of the freed frame is not ordered after it.
            #[allow(unsafe_code)]
            // SAFETY: what the model checks.
            let _value = world.frame.with(|frame| unsafe { *frame });
        }
        if world.requests.is_open() {
            if acknowledge_first {
                world.requests.serve(|_| ());
            } else if world.requests.serve(|_| cached = 0) {
                assert_eq!(world.entry.load(Ordering::Relaxed), 0, "it is walked again");
                return;
            }
        }
        thread::yield_now();
    }
}

/// The initiator: clears the entry, has it flushed, frees the frame.
fn initiator(world: &World) {
    world.entry.store(0, Ordering::Relaxed);
    let number = world.requests.ask(Flush::User);
    while !world.requests.is_done(number) {
        thread::yield_now();
    }
    #[allow(unsafe_code)]
    // SAFETY: what the model checks.
    world.frame.with_mut(|frame| unsafe { *frame = 0 });
    world.finished.store(true, Ordering::Relaxed);
}

fn shoot(acknowledge_first: bool) {
    loom::model(move || {
        let world = Arc::new(World {
            entry: AtomicU64::new(1),
            frame: UnsafeCell::new(7),
            ..World::default()
        });
        let other = {
            let world = world.clone();
            thread::spawn(move || stale(&world, acknowledge_first))
        };
        initiator(&world);
        other.join().unwrap();
    });
}

#[test]
fn no_cpu_uses_a_frame_that_is_freed() {
    shoot(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_answer_without_the_flush_is_caught() {
    shoot(true);
}

/// The tag of the space.
const TAG: u16 = 5;

/// What is done in another order than it must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The initiator looks who has the space loaded before it clears the entry.
    LookEarly,
    /// The CPU walks before others can see that it has the space loaded.
    WalkEarly,
}

/// A CPU that loads the space while an entry of it is cleared: it walks to the new entry, or it is
/// asked to drop the old one.
fn load(mistake: Mistake) {
    loom::model(move || {
        let world = Arc::new((
            World {
                entry: AtomicU64::new(1),
                frame: UnsafeCell::new(7),
                ..World::default()
            },
            Loaded::default(),
        ));
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                let (world, loaded) = &*world;
                loaded.load(TAG, || {
                    if mistake != Mistake::WalkEarly {
                        // As a write to CR3.
                        fence(Ordering::SeqCst);
                    }
                });
                stale(world, false);
            })
        };
        let (world, loaded) = &*world;
        let early = loaded.may_have(Some(TAG));
        world.entry.store(0, Ordering::Relaxed);
        Loaded::entries_are_written();
        let asks = match mistake {
            Mistake::LookEarly => early,
            _ => loaded.may_have(Some(TAG)),
        };
        if asks {
            let number = world.requests.ask(Flush::User);
            while !world.requests.is_done(number) {
                thread::yield_now();
            }
        }
        #[allow(unsafe_code)]
        // SAFETY: what the model checks.
        world.frame.with_mut(|frame| unsafe { *frame = 0 });
        world.finished.store(true, Ordering::Relaxed);
        other.join().unwrap();
    });
}

#[test]
fn a_cpu_that_loads_the_space_is_seen_or_sees() {
    load(Mistake::None);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_look_before_the_entry_is_cleared_is_caught() {
    load(Mistake::LookEarly);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_walk_before_the_cpu_is_seen_is_caught() {
    load(Mistake::WalkEarly);
}

#[test]
fn two_cpus_that_ask_each_other_do_not_wait_in_a_circle() {
    loom::model(|| {
        let both = Arc::new([Requests::default(), Requests::default()]);
        let ask = |both: &[Requests; 2], other: usize| {
            let own = &both[1 - other];
            let number = both[other].ask(Flush::User);
            while !both[other].is_done(number) {
                if own.is_open() {
                    own.serve(|_| ());
                }
                thread::yield_now();
            }
            // What has come meanwhile is served in user mode: the other one has asked before it
            // served.
            assert!(own.serve(|_| ()));
        };
        let there = {
            let both = both.clone();
            thread::spawn(move || ask(&both, 0))
        };
        ask(&both, 1);
        there.join().unwrap();
    });
}
