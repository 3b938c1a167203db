//! `fork=share`: page tables that spaces share until something in them changes.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::addr::{PAGE_SIZE, Pfn, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::{Access, Mode, Resolution};
use mm::space::{Advice, Error};
use mm::switch::Switch;
use mm::vma::Prot;

on_both! {
    a_child_takes_whole_tables
    the_parent_writes_first
    the_child_writes_first
    the_child_ends
    the_parent_ends
    three_generations
    a_part_goes_in_each
    all_of_it_goes_in_each
    protection
    what_moves_stays_shared_or_not
    zeros_are_not_counted
    a_folio_in_two_tables
    pins_keep_what_they_saw
    pins_from_before_keep_what_they_saw
    a_collapse_takes_its_own
    out_of_memory
}

const PAGES: u64 = 512;
const LEN: u64 = PAGES * PAGE_SIZE;
/// Pages that are written, so that a table can be told from its copy.
const USED: [u64; 6] = [0, 1, 15, 16, 300, 511];

/// A process with a full table's worth of memory, in folios of this order, and a child that shares it.
fn family<F: PteFormat>(w: &World<F>, order: u8) -> (Process<F>, Process<F>) {
    w.mm.switches().set(Switch::Fork, 2);
    sizes(w, &[order]);
    let parent = w.process();
    map(&parent, AT, PAGES, RW);
    for n in USED {
        w.store(0, &parent, page(n), n as u8).unwrap();
    }
    let child = w.adopt(parent.fork().unwrap());
    w.check(&[&parent, &child], &[]);
    (parent, child)
}

/// Every order that lies in PTEs.
fn families<F: PteFormat>(w: &World<F>, test: impl Fn(Process<F>, Process<F>)) {
    for order in [0, 4, 5] {
        let (parent, child) = family(w, order);
        test(parent, child);
    }
}

fn event<F: PteFormat>(w: &World<F>, name: &str) -> u64 {
    w.mm.event(name).expect("an event")
}

/// The pages say what they said before the fork, but for one.
fn holds<F: PteFormat>(w: &World<F>, s: &Space<F>, other: Option<(u64, u8)>) {
    for n in USED {
        let byte = other.filter(|o| o.0 == n).map_or(n as u8, |o| o.1);
        assert_eq!(w.load(1, s, page(n)), Ok(byte), "page {n}");
    }
}

/// The head of the folio that a page is mapped to.
fn head<F: PteFormat>(w: &World<F>, s: &Space<F>, n: u64) -> Pfn {
    w.mm.frames().folio(Pfn(s.page_info(page(n)).pfn)).0
}

fn a_child_takes_whole_tables<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| {
        let tables = w.mm.counts().page_tables;
        assert_eq!(parent.usage().rss_anon, child.usage().rss_anon);
        assert_eq!(parent.usage().page_tables, child.usage().page_tables);
        holds(w, &parent, None);
        holds(w, &child, None);
        assert_eq!(w.mm.counts().page_tables, tables);
        for s in [&parent, &child] {
            let info = s.page_info(page(1));
            assert!(info.present && !info.exclusive && !info.writable);
            assert_eq!(s.smaps(AT).unwrap().private_dirty, 0);
            assert!(s.may_share(head(w, s, 1)));
        }
        w.check(&[&parent, &child], &[]);
    });
    assert_eq!(event(w, "page_tables_shared"), 3);
    assert_eq!(event(w, "page_tables_unshared"), 0);
}

fn one_writes<F: PteFormat>(w: &World<F>, first: &Process<F>, then: &Process<F>) {
    w.store(0, first, page(15), 77).unwrap();
    w.check(&[first, then], &[]);
    holds(w, first, Some((15, 77)));
    holds(w, then, None);
    w.store(1, then, page(16), 88).unwrap();
    w.store(1, then, page(15), 99).unwrap();
    w.check(&[first, then], &[]);
    assert_eq!(w.load(0, first, page(15)), Ok(77));
    assert_eq!(w.load(0, first, page(16)), Ok(16));
    assert_eq!(w.load(0, then, page(16)), Ok(88));
}

