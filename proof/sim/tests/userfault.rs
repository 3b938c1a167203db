//! userfaultfd: what is asked, what is filled, and which pages are write-protected.

mod common;

use arch_sim::World;
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Question, Resolution};
use mm::hugetlb::DEFAULT;
use mm::object::Object;
use mm::switch::Switch;
use mm::thp::controls::ShmemSize;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Content, Error, Registration, RemapFlags};

on_both! {
    a_missing_page_is_asked_for_and_filled
    a_page_is_filled_once
    zeros_are_written_as_ever
    poison_is_a_memory_error
    poison_outlives_its_monitor
    a_write_to_protected_memory_asks
    protection_is_by_the_page_in_folios
    a_huge_leaf_is_protected_whole
    what_is_not_there_is_protected
    asynchronous_writes_are_seen_by_the_page
    protection_survives_mprotect
    without_large_folios_small_ones_are_taken
    a_child_has_no_monitor
    a_child_of_shared_tables_has_no_monitor
    a_child_gets_a_monitor_that_asks_for_it
    what_moves_has_no_monitor
    several_move_up_to_one_with_a_monitor
    what_stays_is_still_registered
    a_monitor_leaves
    registration_is_refused
    neighbours_with_one_monitor_are_one
    shared_memory_is_filled_for_all
    a_page_of_the_object_is_asked_for
    shared_memory_is_protected
    protection_stays_past_the_end
    no_collapse_of_what_a_monitor_watches
    dropped_pages_are_asked_for_again
    pages_move_without_a_copy
}

const POISONED: Resolution = Resolution::Poisoned(Order(0));

const MISSING: VmaFlags = VmaFlags::UFFD_MISSING;
const WP: VmaFlags = VmaFlags::UFFD_WP;
const ASYNC: VmaFlags = VmaFlags::UFFD_WP
    .union(VmaFlags::UFFD_WP_ASYNC)
    .union(VmaFlags::UFFD_WP_UNPOPULATED);
const MONITOR: u16 = 7;
const HUGE: u64 = 512;

fn pages(first: u64, n: u64) -> VirtRange {
    VirtRange::new(page(first), page(first + n))
}

fn register<F: PteFormat>(s: &Space<F>, range: VirtRange, flags: VmaFlags) -> Result<(), Error> {
    let with = Registration {
        monitor: MONITOR,
        flags,
    };
    s.userfault_register(range, with)
}

/// `n` pages, of which each was written with its number, registered.
fn filled<F: PteFormat>(w: &World<F>, s: &Space<F>, n: u64, flags: VmaFlags) {
    map(s, AT, n, RW);
    (0..n).for_each(|n| w.store(0, s, page(n), n as u8).unwrap());
    register(s, pages(0, n), flags).unwrap();
}

/// Which of the first `n` pages are write-protected.
fn protected<F: PteFormat>(s: &Space<F>, n: u64) -> Vec<u64> {
    let is = |n: &u64| s.page_info(page(*n)).write_protected;
    (0..n).filter(is).collect()
}

fn question<F: PteFormat>(s: &Space<F>, n: u64, access: Access) -> Option<Question> {
    let asked = s.asked(page(n) + 5, access)?;
    assert_eq!((asked.monitor, asked.page), (MONITOR, page(n)));
    Some(asked.question)
}

fn fill<F: PteFormat>(s: &Space<F>, n: u64, byte: u8) -> Result<(), Error> {
    let bytes = [byte; PAGE_SIZE as usize];
    s.userfault_fill(pages(n, 1), page(n), Content::Bytes(&bytes), false)
}

fn asks<T: std::fmt::Debug + PartialEq>(result: Result<T, Resolution>) {
    assert_eq!(result, Err(Resolution::Userfault));
}

