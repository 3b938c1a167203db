//! Large folios: what a fault takes, what a part of one does to the rest, splitting and collapsing.

mod common;

use arch_sim::{Options, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::space::{Advice, Collapse, Error, FolioUse};
use mm::thp::{CollapseLimits, ORDERS, Stat};
use mm::vma::Prot;

/// Where 2 MiB blocks are tried.
const HUGE: VirtAddr = VirtAddr(0x4000_0000);

fn on<F: PteFormat>(test: fn(&World<F>)) {
    for (contpte, hardware_ad) in [(true, true), (true, false), (false, true)] {
        let world = World::<F>::new(Options {
            frames: 8192,
            hardware_ad,
            prefetch: 8,
            ..Options::default()
        });
        world.mm.switches().set_contpte(contpte);
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
folio_tests! {
    a_fault_takes_the_largest_order
    a_smaller_order_when_memory_is_in_pieces
    a_page_in_the_way_means_a_smaller_order
    a_pmd_leaf_splits_where_a_part_changes
    a_part_that_is_gone_is_freed_by_a_split
    a_split_keeps_blocks_that_are_whole
    a_shared_folio_is_not_split
    a_folio_that_several_have_in_part_is_left_and_split
    collapsing_makes_one_folio
    collapsing_obeys_limits
    the_huge_zero_page_is_shared_and_replaced
    the_huge_zero_page_is_kept_while_memory_is_not_short
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

fn a_pmd_leaf_splits_where_a_part_changes<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let verbs: [fn(&Space<F>); 6] = [
        |s| s.protect(at(3), PAGE_SIZE, Prot::READ).unwrap(),
        |s| s.unmap(at(3), PAGE_SIZE).unwrap(),
        |s| s.advise(at(3), PAGE_SIZE, Advice::DontNeed).unwrap(),
        |s| s.advise(at(3), PAGE_SIZE, Advice::DontFork).unwrap(),
        |s| s.lock(at(3), PAGE_SIZE, true, false).unwrap(),
        |s| {
            s.remap(at(3), PAGE_SIZE, PAGE_SIZE, FIXED, at(2000))
                .map(drop)
                .unwrap()
        },
    ];
    for verb in verbs {
        let s = w.process();
        map(&s, HUGE, 512, RW);
        fill(w, &s, 0..1);
        fill(w, &s, 1..512);
        let (splits, updates) = (event(w, "thp_split_pmd"), event(w, "account_updates"));
        verb(&s);
        assert_eq!(event(w, "thp_split_pmd"), splits + 1);
        assert!(event(w, "account_updates") <= updates + 1);
        verify(w, &s, 0..3);
        verify(w, &s, 4..512);
        w.check(&[&s], &[]);
    }
}

fn a_part_that_is_gone_is_freed_by_a_split<F: PteFormat>(w: &World<F>) {
    for order in ORDERS {
        sizes(w, &[order]);
        let s = w.process();
        let pages = 1 << order;
        map(&s, HUGE, pages, RW);
        fill(w, &s, 0..pages);
        let before = w.mm.counts().free;
        s.unmap(at(1), 2 * PAGE_SIZE).unwrap();
        let partly =
            w.mm.thp()
                .stats
                .get(Order(order), Stat::NrAnonPartiallyMapped);
        assert_eq!(partly, 1);
        assert!(
            w.mm.counts().free <= before,
            "nothing is free before the split"
        );
        assert_eq!(s.split_deferred(), 2);
        assert_eq!(s.split_deferred(), 0);
        verify(w, &s, 0..1);
        verify(w, &s, 3..pages);
        w.check(&[&s], &[]);
    }
}

fn a_split_keeps_blocks_that_are_whole<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    fill(w, &s, 0..512);
    s.unmap(at(511), PAGE_SIZE).unwrap();
    assert_eq!(s.split_deferred(), 1);
    for order in 2..9 {
        assert_eq!(folios(&s, HUGE, order).whole, 1, "order {order}");
    }
    // 508, 509, 510: orders that do not exist are passed over.
    assert_eq!(folios(&s, HUGE, 0).whole, 3);
    verify(w, &s, 0..511);
    w.check(&[&s], &[]);
    // By hand, into parts as small as one likes: what is no larger stays, and so do blocks.
    let all = VirtRange::new(HUGE, at(511));
    assert_eq!(s.split_range(all, Order(6)), (2, 0));
    assert_eq!(s.split_range(all, Order(6)), (0, 0));
    assert_eq!(folios(&s, HUGE, 6).whole, 7);
    assert_eq!(folios(&s, HUGE, 5).whole, 1);
    verify(w, &s, 0..511);
    w.check(&[&s], &[]);
    assert_eq!(s.split_range(all, Order(0)), (11, 0));
    assert_eq!(folios(&s, HUGE, 0).whole, 511);
    verify(w, &s, 0..511);
    w.check(&[&s], &[]);
}

fn a_shared_folio_is_not_split<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    let s = w.process();
    map(&s, HUGE, 16, RW);
    fill(w, &s, 0..16);
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(
        s.split_range(VirtRange::new(HUGE, at(16)), Order(0)),
        (0, 1)
    );
    w.check(&[&s, &child], &[]);
    drop(child);
    assert_eq!(
        s.split_range(VirtRange::new(HUGE, at(16)), Order(0)),
        (1, 0)
    );
    verify(w, &s, 0..16);
    w.check(&[&s], &[]);
}

/// Each but the last takes its pages out of the folio, and what nobody maps is given back.
fn a_folio_that_several_have_in_part_is_left_and_split<F: PteFormat>(w: &World<F>) {
    for (order, spaces) in [(4, 2), (9, 2), (9, 3)] {
        sizes(w, &[order]);
        let pages = Order(order).pages();
        let first = w.process();
        map(&first, HUGE, pages, RW);
        fill(w, &first, 0..pages);
        let mut all = vec![first];
        for _ in 1..spaces {
            all.push(w.adopt(all[0].fork().unwrap()));
        }
        let spaces = || all.iter().map(|p| &**p).collect::<Vec<_>>();
        // Each keeps two pages, one of them in common.
        let kept = |n: usize| [3, 5 + n as u64];
        for (n, s) in all.iter().enumerate() {
            for page in (0..pages).filter(|page| !kept(n).contains(page)) {
                s.dont_need(at(page), PAGE_SIZE).unwrap();
            }
        }
        w.check(&spaces(), &[]);
        assert_eq!(w.mm.counts().anon, pages);
        // Not while somebody looks.
        let pin = all[0].pin(at(3)).unwrap();
        assert_eq!(all.iter().map(|s| s.split_deferred()).sum::<u64>(), 0);
        assert_eq!(w.mm.counts().anon, pages);
        drop(pin);
        let freed: u64 = all.iter().map(|s| s.split_deferred()).sum();
        assert_eq!(freed, pages - 2);
        assert_eq!(w.mm.counts().anon, 2 * all.len() as u64);
        w.check(&spaces(), &[]);
        for (n, s) in all.iter().enumerate() {
            for page in kept(n) {
                assert_eq!(w.load(1, s, at(page)), Ok(page as u8));
                w.store(0, s, at(page), n as u8).unwrap();
            }
        }
        w.check(&spaces(), &[]);
    }
}

fn collapsing_makes_one_folio<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[2, 6]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, HUGE, 1024, RW);
        fill(w, &s, 0..300);
        assert_eq!(w.load(0, &s, at(400)), Ok(0));
        s.advise(HUGE, 1024 * PAGE_SIZE, Advice::Collapse)
            .unwrap_err();
        assert_eq!(
            folios(&s, HUGE, 9),
            FolioUse {
                whole: 1,
                part: 0,
                contpte: 1
            }
        );
        verify(w, &s, 0..300);
        assert_eq!(w.load(1, &s, at(400)), Ok(0));
        assert_eq!(s.usage().rss_anon, 512);
        w.check(&[&s], &[]);
        assert_eq!(s.advise(HUGE, 512 * PAGE_SIZE, Advice::Collapse), Ok(()));
    }
}