fn the_parent_writes_first<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| one_writes(w, &parent, &child));
}

fn the_child_writes_first<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| one_writes(w, &child, &parent));
}

fn the_child_ends<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| {
        drop(child);
        w.check(&[&parent], &[]);
        assert!(!parent.may_share(head(w, &parent, 1)));
        assert!(parent.page_info(page(1)).exclusive);
        let copied = event(w, "cow_copied");
        for n in USED {
            w.store(0, &parent, page(n), 5).unwrap();
        }
        w.check(&[&parent], &[]);
        assert_eq!(event(w, "cow_copied"), copied);
        assert!(parent.page_info(page(1)).exclusive);
    });
    assert_eq!(event(w, "page_tables_unshared"), 0);
}

fn the_parent_ends<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| {
        drop(parent);
        w.check(&[&child], &[]);
        // Another space gets the id.
        let other = w.process();
        map(&other, AT, 4, RW);
        w.store(0, &other, page(0), 9).unwrap();
        let seen = child.smaps(AT).unwrap();
        assert_eq!((seen.private_dirty > 0, seen.shared_dirty), (true, 0));
        w.check(&[&child, &other], &[]);
        let copied = event(w, "cow_copied");
        for n in USED {
            w.store(0, &child, page(n), 5).unwrap();
        }
        w.check(&[&child, &other], &[]);
        assert_eq!(event(w, "cow_copied"), copied);
        assert!(child.page_info(page(1)).exclusive);
    });
}

fn three_generations<F: PteFormat>(w: &World<F>) {
    for survivor in 0..3 {
        families(w, |parent, child| {
            let grandchild = w.adopt(child.fork().unwrap());
            w.check(&[&parent, &child, &grandchild], &[]);
            w.store(0, &child, page(1), 41).unwrap();
            w.check(&[&parent, &child, &grandchild], &[]);
            holds(w, &parent, None);
            holds(w, &grandchild, None);
            let mut all = [Some(parent), Some(child), Some(grandchild)];
            for (n, process) in all.iter_mut().enumerate() {
                if n != survivor {
                    *process = None;
                }
            }
            let left = all[survivor].take().unwrap();
            w.check(&[&left], &[]);
            let copied = event(w, "cow_copied");
            for n in USED {
                w.store(1, &left, page(n), 6).unwrap();
            }
            w.check(&[&left], &[]);
            assert_eq!(event(w, "cow_copied"), copied, "{survivor} is alone");
        });
    }
}

fn each<F: PteFormat>(w: &World<F>, verb: impl Fn(&Process<F>, &Process<F>)) {
    families(w, |parent, child| {
        verb(&parent, &child);
        w.check(&[&parent, &child], &[]);
    });
    families(w, |parent, child| {
        verb(&child, &parent);
        w.check(&[&child, &parent], &[]);
    });
}

fn a_part_goes_in_each<F: PteFormat>(w: &World<F>) {
    each(w, |s, other| {
        s.unmap(page(10), 10 * PAGE_SIZE).unwrap();
        assert_eq!(w.load(0, s, page(15)), Err(Resolution::NotMapped));
        holds(w, other, None);
    });
    each(w, |s, other| {
        s.advise(page(15), PAGE_SIZE, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, s, page(15)), Ok(0));
        holds(w, other, None);
    });
}

fn all_of_it_goes_in_each<F: PteFormat>(w: &World<F>) {
    each(w, |s, other| {
        s.unmap(AT, LEN).unwrap();
        assert_eq!(s.usage().rss_anon, 0);
        holds(w, other, None);
        w.store(0, other, page(1), 3).unwrap();
    });
    each(w, |s, other| {
        s.advise(AT, LEN, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, s, page(15)), Ok(0));
        w.store(0, s, page(15), 4).unwrap();
        holds(w, other, None);
    });
    assert_eq!(event(w, "page_tables_unshared"), 0);
}