fn a_missing_page_is_asked_for_and_filled<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, HUGE, RW);
        register(&s, pages(0, HUGE), MISSING).unwrap();
        asks(w.load(0, &s, page(1)));
        asks(w.store(1, &s, page(1), 1));
        assert_eq!(question(&s, 1, Access::Read), Some(Question::Missing));
        fill(&s, 1, 9).unwrap();
        assert_eq!(question(&s, 1, Access::Write), None);
        assert_eq!(w.load(0, &s, page(1)), Ok(9));
        w.store(1, &s, page(1), 10).unwrap();
        // No other page came with it.
        asks(w.load(0, &s, page(0)));
        asks(w.load(0, &s, page(2)));
        w.check(&[&s], &[]);
    }
}

fn a_page_is_filled_once<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 4, RW);
    assert_eq!(fill(&s, 0, 1), Err(Error::NoEnt));
    register(&s, pages(1, 2), MISSING).unwrap();
    assert_eq!(fill(&s, 0, 1), Err(Error::NoEnt));
    let bytes = [1; PAGE_SIZE as usize];
    let long = s.userfault_fill(pages(1, 3), page(1), Content::Bytes(&bytes), false);
    assert_eq!(long, Err(Error::NoEnt));
    fill(&s, 1, 1).unwrap();
    assert_eq!(fill(&s, 1, 2), Err(Error::Exist));
    assert_eq!(w.load(0, &s, page(1)), Ok(1));
    let protect = s.userfault_fill(pages(2, 1), page(2), Content::Zeros, true);
    assert_eq!(protect, Err(Error::Inval));
    w.check(&[&s], &[]);
}

fn zeros_are_written_as_ever<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 2, RW);
    register(&s, pages(0, 2), MISSING | WP).unwrap();
    s.userfault_fill(pages(0, 2), page(0), Content::Zeros, false)
        .unwrap();
    s.userfault_fill(pages(0, 2), page(1), Content::Zeros, true)
        .unwrap();
    w.check(&[&s], &[]);
    w.store(0, &s, page(0), 3).unwrap();
    asks(w.store(0, &s, page(1), 3));
    assert_eq!(w.load(0, &s, page(1)), Ok(0));
    assert_eq!(protected(&s, 2), [1]);
    s.userfault_protect(pages(1, 1), false).unwrap();
    w.store(0, &s, page(1), 4).unwrap();
    assert_eq!(
        (w.load(1, &s, page(0)), w.load(1, &s, page(1))),
        (Ok(3), Ok(4))
    );
    w.check(&[&s], &[]);
}

fn poison_is_a_memory_error<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 2, RW);
    register(&s, pages(0, 2), MISSING).unwrap();
    s.userfault_fill(pages(0, 1), page(0), Content::Poison, false)
        .unwrap();
    assert_eq!(w.load(0, &s, page(0)), Err(POISONED));
    assert_eq!(w.store(0, &s, page(0), 1), Err(POISONED));
    w.check(&[&s], &[]);
    // It stays when rights change and the monitor leaves, and goes with the page.
    s.protect(AT, 2 * PAGE_SIZE, Prot::READ).unwrap();
    s.protect(AT, 2 * PAGE_SIZE, RW).unwrap();
    s.userfault_unregister(pages(0, 2), MONITOR).unwrap();
    assert_eq!(w.load(0, &s, page(0)), Err(POISONED));
    s.advise(AT, PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(w.load(0, &s, page(0)), Ok(0));
    w.check(&[&s], &[]);
}

fn poison_outlives_its_monitor<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, 2);
    let s = w.process();
    map(&s, AT, 4, RW);
    w.store(0, &s, page(1), 1).unwrap();
    register(&s, pages(0, 2), MISSING).unwrap();
    s.userfault_fill(pages(0, 1), page(0), Content::Poison, false)
        .unwrap();
    s.userfault_unregister(pages(0, 2), MONITOR).unwrap();
    // Also in a child, whose table would be the parent's.
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(w.load(0, &child, page(0)), Err(POISONED));
    assert_eq!(w.load(0, &child, page(1)), Ok(1));
    w.check(&[&s, &child], &[]);
    // And where it becomes one with an area that has none.
    s.protect(page(1), 3 * PAGE_SIZE, Prot::READ).unwrap();
    s.protect(page(1), 3 * PAGE_SIZE, RW).unwrap();
    w.store(0, &s, page(1), 2).unwrap();
    assert_eq!(w.store(0, &s, page(0), 2), Err(POISONED));
    w.check(&[&s, &child], &[]);
}

