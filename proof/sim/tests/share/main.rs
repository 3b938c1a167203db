//! `fork=share`: page tables that spaces share until something in them changes.

#[path = "../common/mod.rs"]
mod common;
mod verbs;

use arch_sim::{Options, Process, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::switch::Switch;
use mm::vma::Prot;
use mm::{Advice, Error};

on_both! {
    a_child_takes_whole_tables
    the_parent_writes_first
    the_child_writes_first
    the_child_ends
    the_parent_ends
    three_generations
    zeros_are_not_counted
    a_folio_in_two_tables
    a_folio_is_not_split
    a_pin_of_another_family_is_none_of_its_business
    pins_keep_what_they_saw
    pins_from_before_keep_what_they_saw
}

const PAGES: u64 = 512;
const LEN: u64 = PAGES * PAGE_SIZE;
/// Pages that are written, so that a table can be told from its copy.
const USED: [u64; 6] = [0, 1, 15, 16, 300, 511];

/// A process with a full table's worth of memory, in folios of this order, and a child that shares
/// it.
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
    w.mm.frames().head(Pfn(s.page_info(page(n)).pfn))
}

fn a_child_takes_whole_tables<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| {
        let tables = w.mm.counts().page_tables;
        assert_eq!(parent.usage().rss.anon, child.usage().rss.anon);
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
    parent
        .remap(AT, LEN, LEN, FIXED, to, &mut Default::default())
        .unwrap();
    parent
        .remap(to, LEN, LEN, FIXED, AT, &mut Default::default())
        .unwrap();
    let child = w.adopt(parent.fork().unwrap());
    w.store(0, &child, page(6), 1).unwrap();
    let grandchild = w.adopt(child.fork().unwrap());
    let all = [&parent, &child, &grandchild];
    assert_eq!(all.map(|s| s.usage().rss.anon), [1, 2, 2]);
    w.check(&[&parent, &child, &grandchild], &[]);
    child.unmap(AT, LEN).unwrap();
    assert_eq!(child.usage().rss.anon, 0);
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
        s.remap(
            from,
            pages * PAGE_SIZE,
            pages * PAGE_SIZE,
            FIXED,
            to,
            &mut Default::default(),
        )
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

fn a_pin_of_another_family_is_none_of_its_business<F: PteFormat>(w: &World<F>) {
    let (parent, child) = family(w, 0);
    let shared = || event(w, "page_tables_shared");
    let forks = |expected: u64| {
        let before = shared();
        drop(parent.fork().unwrap());
        assert_eq!(shared() - before, expected);
    };
    let other = w.process();
    map(&other, AT, 1, RW);
    let pin = other.pin(AT).unwrap_or_else(|why| panic!("{why:?}"));
    forks(1);
    // One of a relative is.
    let own = child.pin(page(1)).unwrap_or_else(|why| panic!("{why:?}"));
    forks(0);
    drop(own);
    forks(1);
    drop(pin);
    w.check(&[&parent, &child, &other], &[]);
}

/// The sharers are one in the account; the entries, which TLBs hold for each of them, are not one's
/// to change.
fn a_folio_is_not_split<F: PteFormat>(w: &World<F>) {
    families(w, |parent, child| {
        holds(w, &child, None);
        let all = VirtRange::new(AT, AT + LEN);
        assert_eq!(parent.split_range(all, Order(0)).0, 0);
        w.check(&[&parent, &child], &[]);
        holds(w, &child, None);
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