fn protection<F: PteFormat>(w: &World<F>) {
    for (first, pages) in [(0, PAGES), (10, 10)] {
        each(w, |s, other| {
            for prot in [Prot::READ, Prot::empty(), RW] {
                s.protect(page(first), pages * PAGE_SIZE, prot).unwrap();
                w.check(&[s, other], &[]);
            }
            w.store(0, s, page(15), 4).unwrap();
            w.store(1, other, page(16), 5).unwrap();
            holds(w, s, Some((15, 4)));
            holds(w, other, Some((16, 5)));
        });
    }
}

fn what_moves_stays_shared_or_not<F: PteFormat>(w: &World<F>) {
    for (first, pages, to) in [
        (0, PAGES, 4 * PAGES),
        (0, PAGES, 4 * PAGES + 3),
        (10, 10, 4 * PAGES),
    ] {
        each(w, |s, other| {
            let (from, len) = (page(first), pages * PAGE_SIZE);
            let to = page(to);
            assert_eq!(s.remap(from, len, len, FIXED, to), Ok(to));
            w.check(&[s, other], &[]);
            let moved = |n: u64| VirtAddr(to.0 + (n - first) * PAGE_SIZE);
            assert_eq!(w.load(0, s, moved(15)), Ok(15));
            w.store(0, s, moved(15), 4).unwrap();
            holds(w, other, None);
            w.store(1, other, page(15), 5).unwrap();
            assert_eq!(w.load(1, s, moved(15)), Ok(4));
        });
    }
}

fn zeros_are_not_counted<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, 2);
    sizes(w, &[]);
    let parent = w.process();
    map(&parent, AT, PAGES, RW);
    w.store(0, &parent, page(0), 1).unwrap();
    for n in 5..9 {
        w.load(0, &parent, page(n)).unwrap();
    }
    // Where they went, and where they went by a copy.
    let to = page(4 * PAGES + 7);
    parent.remap(AT, LEN, LEN, FIXED, to).unwrap();
    parent.remap(to, LEN, LEN, FIXED, AT).unwrap();
    let child = w.adopt(parent.fork().unwrap());
    w.store(0, &child, page(6), 1).unwrap();
    let grandchild = w.adopt(child.fork().unwrap());
    let all = [&parent, &child, &grandchild];
    assert_eq!(all.map(|s| s.usage().rss_anon), [1, 2, 2]);
    w.check(&[&parent, &child, &grandchild], &[]);
    child.unmap(AT, LEN).unwrap();
    assert_eq!(child.usage().rss_anon, 0);
    w.check(&[&parent, &child, &grandchild], &[]);
}

/// Of a folio that lies in two tables, and others share one of them, a part is shared.
fn a_folio_in_two_tables<F: PteFormat>(w: &World<F>) {
    let (half, pages) = (8, PAGES + 8);
    for shared_first in [false, true] {
        w.mm.switches().set(Switch::Fork, 2);
        sizes(w, &[4]);
        let s = w.process();
        // The folio's pages come to lie on both sides of a border, and one of the tables is full.
        let (from, first, to, own) = match shared_first {
            false => (8 * PAGES, 0, PAGES - half, PAGES - half),
            true => (8 * PAGES + half, PAGES - half, PAGES, 2 * PAGES),
        };
        let [from, to, own] = [from, to, own].map(page);
        map(&s, from, pages, RW);
        for n in 0..16 {
            w.store(0, &s, from + (first + n) * PAGE_SIZE, 5).unwrap();
        }
        s.remap(from, pages * PAGE_SIZE, pages * PAGE_SIZE, FIXED, to)
            .unwrap();
        let child = w.adopt(s.fork().unwrap());
        child.unmap(own, half * PAGE_SIZE).unwrap();
        w.check(&[&s, &child], &[]);
        let m = s.smaps(to).unwrap();
        let (private, shared) = (
            m.private_clean + m.private_dirty,
            m.shared_clean + m.shared_dirty,
        );
        assert_eq!((private, shared), (half * PAGE_SIZE, half * PAGE_SIZE));
        assert_eq!(m.folios[4].whole, 1);
        for n in 0..16 {
            let at = to + (first + n) * PAGE_SIZE;
            let alone = (own..own + half * PAGE_SIZE).contains(&at);
            assert_eq!(s.page_info(at).exclusive, alone, "{n}");
        }
    }
}