fn a_write_to_protected_memory_asks<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    filled(w, &s, 4, WP);
    s.userfault_protect(pages(1, 2), true).unwrap();
    w.check(&[&s], &[]);
    asks(w.store(0, &s, page(1), 9));
    asks(w.store(1, &s, page(1), 9));
    assert_eq!(w.load(1, &s, page(1)), Ok(1));
    let asked = question(&s, 1, Access::Write);
    assert_eq!(asked, Some(Question::WriteProtected));
    assert_eq!(question(&s, 1, Access::Read), None);
    w.store(0, &s, page(3), 9).unwrap();
    s.userfault_protect(pages(1, 1), false).unwrap();
    w.store(1, &s, page(1), 9).unwrap();
    asks(w.store(0, &s, page(2), 9));
    assert_eq!(protected(&s, 4), [2]);
    // Only memory that is registered for it.
    assert_eq!(s.userfault_protect(pages(3, 2), true), Err(Error::NoEnt));
    w.check(&[&s], &[]);
}

fn protection_is_by_the_page_in_folios<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    let s = w.process();
    filled(w, &s, 64, WP);
    s.userfault_protect(pages(5, 30), true).unwrap();
    assert_eq!(protected(&s, 64), (5..35).collect::<Vec<_>>());
    w.check(&[&s], &[]);
    w.store(0, &s, page(4), 1).unwrap();
    asks(w.store(0, &s, page(5), 1));
    s.userfault_protect(pages(20, 3), false).unwrap();
    w.store(0, &s, page(21), 1).unwrap();
    asks(w.store(0, &s, page(23), 1));
    w.check(&[&s], &[]);
    s.userfault_protect(pages(0, 64), false).unwrap();
    assert_eq!(protected(&s, 64), []);
    (0..64).for_each(|n| w.store(1, &s, page(n), 3).unwrap());
    w.check(&[&s], &[]);
}

fn a_huge_leaf_is_protected_whole<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let s = w.process();
    filled(w, &s, HUGE, WP);
    s.userfault_protect(pages(0, HUGE), true).unwrap();
    assert_eq!(protected(&s, HUGE).len() as u64, HUGE);
    assert!(s.page_info(page(0)).huge);
    asks(w.store(0, &s, page(7), 1));
    s.userfault_protect(pages(7, 1), false).unwrap();
    w.store(0, &s, page(7), 1).unwrap();
    asks(w.store(0, &s, page(8), 1));
    w.check(&[&s], &[]);
}

fn what_is_not_there_is_protected<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 2 * HUGE, RW);
        register(&s, pages(0, 2 * HUGE), WP | VmaFlags::UFFD_WP_UNPOPULATED).unwrap();
        s.userfault_protect(pages(3, HUGE), true).unwrap();
        assert_eq!(protected(&s, 2 * HUGE), (3..3 + HUGE).collect::<Vec<_>>());
        w.check(&[&s], &[]);
        asks(w.store(0, &s, page(3), 1));
        assert_eq!(w.load(0, &s, page(3)), Ok(0));
        asks(w.store(0, &s, page(3), 1));
        w.check(&[&s], &[]);
        s.userfault_protect(pages(3, 2), false).unwrap();
        w.store(0, &s, page(3), 1).unwrap();
        w.store(0, &s, page(4), 2).unwrap();
        assert_eq!(
            (w.load(1, &s, page(3)), w.load(1, &s, page(4))),
            (Ok(1), Ok(2))
        );
        // Marks go with what would be there.
        s.advise(page(5), PAGE_SIZE, Advice::DontNeed).unwrap();
        w.store(0, &s, page(5), 1).unwrap();
        w.check(&[&s], &[]);
    }
}

