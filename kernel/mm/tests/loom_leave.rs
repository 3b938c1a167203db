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
        // As `Mm::deactivate`.
        if !world.cpu.has_left(OLD) {
            world.cpu.ask_to_leave(OLD);
            while !world.cpu.has_left(OLD) {
                thread::yield_now();
            }
        }
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

#[test]
#[should_panic(expected = "Causality violation")]
fn a_root_that_is_left_in_name_only_is_caught() {
    ends(Some(NEXT), true);
}
