//! The huge zero page.

use super::*;

folio_tests! {
    the_huge_zero_page_is_shared_and_replaced
    the_huge_zero_page_is_kept_while_memory_is_not_short
}

fn the_huge_zero_page_is_shared_and_replaced<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let s = w.process();
    map(&s, HUGE, 1024, RW);
    assert_eq!(w.load(0, &s, at(7)), Ok(0));
    assert_eq!(w.load(0, &s, at(600)), Ok(0));
    assert_eq!(s.usage().rss.anon, 0);
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

/// More leaves of the huge zero page than 32 bits can count the pages of: 16 TiB.
#[test]
fn zeros_of_a_whole_address_space_go_at_once() {
    use mm::fault::{Access, Resolution};
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
        let read = s.fault(page(512 * n), Access::Read);
        assert_eq!(read, Resolution::Done);
    }
    s.dont_need(AT, leaves * 512 * PAGE_SIZE).unwrap();
    assert_eq!(w.load(0, &s, AT), Ok(0));
}