fn asynchronous_writes_are_seen_by_the_page<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 2 * HUGE, RW);
        (0..HUGE).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
        register(&s, pages(0, 2 * HUGE), ASYNC).unwrap();
        s.userfault_protect_async(pages(0, 2 * HUGE)).unwrap();
        w.check(&[&s], &[]);
        for n in [3, 40, HUGE + 9] {
            assert!(w.load(0, &s, page(n)).is_ok());
            w.store(1, &s, page(n), 77).unwrap();
        }
        let written: Vec<_> = (0..2 * HUGE).filter(|n| !protected_page(&s, *n)).collect();
        assert_eq!(written, [3, 40, HUGE + 9]);
        assert_eq!(
            (w.load(0, &s, page(4)), w.load(0, &s, page(40))),
            (Ok(4), Ok(77))
        );
        w.check(&[&s], &[]);
        s.userfault_protect_async(pages(0, 2 * HUGE)).unwrap();
        assert_eq!(protected(&s, 2 * HUGE).len() as u64, 2 * HUGE);
        w.check(&[&s], &[]);
    }
}

fn protected_page<F: PteFormat>(s: &Space<F>, n: u64) -> bool {
    s.page_info(page(n)).write_protected
}

fn protection_survives_mprotect<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        filled(w, &s, HUGE, WP);
        s.userfault_protect(pages(0, 20), true).unwrap();
        for prot in [Prot::READ, Prot::empty(), RW] {
            s.protect(AT, HUGE * PAGE_SIZE, prot).unwrap();
            assert_eq!(protected(&s, HUGE), (0..20).collect::<Vec<_>>());
            w.check(&[&s], &[]);
        }
        asks(w.store(0, &s, page(0), 1));
        w.store(0, &s, page(20), 1).unwrap();
        w.check(&[&s], &[]);
    }
}

fn without_large_folios_small_ones_are_taken<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    // Whatever is contiguous is a pool's.
    w.mm.resize_hugetlb(DEFAULT, u64::MAX);
    let s = w.process();
    map(&s, AT, HUGE, RW);
    register(&s, pages(0, HUGE), ASYNC).unwrap();
    w.store(0, &s, page(3), 1).unwrap();
    assert_eq!(s.usage().rss.anon, 1);
    w.check(&[&s], &[]);
    w.mm.resize_hugetlb(DEFAULT, 0);
}

fn a_child_has_no_monitor<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        filled(w, &s, HUGE, ASYNC - VmaFlags::UFFD_WP_ASYNC);
        map(&s, page(HUGE), HUGE, RW);
        register(&s, pages(HUGE, HUGE), ASYNC - VmaFlags::UFFD_WP_ASYNC).unwrap();
        s.userfault_protect(pages(0, 2 * HUGE), true).unwrap();
        let child = w.adopt(s.fork().unwrap());
        w.check(&[&s, &child], &[]);
        assert_eq!(protected(&child, 2 * HUGE), []);
        w.store(1, &child, page(3), 99).unwrap();
        w.store(1, &child, page(HUGE + 3), 99).unwrap();
        assert_eq!(w.load(0, &s, page(3)), Ok(3));
        asks(w.store(0, &s, page(3), 1));
        assert_eq!(protected(&s, 2 * HUGE).len() as u64, 2 * HUGE);
        s.userfault_protect(pages(0, 4), false).unwrap();
        w.store(0, &s, page(3), 1).unwrap();
        assert_eq!(w.load(1, &child, page(3)), Ok(99));
        w.check(&[&s, &child], &[]);
    }
}

fn a_child_of_shared_tables_has_no_monitor<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, 2);
    let s = w.process();
    map(&s, AT, HUGE, RW);
    (0..HUGE).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    let first = w.adopt(s.fork().unwrap());
    register(&s, pages(0, HUGE), WP).unwrap();
    s.userfault_protect(pages(0, HUGE), true).unwrap();
    let second = w.adopt(s.fork().unwrap());
    w.check(&[&s, &first, &second], &[]);
    assert_eq!(
        (protected(&first, HUGE), protected(&second, HUGE)),
        (vec![], vec![])
    );
    asks(w.store(0, &s, page(1), 9));
    w.store(0, &first, page(1), 9).unwrap();
    w.store(0, &second, page(1), 8).unwrap();
    assert_eq!(w.load(1, &s, page(1)), Ok(1));
    w.check(&[&s, &first, &second], &[]);
}

