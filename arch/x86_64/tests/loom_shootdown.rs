//! The shootdown's requests under every interleaving: `./run.sh test --filter "host.loom.*"`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p arch-x86_64 --test loom_shootdown --target-dir
//! target/loom`.
#![cfg(loom)]

use arch_x86_64::shootdown::{Flush, Requests};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