fn collapsing_obeys_limits<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    fill(w, &s, 0..500);
    let limits = |none, shared| CollapseLimits {
        max_ptes_none: none,
        max_ptes_shared: shared,
    };
    assert_eq!(s.collapse(HUGE, limits(512, 512)), Collapse::NotEligible);
    sizes(w, &[9]);
    assert_eq!(s.collapse(HUGE, limits(11, 0)), Collapse::TooEmpty);
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(s.collapse(HUGE, limits(12, 499)), Collapse::TooShared);
    assert_eq!(s.collapse(HUGE, limits(12, 500)), Collapse::Done);
    assert_eq!(s.collapse(HUGE, limits(12, 500)), Collapse::Already);
    verify(w, &s, 0..500);
    verify(w, &child, 0..500);
    w.check(&[&s, &child], &[]);
    s.advise(HUGE, 512 * PAGE_SIZE, Advice::NoHugePage).unwrap();
    assert_eq!(
        s.advise(HUGE, 512 * PAGE_SIZE, Advice::Collapse),
        Err(Error::Inval)
    );
}

fn the_huge_zero_page_is_shared_and_replaced<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let s = w.process();
    map(&s, HUGE, 1024, RW);
    assert_eq!(w.load(0, &s, at(7)), Ok(0));
    assert_eq!(w.load(0, &s, at(600)), Ok(0));
    assert_eq!(s.usage().rss_anon, 0);
    w.check(&[&s], &[]);
    let child = w.adopt(s.fork().unwrap());
    w.store(0, &child, at(7), 9).unwrap();
    assert_eq!(folios(&child, HUGE, 9).whole, 1);
    assert_eq!(w.load(0, &s, at(7)), Ok(0));
    w.check(&[&s, &child], &[]);
    // Where the size is not allowed any more, one page is copied.
    sizes(w, &[]);
    w.store(0, &s, at(600), 3).unwrap();
    assert_eq!(folios(&s, HUGE, 0).whole, 1);
    assert_eq!(w.load(0, &s, at(601)), Ok(0));
    w.check(&[&s, &child], &[]);
}