/// A monitor that is told of forks has the child's memory as it has the parent's, and where it gets
/// none that memory is nobody's.
fn a_child_gets_a_monitor_that_asks_for_it<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    filled(w, &s, 4, WP | VmaFlags::UFFD_FORKS);
    s.userfault_protect(pages(1, 2), true).unwrap();
    let fork = |number| {
        let child = w.adopt(s.fork().unwrap());
        child.userfault_adopt(|parents| {
            assert_eq!(parents, MONITOR);
            number
        });
        child
    };
    let (child, nobodys) = (fork(MONITOR + 1), fork(0));
    assert_eq!(
        (protected(&child, 4), protected(&nobodys, 4)),
        (vec![1, 2], vec![])
    );
    w.check(&[&s, &child, &nobodys], &[]);
    asks(w.store(0, &child, page(1), 9));
    let asked = child.asked(page(1), Access::Write).unwrap();
    assert_eq!(
        (asked.monitor, asked.question),
        (MONITOR + 1, Question::WriteProtected)
    );
    w.store(1, &nobodys, page(1), 9).unwrap();
    assert_eq!(nobodys.asked(page(2), Access::Write), None);
    // Who only reads its page for long has it alone, and the monitor is asked as before.
    let pin = child.pin_long_term(page(1), Access::Read).unwrap();
    assert_eq!(protected(&child, 4), [1, 2]);
    asks(w.store(0, &child, page(1), 9));
    child.userfault_protect(pages(1, 1), false).unwrap();
    w.store(0, &child, page(1), 11).unwrap();
    let mut seen = [0];
    pin.read(0, &mut seen);
    assert_eq!((seen[0], w.load(1, &s, page(1))), (11, Ok(1)));
    drop(pin);
    w.check(&[&s, &child, &nobodys], &[]);
}

fn what_moves_has_no_monitor<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        filled(w, &s, HUGE, WP | VmaFlags::UFFD_WP_UNPOPULATED);
        s.advise(page(9), PAGE_SIZE, Advice::DontNeed).unwrap();
        s.userfault_protect(pages(0, HUGE), true).unwrap();
        let (to, len) = (VirtAddr(AT.0 + (8 << 20)), HUGE * PAGE_SIZE);
        s.remap(AT, len, len, FIXED, to, &mut Default::default())
            .unwrap();
        w.check(&[&s], &[]);
        assert_eq!(w.load(0, &s, to + 3 * PAGE_SIZE), Ok(3));
        w.store(0, &s, to + 3 * PAGE_SIZE, 9).unwrap();
        w.store(0, &s, to + 9 * PAGE_SIZE, 9).unwrap();
        assert!(!s.page_info(to).write_protected);
        w.check(&[&s], &[]);
    }
}

fn several_move_up_to_one_with_a_monitor<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    // Areas of a page each, with gaps between them.
    for area in 0..3 {
        map(&s, page(2 * area), 1, RW);
        w.store(0, &s, page(2 * area), 1).unwrap();
    }
    register(&s, pages(4, 1), MISSING).unwrap();
    let (to, len) = (VirtAddr(AT.0 + (8 << 20)), 5 * PAGE_SIZE);
    let refused = s.remap(AT, len, len, FIXED, to, &mut Default::default());
    assert_eq!(refused, Err(Error::Fault));
    let (moved, stays) = (to + 2 * PAGE_SIZE, page(4));
    for (place, is) in [
        (to, Ok(1)),
        (moved, Ok(1)),
        (page(2), Err(Resolution::NotMapped)),
        (stays, Ok(1)),
    ] {
        assert_eq!(w.load(0, &s, place), is);
    }
    s.remap(
        stays,
        PAGE_SIZE,
        PAGE_SIZE,
        FIXED,
        to,
        &mut Default::default(),
    )
    .unwrap();
    w.check(&[&s], &[]);
}

