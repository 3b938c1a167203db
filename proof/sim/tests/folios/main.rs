//! Large folios: what a fault takes, what a part of one does to the rest, splitting and collapsing.

#[path = "../common/mod.rs"]
mod common;

use arch_sim::{Options, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::switch::{ForkBy, Switch};
use mm::thp::{CollapseLimits, ORDERS, Stat};
use mm::vma::Prot;
use mm::{Advice, Collapse, Error, FolioUse};

/// Where 2 MiB blocks are tried.
const HUGE: VirtAddr = VirtAddr(0x4000_0000);

fn on<F: PteFormat>(test: fn(&World<F>)) {
    let (batch, share) = (ForkBy::Batch, ForkBy::Share);
    let settings = [
        (true, true, share),
        (true, true, batch),
        (true, false, batch),
        (false, true, share),
    ];
    for (contpte, hardware_ad, fork) in settings {
        let world = World::<F>::new(Options {
            frames: 8192,
            hardware_ad,
            prefetch: 8,
            ..Options::default()
        });
        world.mm.switches().set(Switch::Contpte, contpte.into());
        world.mm.switches().set(Switch::Fork, fork as u32);
        sizes(&world, &[]);
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
        for order in ORDERS.map(Order) {
            let left = world.mm.thp().stats.get(order, Stat::NrAnon);
            assert_eq!(left, 0, "folios of order {} are counted", order.0);
        }
    }
}

macro_rules! folio_tests {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::on::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::on::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
mod collapsing;
mod splitting;
mod zeros;

folio_tests! {
    a_fault_takes_the_largest_order
    a_smaller_order_when_memory_is_in_pieces
    a_page_in_the_way_means_a_smaller_order
    fork_shares_folios_and_the_last_one_reuses
    protection_keeps_the_folio
    moving_keeps_the_folio
}

/// The use of folios of an order in the area that starts at `at`.
fn folios<F: PteFormat>(s: &Space<F>, at: VirtAddr, order: u8) -> FolioUse {
    s.smaps(at).expect("an area").folios[usize::from(order)]
}

fn at(n: u64) -> VirtAddr {
    HUGE + n * PAGE_SIZE
}

fn fill<F: PteFormat>(w: &World<F>, s: &Space<F>, pages: core::ops::Range<u64>) {
    for n in pages {
        w.store((n % 2) as usize, s, at(n), n as u8).unwrap();
    }
}

fn verify<F: PteFormat>(w: &World<F>, s: &Space<F>, pages: core::ops::Range<u64>) {
    for n in pages {
        assert_eq!(w.load((n % 2) as usize, s, at(n)), Ok(n as u8), "page {n}");
    }
}

fn a_fault_takes_the_largest_order<F: PteFormat>(w: &World<F>) {
    for order in ORDERS {
        sizes(w, &[order]);
        let s = w.process();
        map(&s, HUGE, 1024, RW);
        let (faults, updates) = (event(w, "pgfault"), event(w, "account_updates"));
        fill(w, &s, 0..1024);
        let folios_there = 1024 >> order;
        if w.sim.options().hardware_ad {
            assert_eq!(event(w, "pgfault") - faults, folios_there);
            assert_eq!(event(w, "account_updates") - updates, folios_there);
        }
        let used = folios(&s, HUGE, order);
        assert_eq!((used.whole, used.part), (folios_there, 0));
        let contiguous =
            order == 9 || order >= 4 && F::CONTIG_ORDER.is_some() && w.mm.switches().contpte();
        assert_eq!(used.contpte, if contiguous { folios_there } else { 0 });
        verify(w, &s, 0..1024);
        w.check(&[&s], &[]);
    }
}

fn event<F: PteFormat>(w: &World<F>, name: &str) -> u64 {
    w.mm.event(name).expect("a counter")
}

fn a_smaller_order_when_memory_is_in_pieces<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    // Every page of memory that may be had, and then each second 64 KiB of it back.
    let hog = w.process();
    let free = w.mm.counts().free;
    map(&hog, HUGE, free, RW);
    let mut got = 0;
    while got < free && w.store(0, &hog, at(got), 1).is_ok() {
        got += 1;
    }
    for block in (0..got / 16).step_by(2) {
        hog.advise(at(block * 16), 16 * PAGE_SIZE, Advice::DontNeed)
            .unwrap();
    }
    sizes(w, &[4, 9]);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    let fallback = |order| w.mm.thp().stats.get(Order(order), Stat::AnonFaultFallback);
    let before = fallback(9);
    w.store(0, &s, at(5), 5).unwrap();
    assert_eq!(fallback(9), before + 1);
    assert_eq!(folios(&s, HUGE, 9).whole, 0);
    verify(w, &s, 5..6);
    w.check(&[&hog, &s], &[]);
}

fn a_page_in_the_way_means_a_smaller_order<F: PteFormat>(w: &World<F>) {
    sizes(w, &[2, 4, 9]);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    sizes(w, &[2, 4]);
    // A zero page blocks, too.
    assert_eq!(w.load(0, &s, at(40)), Ok(0));
    sizes(w, &[2, 4, 9]);
    w.store(0, &s, at(41), 1).unwrap();
    w.store(0, &s, at(44), 1).unwrap();
    w.store(0, &s, at(64), 1).unwrap();
    let whole = |order| folios(&s, HUGE, order).whole;
    // Page 41 is beside the zero page: single. 44..48 is free, its 16 pages are not. 64..80 is.
    assert_eq!((whole(0), whole(2), whole(4), whole(9)), (1, 1, 1, 0));
    w.check(&[&s], &[]);
}

fn fork_shares_folios_and_the_last_one_reuses<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, ForkBy::Batch as u32);
    for order in [4, 6, 9] {
        sizes(w, &[order]);
        let s = w.process();
        map(&s, HUGE, 512, RW);
        fill(w, &s, 0..512);
        let updates = event(w, "account_updates");
        let child = w.adopt(s.fork().unwrap());
        assert_eq!(event(w, "account_updates") - updates, 512 >> order);
        verify(w, &child, 0..512);
        w.check(&[&s, &child], &[]);
        let copied = event(w, "cow_copied");
        w.store(0, &child, at(20), 99).unwrap();
        assert_eq!(event(w, "cow_copied"), copied + 1);
        assert_eq!(w.load(0, &s, at(20)), Ok(20));
        w.check(&[&s, &child], &[]);
        drop(child);
        let copied = event(w, "cow_copied");
        fill(w, &s, 0..512);
        assert_eq!(event(w, "cow_copied"), copied);
        w.check(&[&s], &[]);
    }
}