/// It need not be zeroed for each process that reads, and who has nothing else gets it.
fn the_huge_zero_page_is_kept_while_memory_is_not_short<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let before = w.mm.counts();
    let allocated = |n| assert_eq!(event(w, "thp_zero_page_alloc"), n);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    for _ in 0..10 {
        assert_eq!(w.load(0, &s, at(7)), Ok(0));
        s.dont_need(HUGE, 512 * PAGE_SIZE).unwrap();
        w.check(&[&s], &[]);
    }
    allocated(1);
    assert_eq!(event(w, "pages_zeroed"), 512 + s.usage().page_tables);
    drop(s);
    assert_eq!(w.mm.counts(), before);
    // All that was counted as free can be had.
    let held: Vec<_> = std::iter::from_fn(|| w.mm.alloc_kernel(Order(0))).collect();
    // But for what the other CPU keeps.
    assert!(held.len() as u64 + 64 > before.free);
    held.into_iter()
        .for_each(|pfn| w.mm.free_kernel(pfn, Order(0)));
    let s = w.process();
    map(&s, HUGE, 512, RW);
    assert_eq!(w.load(0, &s, at(7)), Ok(0));
    allocated(2);
    // Reclaim takes it, unless it is mapped.
    let drained = |pages: u64| assert!((pages..pages + 512).contains(&w.mm.drain_pcp()));
    drained(0);
    assert_eq!(w.load(0, &s, at(7)), Ok(0));
    drop(s);
    drained(512);
    w.check(&[], &[]);
}

fn fork_shares_folios_and_the_last_one_reuses<F: PteFormat>(w: &World<F>) {
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
            let moved = s.remap(HUGE, 512 * PAGE_SIZE, 512 * PAGE_SIZE, FIXED, to);
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

/// More leaves of the huge zero page than 32 bits can count the pages of: 16 TiB.
#[test]
fn zeros_of_a_whole_address_space_go_at_once() {
    use mm::fault::{Access, Mode, Resolution};
    let w = World::<arch_x86_64::pte::Format>::new(Options {
        frames: 20_000,
        cpus: 1,
        prefetch: 0,
        ..Options::default()
    });
    sizes(&w, &[9]);
    let (s, leaves) = (w.process(), 1 << 23);
    map(&s, AT, leaves * 512, Prot::READ);
    for n in 0..leaves {
        let read = s.fault(page(512 * n), Access::Read, Mode::User);
        assert_eq!(read, Resolution::Done);
    }
    s.dont_need(AT, leaves * 512 * PAGE_SIZE).unwrap();
    assert_eq!(w.load(0, &s, AT), Ok(0));
}