fn what_stays_is_still_registered<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    filled(w, &s, 4, MISSING | WP);
    s.userfault_protect(pages(0, 4), true).unwrap();
    let (to, len) = (VirtAddr(AT.0 + (8 << 20)), 4 * PAGE_SIZE);
    s.remap(
        AT,
        len,
        len,
        FIXED | RemapFlags::DONTUNMAP,
        to,
        &mut Default::default(),
    )
    .unwrap();
    w.store(0, &s, to, 9).unwrap();
    asks(w.load(0, &s, page(0)));
    fill(&s, 0, 5).unwrap();
    assert_eq!(w.load(0, &s, page(0)), Ok(5));
    w.check(&[&s], &[]);
}

fn a_monitor_leaves<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[9]] {
        sizes(w, orders);
        let s = w.process();
        filled(w, &s, HUGE, WP | MISSING | VmaFlags::UFFD_WP_UNPOPULATED);
        map(&s, page(HUGE), 8, RW);
        register(
            &s,
            pages(HUGE, 8),
            WP | MISSING | VmaFlags::UFFD_WP_UNPOPULATED,
        )
        .unwrap();
        s.userfault_protect(pages(0, HUGE + 8), true).unwrap();
        s.userfault_unregister(pages(3, 2), MONITOR).unwrap();
        w.check(&[&s], &[]);
        w.store(0, &s, page(3), 1).unwrap();
        asks(w.store(0, &s, page(5), 1));
        assert_eq!(s.userfault_unregister(pages(0, 8), 1), Err(Error::Inval));
        s.userfault_forget(MONITOR);
        w.check(&[&s], &[]);
        assert_eq!(protected(&s, HUGE + 8), []);
        (0..HUGE + 8).for_each(|n| w.store(0, &s, page(n), 1).unwrap());
        w.check(&[&s], &[]);
    }
}

fn registration_is_refused<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    assert_eq!(register(&s, pages(0, 1), MISSING), Err(Error::Inval));
    map(&s, AT, 4, RW);
    assert_eq!(
        register(&s, pages(0, 4), VmaFlags::UFFD_MINOR),
        Err(Error::Inval)
    );
    register(&s, pages(1, 1), MISSING).unwrap();
    let other = Registration {
        monitor: MONITOR + 1,
        flags: MISSING,
    };
    assert_eq!(s.userfault_register(pages(0, 4), other), Err(Error::Busy));
    // All or nothing.
    assert_eq!(w.load(0, &s, page(0)), Ok(0));
    asks(w.load(0, &s, page(1)));
    // Once more, for something else.
    register(&s, pages(0, 4), WP).unwrap();
    w.store(0, &s, page(1), 1).unwrap();
    s.userfault_protect(pages(0, 4), true).unwrap();
    register(&s, pages(0, 4), MISSING).unwrap();
    assert_eq!(protected(&s, 4), []);
    w.check(&[&s], &[]);
}

fn neighbours_with_one_monitor_are_one<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 8, RW);
    register(&s, pages(2, 2), MISSING).unwrap();
    assert_eq!(s.vma_at(page(2)).unwrap().range, pages(2, 2));
    register(&s, pages(4, 2), MISSING).unwrap();
    assert_eq!(s.vma_at(page(2)).unwrap().range, pages(2, 4));
    let other = Registration {
        monitor: MONITOR + 1,
        flags: MISSING,
    };
    s.userfault_register(pages(6, 1), other).unwrap();
    assert_eq!(s.vma_at(page(6)).unwrap().range, pages(6, 1));
    s.userfault_forget(MONITOR + 1);
    s.userfault_unregister(pages(0, 8), MONITOR).unwrap();
    assert_eq!(s.vma_at(page(3)).unwrap().monitor, 0);
    w.check(&[&s], &[]);
}

