//! What splits a folio: its PMD leaf, or the folio itself.

use super::*;

folio_tests! {
    a_pmd_leaf_splits_where_a_part_changes
    a_part_that_is_gone_is_freed_by_a_split
    a_split_keeps_blocks_that_are_whole
    pages_of_zeros_go
    a_shared_folio_is_not_split
    a_folio_that_is_mapped_in_two_places_splits
    a_folio_that_several_have_in_part_is_left_and_split
}

fn a_pmd_leaf_splits_where_a_part_changes<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let verbs: [fn(&Space<F>); 6] = [
        |s| s.protect(at(3), PAGE_SIZE, Prot::READ).unwrap(),
        |s| s.unmap(at(3), PAGE_SIZE).unwrap(),
        |s| s.advise(at(3), PAGE_SIZE, Advice::DontNeed).unwrap(),
        |s| s.advise(at(3), PAGE_SIZE, Advice::DontFork).unwrap(),
        |s| s.mlock(at(3), PAGE_SIZE, true, false).unwrap(),
        |s| {
            s.remap(
                at(3),
                PAGE_SIZE,
                PAGE_SIZE,
                FIXED,
                at(2000),
                &mut Default::default(),
            )
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
    // Two hold zeros only.
    assert_eq!(folios(&s, HUGE, 0).whole, 509);
    verify(w, &s, 0..511);
    w.check(&[&s], &[]);
}

fn pages_of_zeros_go<F: PteFormat>(w: &World<F>) {
    for order in [4, 9] {
        sizes(w, &[order]);
        let s = w.process();
        map(&s, HUGE, 512, RW);
        for n in 0..512 {
            w.store(0, &s, at(n), u8::from(n == 7 || n == 500)).unwrap();
        }
        // Another folio is none's business, and neither is locked memory.
        s.mlock(at(256), 16 * PAGE_SIZE, true, false).unwrap();
        let (half, free) = (VirtRange::new(HUGE, at(272)), w.mm.free_frames());
        s.split_range(half, Order(6));
        assert_eq!(w.mm.free_frames(), free);
        assert!(s.split_range(half, Order(0)).0 > 0);
        assert_eq!(w.mm.free_frames(), free + 255);
        for n in 0..512 {
            assert_eq!(w.load(0, &s, at(n)), Ok(u8::from(n == 7 || n == 500)));
        }
        w.check(&[&s], &[]);
    }
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

fn a_folio_that_is_mapped_in_two_places_splits<F: PteFormat>(w: &World<F>) {
    for (order, through) in [(4, 3), (9, 3), (9, 2000)] {
        sizes(w, &[order]);
        let s = w.process();
        let pages = Order(order).pages();
        map(&s, HUGE, pages, RW);
        fill(w, &s, 0..1);
        fill(w, &s, 1..pages);
        s.remap(
            at(3),
            PAGE_SIZE,
            PAGE_SIZE,
            FIXED,
            at(2000),
            &mut Default::default(),
        )
        .unwrap();
        let range = |page| VirtRange::new(at(page), at(page + 1));
        let page = if through == 3 { 4 } else { through };
        // Not while a child has it.
        let child = w.adopt(s.fork().unwrap());
        assert_eq!(s.split_range(range(page), Order(0)), (0, 1));
        drop(child);
        let free = w.mm.free_frames();
        assert_eq!(s.split_range(range(page), Order(0)), (1, 0));
        // The pages of each area.
        for (page, pages) in [(0, 3), (4, pages - 4), (2000, 1)] {
            assert_eq!(folios(&s, at(page), 0).whole, pages);
        }
        assert_eq!(w.load(0, &s, at(2000)), Ok(3));
        verify(w, &s, 0..3);
        verify(w, &s, 4..pages);
        w.check(&[&s], &[]);
        assert_eq!(w.mm.free_frames(), free);
    }
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