fn pins_keep_what_they_saw<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| {
        let pin = child.pin(page(15)).unwrap_or_else(|why| panic!("{why:?}"));
        drop(child);
        w.check(&[&parent], &[]);
        w.store(0, &parent, page(15), 99).unwrap();
        let mut byte = [0];
        pin.read(0, &mut byte);
        assert_eq!(byte, [15]);
        w.check(&[&parent], &[]);
    });
}

/// What was pinned before the fork is not written in place after it, even when the child is gone.
fn pins_from_before_keep_what_they_saw<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, 2);
    for order in [0, 4, 5] {
        sizes(w, &[order]);
        let parent = w.process();
        map(&parent, AT, PAGES, RW);
        USED.iter()
            .for_each(|n| w.store(0, &parent, page(*n), *n as u8).unwrap());
        let pin = parent.pin(page(15)).unwrap_or_else(|why| panic!("{why:?}"));
        drop(parent.fork().unwrap());
        w.store(0, &parent, page(15), 99).unwrap();
        let mut byte = [0];
        pin.read(0, &mut byte);
        assert_eq!(byte, [15]);
        w.check(&[&parent], &[]);
    }
}

fn a_collapse_takes_its_own<F: PteFormat>(w: &World<F>) {
    let w = &World::<F>::new(Options {
        frames: 4096,
        ..w.sim.options()
    });
    each(w, |s, other| {
        sizes(w, &[9]);
        s.advise(AT, LEN, Advice::Collapse).unwrap();
        w.check(&[s, other], &[]);
        w.store(0, s, page(15), 4).unwrap();
        holds(w, s, Some((15, 4)));
        holds(w, other, None);
    });
}

/// Every allocation of a verb fails once.
fn each_fails<F: PteFormat>(
    w: &World<F>,
    all: &[&Space<F>],
    verb: impl Fn() -> Result<(), Error>,
) -> u64 {
    for k in 0..10 {
        let before = w.mm.counts().anon;
        w.mm.allocator().fail_after(Some(k));
        let result = verb();
        w.mm.allocator().fail_after(None);
        match result {
            Ok(()) => return k,
            Err(error) => assert_eq!((error, w.mm.counts().anon), (Error::NoMem, before)),
        }
        w.check(all, &[]);
    }
    panic!("the verb never succeeds");
}

type Verb<'a, F> = &'a dyn Fn(&Process<F>) -> Result<(), Error>;

fn out_of_memory<F: PteFormat>(w: &World<F>) {
    let fault = |s: &Process<F>| match s.fault(page(15), Access::Write, Mode::User) {
        Resolution::Done => Ok(()),
        _ => Err(Error::NoMem),
    };
    let verbs: [Verb<F>; 6] = [
        &fault,
        &|s| s.unmap(page(10), 10 * PAGE_SIZE),
        &|s| s.protect(AT, LEN, Prot::READ),
        &|s| s.advise(page(10), PAGE_SIZE, Advice::DontNeed),
        &|s| {
            s.remap(page(10), PAGE_SIZE, PAGE_SIZE, FIXED, page(20 * PAGES))
                .map(drop)
        },
        &|s| s.clear_soft_dirty(),
    ];
    for verb in verbs {
        each(w, |s, other| {
            assert!(each_fails(w, &[s, other], || verb(s)) > 0);
            holds(w, other, None);
        });
    }
    families(w, |parent, child| {
        let fork = || child.fork().map(drop);
        // Its root, PUD and PMD.
        assert_eq!(each_fails(w, &[&parent, &child], fork), 3);
    });
}