fn shared_memory_is_filled_for_all<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    let (s, t) = (w.process(), w.process());
    for space in [&s, &t] {
        let request = of_object(&object, 0, AT, 5, RW, VmaFlags::SHARED);
        space.map(request).unwrap();
    }
    register(&s, pages(0, 5), MISSING | WP).unwrap();
    asks(w.load(0, &s, page(0)));
    assert_eq!(w.load(0, &s, page(4)), Err(Resolution::Bus));
    fill(&s, 0, 5).unwrap();
    assert_eq!(fill(&s, 4, 5), Err(Error::Fault));
    assert_eq!(fill(&s, 0, 5), Err(Error::Exist));
    assert_eq!(
        (w.load(0, &s, page(0)), w.load(1, &t, page(0))),
        (Ok(5), Ok(5))
    );
    // Somebody else may fill it, too.
    w.store(1, &t, page(1), 6).unwrap();
    assert_eq!(w.load(0, &s, page(1)), Ok(6));
    s.userfault_fill(pages(2, 1), page(2), Content::Zeros, true)
        .unwrap();
    asks(w.store(0, &s, page(2), 1));
    w.store(1, &t, page(2), 1).unwrap();
    assert_eq!(w.load(0, &s, page(2)), Ok(1));
    w.check(&[&s, &t], &[]);
}

fn a_page_of_the_object_is_asked_for<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    object.write_at(0, &[7; 2 * PAGE_SIZE as usize]).unwrap();
    let s = w.process();
    s.map(of_object(&object, 0, AT, 4, RW, VmaFlags::SHARED))
        .unwrap();
    register(&s, pages(0, 4), VmaFlags::UFFD_MINOR).unwrap();
    asks(w.load(0, &s, page(0)));
    assert_eq!(question(&s, 0, Access::Write), Some(Question::Minor));
    let go_on = |n| s.userfault_fill(pages(n, 1), page(n), Content::Object, false);
    go_on(0).unwrap();
    assert_eq!(go_on(0), Err(Error::Exist));
    assert_eq!(go_on(3), Err(Error::Fault));
    assert_eq!(w.load(0, &s, page(0)), Ok(7));
    asks(w.load(0, &s, page(1)));
    w.store(0, &s, page(0), 8).unwrap();
    // A hole is filled with zeros without a question, and mapped.
    assert_eq!(w.load(0, &s, page(2)), Ok(0));
    w.check(&[&s], &[]);
}

fn shared_memory_is_protected<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(40 * PAGE_SIZE);
    let (s, t) = (w.process(), w.process());
    for space in [&s, &t] {
        space
            .map(of_object(&object, 0, AT, 40, RW, VmaFlags::SHARED))
            .unwrap();
    }
    w.store(0, &s, page(1), 1).unwrap();
    register(&s, pages(0, 40), WP).unwrap();
    s.userfault_protect(pages(0, 40), true).unwrap();
    w.check(&[&s, &t], &[]);
    asks(w.store(0, &s, page(1), 2));
    // The page leaves the space, but not the object; the protection stays.
    s.advise(AT, 40 * PAGE_SIZE, Advice::PageOut).unwrap();
    let info = s.page_info(page(1));
    assert!(info.marked && info.write_protected);
    w.check(&[&s, &t], &[]);
    assert_eq!(w.load(0, &s, page(1)), Ok(1));
    asks(w.store(0, &s, page(1), 2));
    asks(w.store(0, &s, page(2), 2));
    assert_eq!(w.load(0, &s, page(2)), Ok(0));
    asks(w.store(0, &s, page(2), 2));
    w.store(1, &t, page(2), 3).unwrap();
    assert_eq!(w.load(0, &s, page(2)), Ok(3));
    s.userfault_protect(pages(0, 40), false).unwrap();
    w.store(0, &s, page(1), 2).unwrap();
    w.store(0, &s, page(2), 2).unwrap();
    w.store(0, &s, page(3), 2).unwrap();
    assert_eq!(w.load(1, &t, page(2)), Ok(2));
    w.check(&[&s, &t], &[]);
}

