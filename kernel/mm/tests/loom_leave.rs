//! The end of an address space that another CPU still has loaded, under every interleaving:
//! `./run.sh test --filter "host.loom.*"`, or `RUSTFLAGS="--cfg loom" cargo test -p mm --test
//! loom_leave --target-dir target/loom`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use mm::Loaded;
use mm::addr::Pfn;

const IDLE: Pfn = Pfn(1);
const OLD: Pfn = Pfn(2);
const NEXT: Pfn = Pfn(3);

/// A CPU, and the tables of the root that ends.
struct World {
    cpu: Loaded,
    tables: UnsafeCell<u64>,
}

/// The CPU walks the tables as long as it has them loaded. It runs another space, or none: then it
/// is asked to leave. `early`: it says so before it does.
fn other(world: &World, next: Option<Pfn>, early: bool) {
    let walk = || {
        #[allow(unsafe_code)]
        // SAFETY: what the model checks.
        world
            .tables
            .with(|tables| assert_eq!(unsafe { *tables }, 7));
    };
    let leave = |to| match early {
        false => world.cpu.load(to, walk),
        true => {
            world.cpu.load(to, || ());
            walk();
        }
    };
    if let Some(next) = next {
        leave(next);
    }
    while world.cpu.has(OLD) {
        match world.cpu.asked() {
            Some(root) if world.cpu.has(root) => leave(IDLE),
            _ => thread::yield_now(),
        }
    }
}

/// As `Mm::deactivate`.
fn deactivate(cpu: &Loaded, root: Pfn) {
    if cpu.has_left(root) {
        return;
    }
    while !cpu.has_left(root) {
        cpu.ask_to_leave(root);
        thread::yield_now();
    }
    cpu.take_back(root);
}

fn ends(next: Option<Pfn>, early: bool) {
    loom::model(move || {
        let world = Arc::new(World {
            cpu: Loaded::default(),
            tables: UnsafeCell::new(7),
        });
        world.cpu.load(OLD, || ());
        let cpu = {
            let world = world.clone();
            thread::spawn(move || other(&world, next, early))
        };
        deactivate(&world.cpu, OLD);
        #[allow(unsafe_code)]
        // SAFETY: loom panics when a walk is not ordered before it.
        world.tables.with_mut(|tables| unsafe { *tables = 0 });
        cpu.join().unwrap();
    });
}

#[test]
fn tables_are_freed_when_a_cpu_that_was_asked_has_left_them() {
    ends(None, false);
}

#[test]
fn tables_are_freed_when_a_cpu_has_loaded_others() {
    ends(Some(NEXT), false);
}

/// How a CPU asks.
#[derive(Clone, Copy, PartialEq)]
enum Ask {
    /// As `Mm::deactivate`.
    Again,
    /// The mutant: it waits after it has asked once.
    Once,
    /// The mutant: what it has asked stays.
    Stays,
}

fn asks(cpu: &Loaded, root: Pfn, ask: Ask) {
    if ask == Ask::Again {
        return deactivate(cpu, root);
    }
    if !cpu.has_left(root) {
        cpu.ask_to_leave(root);
        while !cpu.has_left(root) {
            thread::yield_now();
        }
    }
}

/// The CPU leaves one root by itself, loads a second one, which ends, too, and leaves that only
/// when it is asked. Two others wait, each for one of the roots.
fn two_end(ask: Ask) {
    // Three threads that wait for each other: without a bound the model takes hours.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let cpu = Arc::new(Loaded::default());
        cpu.load(OLD, || ());
        let first = {
            let cpu = cpu.clone();
            thread::spawn(move || asks(&cpu, OLD, ask))
        };
        cpu.load(NEXT, || ());
        let second = {
            let cpu = cpu.clone();
            thread::spawn(move || asks(&cpu, NEXT, ask))
        };
        while cpu.has(NEXT) {
            match cpu.asked() {
                Some(root) if cpu.has(root) => cpu.load(IDLE, || ()),
                _ => thread::yield_now(),
            }
        }
        second.join().unwrap();
        first.join().unwrap();
    });
}

#[test]
fn a_request_that_another_has_replaced_is_repeated() {
    two_end(Ask::Again);
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn a_request_that_is_made_once_is_caught() {
    two_end(Ask::Once);
}

/// The frame of a root that a CPU has left by itself becomes another space's, which it loads.
fn used_again(ask: Ask) {
    loom::model(move || {
        let cpu = Arc::new(Loaded::default());
        cpu.load(OLD, || ());
        let ends = {
            let cpu = cpu.clone();
            thread::spawn(move || asks(&cpu, OLD, ask))
        };
        cpu.load(NEXT, || ());
        ends.join().unwrap();
        cpu.load(OLD, || ());
        assert_eq!(cpu.asked(), None, "it is to leave the space that it runs");
    });
}

#[test]
fn a_root_that_is_used_again_is_not_left() {
    used_again(Ask::Again);
}

#[test]
#[should_panic(expected = "it is to leave the space that it runs")]
fn a_request_that_stays_is_caught() {
    used_again(Ask::Stays);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_root_that_is_left_in_name_only_is_caught() {
    ends(Some(NEXT), true);
}
