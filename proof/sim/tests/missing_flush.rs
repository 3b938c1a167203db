//! A test of the tests: when the machine drops flushes, the checker sees it, after each verb that
//! owes one.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::Advice;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::vma::Prot;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One page in use on both CPUs, in both TLBs.
fn world<F: PteFormat>(asids: usize) -> (World<F>, Process<F>) {
    let world = World::<F>::new(Options {
        asids,
        prefetch: 0,
        ..Options::default()
    });
    let process = world.process();
    map(&process, AT, 4, RW);
    for n in 0..4 {
        (0..2).for_each(|cpu| world.store(cpu, &process, page(n), 1).unwrap());
    }
    (world, process)
}

fn caught<F: PteFormat>(verb: impl Fn(&World<F>, &Process<F>)) {
    for asids in [1, 8] {
        let (good, process) = world::<F>(asids);
        verb(&good, &process);
        good.check_tlbs(&[&process]);

        let (broken, process) = world::<F>(asids);
        broken.sim.drop_flushes(true);
        let seen = catch_unwind(AssertUnwindSafe(|| {
            verb(&broken, &process);
            broken.check_tlbs(&[&process]);
        }));
        let message = seen.expect_err("the missing flush was not seen");
        let message = message.downcast::<String>().expect("a message");
        let rules = ["missed flush", "break-before-make", "two places"];
        assert!(rules.iter().any(|rule| message.contains(rule)), "{message}");
        // What the panic left half done is not for ending in the usual way.
        std::mem::forget(process);
    }
}

macro_rules! caught {
    ($($name:ident: $verb:expr;)*) => {
        mod x86_64 {
            use super::*;
            $(#[test] fn $name() { caught::<arch_x86_64::pte::Format>($verb) })*
        }
        mod aarch64 {
            use super::*;
            $(#[test] fn $name() { caught::<arch_aarch64::pte::Format>($verb) })*
        }
    };
}

caught! {
    unmap: |_, p| p.unmap(page(1), PAGE_SIZE).unwrap();
    protect: |_, p| p.protect(page(1), PAGE_SIZE, Prot::READ).unwrap();
    protect_none: |_, p| p.protect(page(1), PAGE_SIZE, Prot::empty()).unwrap();
    dont_need: |_, p| p.advise(page(1), PAGE_SIZE, Advice::DontNeed).unwrap();
    remap: |_, p| assert_eq!(p.remap(page(1), PAGE_SIZE, PAGE_SIZE, FIXED, page(99), &mut Default::default()), Ok(page(99)));
    fork: |_, p| drop(p.fork().unwrap());
    copy_on_write: |w, p| {
        // Both TLBs hold the page read-only when the write replaces it.
        let child = p.fork().unwrap();
        (0..2).for_each(|cpu| assert_eq!(w.load(cpu, p, page(1)), Ok(1)));
        assert_eq!(p.write(page(1), &[2], false), 1);
        drop(child);
    };
}

#[test]
fn a_stale_write_to_a_freed_frame_is_found() {
    let (world, process) = world::<arch_x86_64::pte::Format>(8);
    world.sim.drop_flushes(true);
    process
        .advise(page(0), 4 * PAGE_SIZE, Advice::DontNeed)
        .unwrap();
    // The TLB still lets this through, into a frame that is free.
    world.store(1, &process, page(2) + 9, 7).unwrap();
    map(&process, page(8), 4, RW);
    let touch = || (8..12).for_each(|n| assert_eq!(process.write(page(n), &[1], false), 1));
    let seen = catch_unwind(AssertUnwindSafe(touch)).expect_err("the stray write was not seen");
    let message = *seen.downcast::<String>().expect("a message");
    assert!(message.contains("was written to"), "{message}");
    // As above.
    std::mem::forget(process);
}