/// Where a large folio of the object reaches past its end.
fn protection_stays_past_the_end<F: PteFormat>(w: &World<F>) {
    let controls = &w.mm.thp().controls;
    controls.change(|settings| settings.shmem_sizes[4] = ShmemSize::Always);
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    let s = w.process();
    s.map(of_object(&object, 0, AT, 16, RW, VmaFlags::SHARED))
        .unwrap();
    w.store(0, &s, page(0), 1).unwrap();
    assert_eq!(w.mm.counts().object, 16);
    register(&s, pages(0, 16), ASYNC).unwrap();
    s.userfault_protect_async(pages(0, 16)).unwrap();
    assert_eq!(w.store(0, &s, page(4), 1), Err(Resolution::Bus));
    w.store(0, &s, page(3), 1).unwrap();
    let written: Vec<_> = (0..16).filter(|n| !protected_page(&s, *n)).collect();
    assert_eq!(written, [3]);
    w.check(&[&s], &[&object]);
}

fn no_collapse_of_what_a_monitor_watches<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    filled(w, &s, HUGE, WP | MISSING);
    let collapse = || s.advise(AT, HUGE * PAGE_SIZE, Advice::Collapse);
    s.userfault_protect(pages(4, 1), true).unwrap();
    assert_eq!(collapse(), Err(Error::Inval));
    s.userfault_protect(pages(4, 1), false).unwrap();
    s.advise(page(4), PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(collapse(), Err(Error::Inval));
    fill(&s, 4, 4).unwrap();
    // Memory may be short of a folio for it.
    assert_ne!(collapse(), Err(Error::Inval));
    w.check(&[&s], &[]);
}

fn dropped_pages_are_asked_for_again<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    filled(w, &s, 4, MISSING);
    w.store(0, &s, page(1), 1).unwrap();
    s.advise(page(1), PAGE_SIZE, Advice::DontNeed).unwrap();
    asks(w.load(0, &s, page(1)));
    fill(&s, 1, 3).unwrap();
    assert_eq!(w.load(0, &s, page(1)), Ok(3));
    // The kernel's accesses stop there.
    s.advise(page(2), PAGE_SIZE, Advice::DontNeed).unwrap();
    let mut bytes = [0; 3 * PAGE_SIZE as usize];
    assert_eq!(s.read(page(0), &mut bytes, false), 2 * PAGE_SIZE as usize);
    w.check(&[&s], &[]);
}

fn pages_move_without_a_copy<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, HUGE, RW);
        (0..HUGE).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
        let to = VirtAddr(AT.0 + (8 << 20));
        map(&s, to, HUGE, RW);
        let target = VirtRange::new(to, to + HUGE * PAGE_SIZE);
        let bytes =
            |from: u64, n: u64, to: VirtAddr| s.userfault_move(to, pages(from, n), MONITOR, false);
        assert_eq!(bytes(0, 1, to), Err(Error::Inval));
        register(&s, target, MISSING).unwrap();
        asks(w.load(0, &s, to + 3 * PAGE_SIZE));
        let pfn = s.page_info(page(3)).pfn;
        assert_eq!(bytes(3, 2, to + 3 * PAGE_SIZE), Ok(2 * PAGE_SIZE));
        assert_eq!(s.page_info(to + 3 * PAGE_SIZE).pfn, pfn);
        w.check(&[&s], &[]);
        assert_eq!(w.load(1, &s, to + 3 * PAGE_SIZE), Ok(3));
        w.store(1, &s, to + 4 * PAGE_SIZE, 9).unwrap();
        assert_eq!(w.load(0, &s, page(3)), Ok(0));
        // Where something is, or nothing, or what others have, is no way.
        assert_eq!(bytes(5, 1, to + 3 * PAGE_SIZE), Err(Error::Exist));
        assert_eq!(bytes(4, 1, to), Err(Error::NoEnt));
        let child = w.adopt(s.fork().unwrap());
        assert_eq!(bytes(7, 1, to), Err(Error::Busy));
        w.check(&[&s, &child], &[]);
        drop(child);
        assert_eq!(
            bytes(5, HUGE - 5, to + 5 * PAGE_SIZE),
            Ok((HUGE - 5) * PAGE_SIZE)
        );
        assert_eq!(w.load(1, &s, to + 200 * PAGE_SIZE), Ok(200));
        w.check(&[&s], &[]);
    }
}
