//! The short way of a write fault, for single pages that a child leaves behind: what it costs, and
//! that it is no shorter than it may be.

mod common;

use arch_sim::{At, Process, World};
use common::*;
use mm::Advice;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::switch::Switch;
use mm::vma::Prot;

const PAGES: u64 = 24;
const EVENTS: [&str; 5] = [
    "pgfault",
    "cow_reused",
    "cow_copied",
    "entry_writes",
    "tlb_flush_range",
];

/// How much of each event `f` brings.
fn cost<F: PteFormat>(w: &World<F>, f: impl FnOnce()) -> [u64; 5] {
    let now = || EVENTS.map(|name| w.mm.event(name).expect("a counter"));
    let before = now();
    f();
    let after = now();
    core::array::from_fn(|i| after[i] - before[i])
}

/// Single pages, written on CPU 0, then forked; both TLBs may hold them read-only. The child is
/// there still.
fn forked<F: PteFormat>(w: &World<F>) -> (Process<F>, Process<F>) {
    sizes(w, &[]);
    let parent = w.process();
    map(&parent, AT, PAGES, RW);
    (0..PAGES).for_each(|n| w.store(0, &parent, page(n), n as u8).unwrap());
    let child = w.adopt(parent.fork().unwrap());
    for (cpu, n) in (0..2).flat_map(|cpu| (0..PAGES).map(move |n| (cpu, n))) {
        assert_eq!(w.load(cpu, &parent, page(n)), Ok(n as u8));
    }
    (parent, child)
}

fn one_fault_and_one_entry_for_each_page<F: PteFormat>(w: &World<F>) {
    let (parent, child) = forked(w);
    drop(child);
    let write = |cpu| (0..PAGES).for_each(|n| w.store(cpu, &parent, page(n), 7).unwrap());
    // x86_64: a page fault drops what the TLB has for the address.
    let flushes = if F::BREAK_BEFORE_MAKE { PAGES } else { 0 };
    assert_eq!(cost(w, || write(0)), [PAGES, PAGES, 0, PAGES, flushes]);
    w.check(&[&parent], &[]);
    // The other CPU was not disturbed: it faults once at most, and changes nothing.
    let [faults, reused, copied, entries, _] = cost(w, || write(1));
    assert!(faults <= PAGES && (reused, copied, entries) == (0, 0, 0));
    (0..PAGES).for_each(|n| assert_eq!(w.load(0, &parent, page(n)), Ok(7)));
    w.check(&[&parent], &[]);
}

/// Both CPUs read the pages while they are read-only; then one is to write again.
fn more_rights_interrupt_nobody<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4]] {
        sizes(w, orders);
        let p = w.process();
        map(&p, AT, PAGES, RW);
        (0..PAGES).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
        p.protect(AT, PAGES * PAGE_SIZE, Prot::READ).unwrap();
        for (cpu, n) in (0..2).flat_map(|cpu| (0..PAGES).map(move |n| (cpu, n))) {
            assert_eq!(w.load(cpu, &p, page(n)), Ok(n as u8));
        }
        w.sim
            .meanwhile(At::Flush, (1, 1), || panic!("the other CPU is interrupted"));
        p.protect(AT, PAGES * PAGE_SIZE, RW).unwrap();
        for cpu in [1, 0] {
            let writes = || (0..PAGES).for_each(|n| w.store(cpu, &p, page(n), 7).unwrap());
            let [faults, _, copied, ..] = cost(w, writes);
            assert!(
                faults <= PAGES && copied == 0,
                "{orders:?}: {faults} faults"
            );
        }
        assert!(w.sim.forget());
        w.check(&[&p], &[]);
    }
}

/// One flush for 16 pages, of a parent beside its child and of the zero page, by one thread and
/// beside others.
fn populate_copies_in_runs<F: PteFormat>(w: &World<F>) {
    for shared in [false, true] {
        let (parent, child) = forked(w);
        if shared {
            parent.share().unwrap();
        }
        let all = PAGES * PAGE_SIZE;
        map(&parent, page(1000), PAGES, RW);
        parent
            .advise(page(1000), all, Advice::PopulateRead)
            .unwrap();
        w.store(0, &parent, page(1005), 3).unwrap();
        for (from, copies) in [(AT, PAGES), (page(1000), PAGES - 1)] {
            let populate = || parent.advise(from, all, Advice::PopulateWrite).unwrap();
            let [faults, _, copied, _, flushes] = cost(w, populate);
            assert_eq!((faults, copied), (0, copies));
            assert!(flushes <= PAGES / 16 + 2, "{flushes} flushes");
            w.check(&[&parent, &child], &[]);
        }
        (0..PAGES).for_each(|n| w.store(1, &parent, page(n), 7).unwrap());
        for n in 0..PAGES {
            assert_eq!(w.load(0, &child, page(n)), Ok(n as u8));
            let expected = if n == 5 { 3 } else { 0 };
            assert_eq!(w.load(1, &parent, page(1000 + n)), Ok(expected));
        }
    }
}

fn who_is_not_alone_copies<F: PteFormat>(w: &World<F>) {
    // One by one.
    w.mm.switches().set(Switch::Cow, 0);
    let (parent, child) = forked(w);
    w.store(0, &parent, page(3), 7).unwrap();
    // Now the child is alone with its own.
    let [_, reused, copied, ..] = cost(w, || w.store(1, &child, page(3), 8).unwrap());
    assert_eq!((reused, copied), (1, 0));
    let [_, reused, copied, ..] = cost(w, || w.store(0, &parent, page(4), 9).unwrap());
    assert_eq!((reused, copied), (0, 1));
    let pin = parent.pin(page(5)).unwrap();
    drop(child);
    let [_, reused, copied, ..] = cost(w, || w.store(0, &parent, page(5), 9).unwrap());
    assert_eq!((reused, copied), (0, 1), "a pinned page is copied");
    drop(pin);
    w.check(&[&parent], &[]);
}

on_both! {
    one_fault_and_one_entry_for_each_page
    more_rights_interrupt_nobody
    populate_copies_in_runs
    who_is_not_alone_copies
}
