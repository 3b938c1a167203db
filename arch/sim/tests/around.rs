//! What a write fault does for the neighbours of a page (`cow=around`): which of them it may look
//! at, and which it takes along.

mod common;

use arch_sim::{Options, World};
use common::{AT, RW, Space, map, page, sizes};
use mm::Advice;
use mm::addr::{PAGE_SIZE, VirtRange};
use mm::arch::{Attrs, PteFormat};
use mm::switch::Switch;
use mm::vma::Prot;

macro_rules! tests {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::on::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::on::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
tests! {
    beside_the_end_of_memory
    what_was_not_used_is_not_copied
    a_folded_block_is_used_as_one
}

const BLOCK: u64 = 16;

/// Runs the test with so much memory that folios are copied whole.
fn on<F: PteFormat>(test: fn(&World<F>)) {
    for hardware_ad in [true, false] {
        let world = World::<F>::new(Options {
            frames: 4096,
            hardware_ad,
            // A prefetch uses pages that nothing else does.
            prefetch: 0,
            ..Options::default()
        });
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
    }
}

/// A process with a folio of 16 pages, all of them written.
fn block<F: PteFormat>(w: &World<F>) -> arch_sim::Process<F> {
    sizes(w, &[4]);
    let s = w.process();
    map(&s, AT, BLOCK, RW);
    (0..BLOCK).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    s
}

/// How many pages a child of `s` copies when it writes to page `n`.
fn copied<F: PteFormat>(w: &World<F>, s: &Space<F>, n: u64) -> u64 {
    let child = w.adopt(s.fork().unwrap());
    let before = w.mm.event("pages_copied").unwrap();
    w.store(1, &child, page(n), 99).unwrap();
    w.check(&[s, &child], &[]);
    assert_eq!(w.load(0, s, page(n)), Ok(n as u8));
    w.mm.event("pages_copied").unwrap() - before
}

/// Says that pages are not used. The machine knows that this was on purpose.
fn cold<F: PteFormat>(w: &World<F>, s: &Space<F>, first: u64, pages: u64) {
    s.advise(page(first), pages * PAGE_SIZE, Advice::Cold)
        .unwrap();
    let range = VirtRange::new(page(first), page(first + pages));
    w.sim.forgive(s.root(), range, Attrs::ACCESSED);
}

/// A page of the folio is given back, and the one that comes in its place has no neighbours in
/// memory.
fn beside_the_end_of_memory<F: PteFormat>(w: &World<F>) {
    let s = block(w);
    sizes(w, &[]);
    let hog = w.process();
    let all = w.mm.counts().free;
    map(&hog, AT, all, RW);
    let had = (0..all).take_while(|n| w.store(0, &hog, page(*n), 0).is_ok());
    let had = had.count() as u64;
    let pfn = |n: &u64| hog.page_info(page(*n)).pfn;
    let (low, high) = (
        (0..had).min_by_key(pfn).unwrap(),
        (0..had).max_by_key(pfn).unwrap(),
    );
    let end = w.mm.frames().span().end;
    assert!(pfn(&high) + BLOCK > end.0);
    for (from, to) in [(low, BLOCK - 1), (high, 0)] {
        let wanted = pfn(&from);
        for (space, n) in [(&s, to), (&hog, from)] {
            space.dont_need(page(n), PAGE_SIZE).unwrap();
        }
        w.store(0, &s, page(to), to as u8).unwrap();
        assert_eq!(s.page_info(page(to)).pfn, wanted);
    }
    drop(hog);
    sizes(w, &[4]);
    for n in [0, 5, BLOCK - 1] {
        assert_eq!(copied(w, &s, n), 1);
    }
}

fn what_was_not_used_is_not_copied<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Contpte, 0);
    let s = block(w);
    assert_eq!(copied(w, &s, 3), BLOCK);
    for unused in 0..BLOCK {
        // None is left used by the one before.
        (0..BLOCK).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
        cold(w, &s, unused, 1);
        // A CPU that has the entry already need not say that it is used.
        assert_eq!(copied(w, &s, (unused + 1) % BLOCK), 1, "{unused}");
        (0..2).for_each(|cpu| assert!(w.load(cpu, &s, page(unused)).is_ok()));
    }
}

fn a_folded_block_is_used_as_one<F: PteFormat>(w: &World<F>) {
    let s = block(w);
    cold(w, &s, 0, BLOCK);
    let whole = if F::CONTIG_ORDER.is_some() { BLOCK } else { 1 };
    // Flushes, so that a CPU that uses one page has to say so.
    for prot in [Prot::READ, RW] {
        s.protect(AT, BLOCK * PAGE_SIZE, prot).unwrap();
    }
    w.load(0, &s, page(7)).unwrap();
    assert_eq!(copied(w, &s, 7), whole);
}
