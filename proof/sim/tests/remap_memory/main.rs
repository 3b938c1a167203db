//! mremap when there is no memory: random spaces, one call, and every allocation that it makes
//! fails in turn: nodes and lists of VMAs from the heap, page tables from the allocator of frames.
//! It says ENOMEM then, nothing is lost, and what the caller did not give up is as it was.

#[path = "../common/mod.rs"]
mod common;
mod heap;
mod scene;

use arch_sim::{Options, Process, World};
use mm::Error;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use scene::{PAGES, Page, Scene, Shown, scene};
use std::cell::Cell;

/// Which allocations fail.
#[derive(Clone, Copy, Debug)]
enum Fail {
    None,
    /// This one from the heap; with `true` all after it too.
    Heap(u64, bool),
    /// This page table and all after it.
    Frames(u64),
}

/// What the call gives on a machine where the memory fails so, and how often the heap failed.
fn run<F: PteFormat>(w: &World<F>, scene: &Scene, fail: Fail) -> (Result<VirtAddr, Error>, u64) {
    let counts = w.mm.counts();
    let p = w.process();
    scene.build(w, &p);
    let before = scene.look(&p);
    let (result, failed) = match fail {
        Fail::None => (scene.call.make(&p), 0),
        Fail::Heap(n, on) => heap::failing(n, on, || scene.call.make(&p)),
        Fail::Frames(n) => {
            w.mm.allocator().fail_after(Some(n));
            let result = scene.call.make(&p);
            w.mm.allocator().fail_after(None);
            (result, 0)
        }
    };
    w.check(&[&p], &[]);
    if result.is_err() {
        compare(scene, &before, &scene.look(&p));
        contents(w, &p, scene);
        w.check(&[&p], &[]);
    }
    drop(p);
    assert_eq!(counts, w.mm.counts(), "after {fail:?}");
    w.check(&[], &[]);
    (result, failed)
}

/// After an error: everything is as it was, but for a target and a tail, which may be unmapped by
/// then, and those of several mappings that have gone before the one that could not.
fn compare(scene: &Scene, before: &Shown, after: &Shown) {
    let call = &scene.call;
    if !call.fixed() {
        return assert_eq!(before, after, "changed by an error");
    }
    for n in 0..2 * PAGES {
        let (was, is) = (scene.page(before, n), scene.page(after, n));
        let came = call.source(n).and_then(|from| scene.page(before, from));
        let fine = is == was
            || call.is_given_up(n) && is.is_none()
            || call
                .target(n)
                .is_some_and(|to| went(was, scene.page(after, to)))
            || went(came, is);
        assert!(fine, "page {n} was {was:?} and is {is:?} after {call:?}");
    }
}

/// Whether a page that was such is the same at its new place; the kept one is unlocked.
fn went(was: Option<Page>, now: Option<Page>) -> bool {
    was.is_some() && was == now
}

/// What was written is there, or where it went to, unless it was given up.
fn contents<F: PteFormat>(w: &World<F>, p: &Process<F>, scene: &Scene) {
    let call = &scene.call;
    for n in scene.written() {
        let there = scene.holds(w, p, n, n);
        let gone = call.fixed() && call.target(n).is_some_and(|to| scene.holds(w, p, to, n));
        let given_up = call.fixed() && call.is_given_up(n);
        assert!(there || gone || given_up, "page {n} is lost after {call:?}");
    }
}

/// Each allocation of the call fails; returns how many did from the heap, and how many for page
/// tables.
fn each_fails<F: PteFormat>(scene: &Scene) -> (u64, u64) {
    let w = World::<F>::new(Options {
        frames: scene.frames(),
        prefetch: 16,
        ..Options::default()
    });
    let natural = run(&w, scene, Fail::None).0.map(|at| scene.call.name(at));
    let (mut from_heap, mut tables) = (0, 0);
    let judge = |result: Result<VirtAddr, Error>| {
        let named = result.map(|at| scene.call.name(at));
        assert!(
            named == natural || named == Err(Error::NoMem),
            "{named:?}, {natural:?}"
        );
        named != natural
    };
    for on in [false, true] {
        for n in 0.. {
            let (result, failed) = run(&w, scene, Fail::Heap(n, on));
            if failed == 0 {
                break;
            }
            from_heap += u64::from(judge(result));
        }
    }
    for n in 0.. {
        if !judge(run(&w, scene, Fail::Frames(n)).0) {
            break;
        }
        tables += 1;
    }
    (from_heap, tables)
}

fn play<F: PteFormat>() {
    let config = Config {
        cases: 150,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x5e),
        ..Config::default()
    };
    let (from_heap, tables) = (Cell::new(0), Cell::new(0));
    let result = TestRunner::new(config).run(&scene(), |scene| {
        let (h, t) = each_fails::<F>(&scene);
        from_heap.set(from_heap.get() + h);
        tables.set(tables.get() + t);
        Ok(())
    });
    result.unwrap_or_else(|e| panic!("{e}"));
    assert!(
        from_heap.get() > 50 && tables.get() > 50,
        "hardly anything failed"
    );
}

#[test]
fn x86_64() {
    play::<arch_x86_64::pte::Format>();
}

#[test]
fn aarch64() {
    play::<arch_aarch64::pte::Format>();
}
