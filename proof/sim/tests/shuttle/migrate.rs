//! Folios that are moved to other frames, beside those who use them.

use crate::common::{AT, FIXED, RW, map, page, sizes};
use crate::scene::{machine, share_tables, shared_pages, threads, together, write, write_and_read};
use arch_sim::{Process, World};
use mm::Advice;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use std::sync::Mutex;

const HERE: u64 = 5;
const NEAR: u64 = 9;
const PAGES: u64 = 16;
const ALL: u64 = PAGES * PAGE_SIZE;
/// Folios that are in the way at first.
const OTHERS: u64 = 64;

/// Two pageblocks and a part of one, which has room for the pages of a process: they are alone in a
/// pageblock, which [`Mm::compact_all`] empties. They have the number 1.
fn scene<F: PteFormat>(orders: &[u8], test: impl Fn(&World<F>, &Process<F>)) {
    scene_with(orders, |_, _| (), |w, p, ()| test(w, p));
}
/// The same with more beside these pages.
fn scene_with<F: PteFormat, T>(
    orders: &[u8],
    more: impl Fn(&World<F>, &Process<F>) -> T,
    test: impl Fn(&World<F>, &Process<F>, &T),
) {
    let w = machine::<F>(1024 + 32, 8, &[4]);
    let before = w.mm.counts();
    let p = threads(&w, PAGES);
    map(&p, page(OTHERS), 32, RW);
    write(&w, &p, &[OTHERS, OTHERS + PAGES], 1);
    sizes(&w, orders);
    write(&w, &p, &[HERE, NEAR], 1);
    let more = more(&w, &p);
    p.unmap(page(OTHERS), 2 * ALL).unwrap();
    w.mm.drain_pcp();
    test(&w, &p, &more);
    drop((p, more));
    w.check(&[], &[]);
    assert_eq!(w.mm.slots().used(), 0);
    assert_eq!(before, w.mm.counts(), "frames are left");
}

fn moved<F: PteFormat>(w: &World<F>) -> u64 {
    w.mm.event("pgmigrate_success").expect("a counter")
}

/// What is written while the folio is parked, copied or mapped again is there afterwards.
pub fn a_write_beside_a_move<F: PteFormat>() {
    scene::<F>(&[4], |w, p| {
        together(w, 3, |cpu| match cpu {
            0 => w.mm.compact_all(),
            _ => {
                let at = page(HERE) + cpu as u64;
                for value in 2..4 {
                    w.store(cpu, p, at, value).unwrap();
                    assert_eq!(w.load(cpu, p, at), Ok(value));
                    assert_eq!(w.load(cpu, p, page(NEAR)), Ok(1));
                }
            }
        });
        w.mm.compact_all();
        w.check(&[p], &[]);
        assert_ne!(moved(w), 0);
        assert_eq!(w.load(0, p, page(HERE)), Ok(1));
        for cpu in 1..3 {
            assert_eq!(w.load(0, p, page(HERE) + cpu), Ok(3));
        }
    });
}

/// What a pipe has of the process stays where it is.
pub fn a_pin_beside_a_move<F: PteFormat>() {
    scene::<F>(&[4], |w, p| {
        let pinned = Mutex::new(None);
        together(w, 2, |cpu| match cpu {
            0 => w.mm.compact_all(),
            _ => *pinned.lock().unwrap() = Some(p.pin(page(HERE)).unwrap()),
        });
        let mut byte = [0];
        pinned.lock().unwrap().as_ref().unwrap().read(0, &mut byte);
        assert_eq!((byte, w.load(0, p, page(HERE))), ([1], Ok(1)));
        w.check(&[p], &[]);
    });
}

/// A child has what its parent had, wherever it is, and its own where it writes.
pub fn a_fork_beside_a_move<F: PteFormat>() {
    for shares in [false, true] {
        scene::<F>(&[4], |w, p| {
            if shares {
                share_tables(w);
            }
            let child = Mutex::new(None);
            together(w, 3, |cpu| match cpu {
                0 => w.mm.compact_all(),
                1 => *child.lock().unwrap() = Some(w.adopt(p.fork().unwrap())),
                _ => w.store(cpu, p, page(NEAR) + 2, 2).unwrap(),
            });
            let child = child.into_inner().unwrap().unwrap();
            w.check(&[p, &child], &[]);
            w.store(0, p, page(HERE), 2).unwrap();
            w.mm.compact_all();
            assert_eq!(w.load(2, &child, page(HERE)), Ok(1));
            assert_eq!(w.load(2, &child, page(NEAR)), Ok(1));
            assert_eq!(w.load(0, p, page(NEAR) + 2), Ok(2));
            w.check(&[p, &child], &[]);
        });
    }
}

/// Pages go, come anew and go elsewhere while they are moved.
pub fn an_unmap_beside_a_move<F: PteFormat>() {
    scene::<F>(&[4], |w, p| {
        let to = page(1024);
        together(w, 3, |cpu| match cpu {
            0 => w.mm.compact_all(),
            1 => {
                p.dont_need(page(HERE), PAGE_SIZE).unwrap();
                assert_eq!(w.load(cpu, p, page(HERE)), Ok(0));
            }
            _ => {
                p.remap(
                    page(8),
                    ALL / 2,
                    ALL / 2,
                    FIXED,
                    to,
                    &mut Default::default(),
                )
                .unwrap();
                assert_eq!(w.load(cpu, p, to + PAGE_SIZE), Ok(1));
            }
        });
        w.mm.compact_all();
        w.check(&[p], &[]);
        assert_eq!(w.load(0, p, page(HERE)), Ok(0));
        assert_eq!(w.load(0, p, to + PAGE_SIZE), Ok(1));
    });
}

/// Two CPUs move what a third one has stored, and a process ends meanwhile.
pub fn page_out_beside_two_moves<F: PteFormat>() {
    for orders in [&[][..], &[4]] {
        scene::<F>(orders, |w, p| {
            let child = Mutex::new(Some(p.fork().unwrap()));
            together(w, 3, |cpu| match cpu {
                0 => w.mm.compact_all(),
                1 => {
                    drop(child.lock().unwrap().take());
                    w.mm.compact_all();
                }
                _ => p.advise(AT, ALL, Advice::PageOut).unwrap(),
            });
            w.check(&[p], &[]);
            assert_eq!(w.load(0, p, page(HERE)), Ok(1));
            assert_eq!(w.load(0, p, page(NEAR)), Ok(1));
        });
    }
}

/// What is written to shared memory by a process or by a call while it is moved is there
/// afterwards, and what is truncated is not.
pub fn an_object_beside_a_move<F: PteFormat>() {
    let at = page(1000);
    let object = |w: &World<F>, p: &Process<F>| shared_pages(w, p, at);
    scene_with::<F, _>(&[], object, |w, p, object| {
        together(w, 3, |cpu| match cpu {
            0 => w.mm.compact_all(),
            1 => write_and_read(w, p, cpu, at + 2),
            _ => {
                object.write_at(3, &[2]).unwrap();
                object.punch(PAGE_SIZE, PAGE_SIZE);
            }
        });
        w.mm.compact_all();
        w.check(&[p], &[object]);
        assert_ne!(moved(w), 0);
        let mut bytes = [0; 4];
        object.read_at(0, &mut bytes);
        assert_eq!(bytes, [1, 0, 3, 2]);
        assert_eq!(w.load(0, p, at + PAGE_SIZE), Ok(0));
    });
}