fn protection_keeps_the_folio<F: PteFormat>(w: &World<F>) {
    for order in [4, 5, 9] {
        sizes(w, &[order]);
        let s = w.process();
        map(&s, HUGE, 512, RW);
        fill(w, &s, 0..512);
        let before = folios(&s, HUGE, order);
        for prot in [Prot::READ, RW, Prot::empty(), RW] {
            s.protect(HUGE, 512 * PAGE_SIZE, prot).unwrap();
            w.check(&[&s], &[]);
        }
        // A part goes away and comes back: what was folded is folded again.
        s.protect(at(5), PAGE_SIZE, Prot::READ).unwrap();
        w.check(&[&s], &[]);
        s.protect(at(5), PAGE_SIZE, RW).unwrap();
        let after = folios(&s, HUGE, order);
        assert_eq!((before.whole, before.part), (after.whole, after.part));
        if order < 9 {
            assert_eq!(before.contpte, after.contpte);
        }
        let copied = event(w, "cow_copied");
        fill(w, &s, 0..512);
        verify(w, &s, 0..512);
        assert_eq!(event(w, "cow_copied"), copied, "nobody else has the pages");
        w.check(&[&s], &[]);
    }
}

fn moving_keeps_the_folio<F: PteFormat>(w: &World<F>) {
    for order in [4, 5, 9] {
        for shift in [0, 1, 16, 512] {
            sizes(w, &[order]);
            let s = w.process();
            map(&s, HUGE, 512, RW);
            fill(w, &s, 0..512);
            let to = at(1024 + shift);
            let moved = s.remap(
                HUGE,
                512 * PAGE_SIZE,
                512 * PAGE_SIZE,
                FIXED,
                to,
                &mut Default::default(),
            );
            assert_eq!(moved, Ok(to));
            let used = folios(&s, to, order);
            assert_eq!((used.whole, used.part), (512 >> order, 0));
            for n in 0..512 {
                assert_eq!(w.load(0, &s, to + n * PAGE_SIZE), Ok(n as u8));
            }
            w.check(&[&s], &[]);
            s.unmap(to, 3 * PAGE_SIZE).unwrap();
            assert_eq!(s.split_deferred(), 3, "the folio is found where it is now");
            w.check(&[&s], &[]);
        }
    }
}
