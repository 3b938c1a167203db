//! From a folio to its mappings: whose it is says the account, where it is mapped a hint and the
//! owner's tables.

mod common;

use arch_sim::{Options, World};
use common::{FIXED, RW, Space, map, sizes};
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use mm::arch::PteFormat;
use mm::thp::{ORDERS, Stat};

/// Runs each test on both formats.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::on::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::on::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
on_both! {
    the_owner_and_its_address
    what_was_moved_is_found
    a_folio_in_two_places_is_split
    only_the_owner_looks_for_what_is_to_be_split
}

fn on<F: PteFormat>(test: fn(&World<F>)) {
    let world = World::<F>::new(Options {
        frames: 8192,
        ..Options::default()
    });
    let before = world.mm.counts();
    test(&world);
    assert_eq!(before, world.mm.counts());
    world.check(&[], &[]);
}

/// Where 2 MiB begin; the tests use four of them.
const HUGE: VirtAddr = VirtAddr(0x4000_0000);

fn at(n: u64) -> VirtAddr {
    HUGE + n * PAGE_SIZE
}

fn frame<F: PteFormat>(s: &Space<F>, va: VirtAddr) -> Pfn {
    Pfn(s.page_info(va).pfn)
}

/// A process with 512 pages of folios of this order.
fn filled<F: PteFormat>(w: &World<F>, order: u8) -> arch_sim::Process<F> {
    sizes(w, &[order]);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    (0..512).for_each(|n| w.store(0, &s, at(n), n as u8).unwrap());
    s
}

/// Moves `pages` pages.
fn remap<F: PteFormat>(s: &Space<F>, from: VirtAddr, pages: u64, to: VirtAddr) {
    let len = pages * PAGE_SIZE;
    assert_eq!(
        s.remap(from, len, len, FIXED, to, &mut Default::default()),
        Ok(to)
    );
}

fn failed<F: PteFormat>(w: &World<F>) -> u64 {
    let stats = &w.mm.thp().stats;
    ORDERS
        .map(|order| stats.get(Order(order), Stat::SplitFailed))
        .sum()
}

fn the_owner_and_its_address<F: PteFormat>(w: &World<F>) {
    for order in [0, 4, 9] {
        let s = filled(w, order);
        for n in [0, 3, 17, 511] {
            let pfn = frame(&s, at(n));
            let head = w.mm.frame_info(pfn).expect("a frame").block.head;
            assert_eq!(w.mm.owner(head), s.owner_id());
            assert_eq!(s.address_of(pfn), Some(at(n)));
        }
        let other = w.process();
        assert_eq!(other.address_of(frame(&s, at(3))), None);
        // Nor is what nobody has anywhere.
        let pfn = frame(&s, at(3));
        s.unmap(HUGE, 512 * PAGE_SIZE).unwrap();
        assert_eq!(s.address_of(pfn), None);
    }
}

fn what_was_moved_is_found<F: PteFormat>(w: &World<F>) {
    for order in [0, 4, 9] {
        for to in [1024, 1025] {
            let s = filled(w, order);
            remap(&s, HUGE, 512, at(to));
            for n in [511, 0, 17] {
                let pfn = frame(&s, at(to + n));
                assert_eq!(s.address_of(pfn), Some(at(to + n)), "order {order}");
            }
            w.check(&[&s], &[]);
        }
    }
}

fn a_folio_in_two_places_is_split<F: PteFormat>(w: &World<F>) {
    for order in [4, 9] {
        let s = filled(w, order);
        // A page goes, and two of its folio's others live elsewhere.
        s.unmap(at(1), PAGE_SIZE).unwrap();
        remap(&s, at(2), 2, at(700));
        assert_eq!(s.address_of(frame(&s, at(701))), Some(at(701)));
        assert_eq!(s.split_deferred(), 1, "order {order}");
        w.check(&[&s], &[]);
        assert_eq!(w.load(1, &s, at(700)), Ok(2));
        assert_eq!(w.load(1, &s, at(4)), Ok(4));
    }
}

fn only_the_owner_looks_for_what_is_to_be_split<F: PteFormat>(w: &World<F>) {
    let (first, second) = (filled(w, 4), filled(w, 4));
    first.unmap(at(1), PAGE_SIZE).unwrap();
    let child = w.adopt(second.fork().unwrap());
    second.unmap(at(33), PAGE_SIZE).unwrap();
    child.unmap(at(33), PAGE_SIZE).unwrap();
    child.unmap(at(32), PAGE_SIZE).unwrap();
    let before = failed(w);
    assert_eq!([&second, &child].map(|s| s.split_deferred()), [0, 0]);
    assert_eq!(first.split_deferred(), 1);
    assert_eq!(failed(w), before, "nobody tried what it does not have");
    drop(child);
    w.check(&[&first, &second], &[]);
    // What it had for itself since then.
    assert_eq!(second.split_deferred(), 1);
    w.check(&[&first, &second], &[]);
}
