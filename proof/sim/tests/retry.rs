//! Faults whose folio is made while another CPU changes the space: they look again.

mod common;

use arch_sim::{At, Options, Process, World};
use common::*;
use mm::Advice;
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::vma::Prot;
use std::sync::Arc;

/// The area, and the page that faults.
const PAGES: u64 = 1024;
const HERE: u64 = 600;
/// A page of the same 64 KiB, and of the same 2 MiB.
const NEAR: u64 = HERE + 1;
const LEN: u64 = PAGES * PAGE_SIZE;

/// What another CPU does meanwhile.
type Other<F> = fn(&World<F>, &Process<F>);

/// Each with the sizes of folios that are enabled: the store of a byte while `other` is at work
/// ends with `wanted`, and then `after` holds. The fault looked again as often as `retried` says.
fn while_another<F: PteFormat>(
    prepare: Other<F>,
    other: Other<F>,
    wanted: Result<(), Resolution>,
    retried: u64,
    after: Other<F>,
) {
    for (orders, hardware_ad) in [
        (&[][..], true),
        (&[4], false),
        (&[9], true),
        (&[2, 4, 9], true),
    ] {
        let w = World::<F>::new(Options {
            hardware_ad,
            frames: 4096,
            ..Options::default()
        });
        sizes(&w, orders);
        let before = w.mm.counts();
        let p = Arc::new(w.process());
        map(&p, AT, PAGES, RW);
        prepare(&w, &p);
        let (v, q) = (w.clone(), p.clone());
        w.sim.meanwhile(At::Zero, (0, 1), move || {
            v.sim.run_on(1);
            other(&v, &q);
            v.sim.run_on(0);
        });
        let looked = w.mm.event("fault_retried");
        assert_eq!(w.store(0, &p, page(HERE), 7), wanted, "{orders:?}");
        assert!(!w.sim.forget(), "nothing was zeroed unlocked");
        let looked = w.mm.event("fault_retried").unwrap() - looked.unwrap();
        assert_eq!(looked, retried, "{orders:?}");
        w.check(&[&p], &[]);
        if wanted.is_ok() {
            assert_eq!(w.load(0, &p, page(HERE)), Ok(7));
        }
        after(&w, &p);
        w.check(&[&p], &[]);
        drop(p);
        w.check(&[], &[]);
        assert_eq!(before, w.mm.counts(), "{orders:?}");
    }
}

fn nothing<F: PteFormat>(_: &World<F>, _: &Process<F>) {}

fn the_same_page_is_touched<F: PteFormat>() {
    let touch: Other<F> = |w, p| {
        w.store(1, p, page(HERE), 3).unwrap();
        w.store(1, p, page(NEAR), 4).unwrap();
    };
    while_another(nothing, touch, Ok(()), 1, |w, p| {
        assert_eq!(w.load(1, p, page(NEAR)), Ok(4));
    });
}

/// The hole is too small then for the folio that was made.
fn a_neighbour_is_touched<F: PteFormat>() {
    let touch: Other<F> = |w, p| {
        sizes(w, &[]);
        w.store(1, p, page(NEAR), 4).unwrap();
    };
    while_another(nothing, touch, Ok(()), 1, |w, p| {
        assert_eq!(w.load(1, p, page(NEAR)), Ok(4));
    });
}

fn the_area_goes<F: PteFormat>() {
    let unmap: Other<F> = |_, p| p.unmap(AT, LEN).unwrap();
    while_another(nothing, unmap, Err(Resolution::NotMapped), 1, nothing);
}

fn the_area_may_not_be_written<F: PteFormat>() {
    let protect: Other<F> = |_, p| p.protect(AT, LEN, Prot::READ).unwrap();
    while_another(nothing, protect, Err(Resolution::Denied), 1, nothing);
}

fn the_area_becomes_another<F: PteFormat>() {
    let replace: Other<F> = |_, p| {
        p.unmap(page(HERE - 3), 7 * PAGE_SIZE).unwrap();
        map(p, page(HERE), 1, RW | Prot::EXEC);
    };
    while_another(nothing, replace, Ok(()), 1, |w, p| {
        assert_eq!(w.load(0, p, page(HERE + 1)), Err(Resolution::NotMapped));
    });
}

fn the_area_moves<F: PteFormat>() {
    let away: Other<F> = |w, p| {
        w.store(1, p, page(0), 9).unwrap();
        let to = page(4 * PAGES);
        assert_eq!(
            p.remap(AT, LEN, LEN, FIXED, to, &mut Default::default()),
            Ok(to)
        );
    };
    while_another(nothing, away, Err(Resolution::NotMapped), 1, |w, p| {
        assert_eq!(w.load(0, p, page(4 * PAGES)), Ok(9));
    });
}

fn large_folios_are_refused<F: PteFormat>() {
    let refuse: Other<F> = |_, p| p.advise(AT, LEN, Advice::NoHugePage).unwrap();
    while_another(nothing, refuse, Ok(()), 1, |w, p| {
        let usage = p.usage();
        assert_eq!(usage.rss.anon, 1);
        assert_eq!(w.load(0, p, page(NEAR)), Ok(0));
    });
}

fn a_child_is_made<F: PteFormat>() {
    let fork: Other<F> = |w, p| {
        w.store(1, p, page(0), 9).unwrap();
        let child = w.adopt(p.fork().unwrap());
        assert_eq!(w.load(1, &child, page(HERE)), Ok(0));
        drop(child);
    };
    while_another(nothing, fork, Ok(()), 1, |w, p| {
        assert_eq!(w.load(0, p, page(0)), Ok(9));
    });
}

/// The page of zeros that was there goes, the huge one where that is mapped.
fn zeros_go<F: PteFormat>() {
    let read: Other<F> = |w, p| {
        w.load(0, p, page(HERE)).unwrap();
        // Small pages of zeros are copied, which needs no zeroing: they go before.
        if !w.mm.thp().controls.orders(true).contains(Order(9)) {
            p.advise(AT, LEN, Advice::DontNeed).unwrap();
        }
    };
    let drop_them: Other<F> = |_, p| p.advise(AT, LEN, Advice::DontNeed).unwrap();
    while_another(read, drop_them, Ok(()), 1, nothing);
}

/// Another space does not matter, and is done with before the fault goes on.
fn another_space_changes<F: PteFormat>() {
    let elsewhere: Other<F> = |w, _| {
        let p = w.process();
        map(&p, AT, PAGES, RW);
        w.store(1, &p, page(HERE), 3).unwrap();
        p.unmap(AT, LEN).unwrap();
    };
    while_another(nothing, elsewhere, Ok(()), 0, nothing);
}

/// Populating goes on behind an area that another thread takes away.
fn populating<F: PteFormat>() {
    let w = World::<F>::new(Options::default());
    sizes(&w, &[]);
    let before = w.mm.counts();
    let p = Arc::new(w.process());
    map(&p, AT, 64, RW);
    let q = p.clone();
    w.sim.meanwhile(At::Zero, (0, 1), move || {
        q.unmap(page(8), 8 * PAGE_SIZE).unwrap()
    });
    assert!(p.advise(AT, 64 * PAGE_SIZE, Advice::PopulateWrite).is_err());
    assert_eq!(p.usage().rss.anon, 8);
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts());
}

on_both_formats! {
    the_same_page_is_touched a_neighbour_is_touched the_area_goes the_area_may_not_be_written
    the_area_becomes_another the_area_moves large_folios_are_refused a_child_is_made zeros_go
    another_space_changes populating
}
