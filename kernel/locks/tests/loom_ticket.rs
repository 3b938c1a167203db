//! The ticket lock under every interleaving: `./run.sh test --filter "host.loom.*"`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p locks --test loom_ticket --target-dir target/loom`.
#![cfg(loom)]

use locks::{TicketLock, Wait};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// The lock, what it covers, and each CPU's interrupt that is pending.
struct World {
    lock: TicketLock<2>,
    value: UnsafeCell<u32>,
    pending: [AtomicBool; 2],
}

/// One of the CPUs.
struct Cpu<'a> {
    world: &'a World,
    number: usize,
    /// A wake-up is forgotten.
    forgets: bool,
}

impl Wait for Cpu<'_> {
    fn relax(&mut self) {
        thread::yield_now();
    }
    fn sleep(&mut self) {
        while !self.world.pending[self.number].swap(false, Ordering::AcqRel) {
            thread::yield_now();
        }
    }
    fn wake(&mut self, cpu: usize) {
        if !self.forgets {
            // Not a store: that could come before a swap that it does not see.
            self.world.pending[cpu].swap(true, Ordering::AcqRel);
        }
    }
}

impl Cpu<'_> {
    fn add(&self) {
        // loom panics when two accesses are not ordered by the lock.
        #[allow(unsafe_code)]
        // SAFETY: the lock is held; loom checks exactly that.
        self.world.value.with_mut(|n| unsafe { *n += 1 });
    }
}

/// CPU 0 has the lock and gives it up; both take it `spins` looks long awake.
fn both(spins: u32, forgets: bool) {
    loom::model(move || {
        let world = Arc::new(World {
            lock: TicketLock::taken(),
            value: UnsafeCell::new(0),
            pending: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                let mut cpu = Cpu {
                    world: &world,
                    number: 1,
                    forgets,
                };
                world.lock.take(1, spins, &mut cpu);
                cpu.add();
                world.lock.give(&mut cpu);
            })
        };
        let mut cpu = Cpu {
            world: &world,
            number: 0,
            forgets,
        };
        cpu.add();
        world.lock.give(&mut cpu);
        world.lock.take(0, spins, &mut cpu);
        cpu.add();
        world.lock.give(&mut cpu);
        other.join().unwrap();
        #[allow(unsafe_code)]
        // SAFETY: both have ended.
        world.value.with(|n| assert_eq!(unsafe { *n }, 3));
    });
}

#[test]
fn one_at_a_time_and_no_wake_up_is_lost() {
    both(0, false);
}

#[test]
fn a_look_before_sleep() {
    both(1, false);
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn a_forgotten_wake_up_is_caught() {
    both(0, true);
}
