//! Long verbs in steps: what other threads do in the pauses leaves everything whole, and a verb
//! that changes areas is whole to the others.

mod common;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::{Attrs, PteFormat};
use mm::fault::Resolution;
use mm::object::Object;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Error, MapRequest, Place, RemapFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tables' worth of memory, of which one page each is touched.
const TABLES: u64 = 12;
const TABLE: u64 = 2 << 20;
const LEN: u64 = TABLES * TABLE;

/// The touched page of a table.
fn spot(n: u64) -> VirtAddr {
    AT + n * TABLE + (n % 5) * PAGE_SIZE
}

/// A world in which each verb pauses as often as it can, and a process with a touched page in each
/// table.
fn scene<F: PteFormat>(test: impl Fn(&World<F>, Arc<Process<F>>)) {
    for (asids, hardware_ad) in [(1, true), (8, false)] {
        let w = World::<F>::new(Options {
            asids,
            hardware_ad,
            step: 2,
            ..Options::default()
        });
        let before = w.mm.counts();
        let p = Arc::new(w.process());
        assert_eq!(p.map(sparse(AT, LEN, RW)), Ok(AT));
        (0..TABLES).for_each(|n| w.store(0, &p, spot(n), n as u8 + 1).unwrap());
        test(&w, p);
        w.sim.in_pauses(None);
        w.check(&[], &[]);
        assert_eq!(before, w.mm.counts());
    }
}

/// Runs `f` with `others` in its pauses; returns what it says and how many pauses there were.
fn paused<F: PteFormat, T>(
    w: &World<F>,
    mut others: impl FnMut(u64) -> bool + Send + 'static,
    f: impl FnOnce() -> T,
) -> (T, u64) {
    let pauses = Arc::new(AtomicU64::new(0));
    let count = pauses.clone();
    w.sim
        .in_pauses(Some(Box::new(move || others(count.fetch_add(1, Relaxed)))));
    let result = f();
    w.sim.in_pauses(None);
    (result, pauses.load(Relaxed))
}

/// A request for more memory than there is.
fn sparse<F: PteFormat>(at: VirtAddr, len: u64, prot: Prot) -> MapRequest<Sim<F>> {
    MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(Place::Fixed(at), len / PAGE_SIZE, prot)
    }
}

fn all() -> VirtRange {
    VirtRange::new(AT, AT + LEN)
}

fn unmap_is_whole_to_others<F: PteFormat>() {
    scene::<F>(|w, p| {
        let (v, q) = (w.clone(), p.clone());
        let others = move |n| {
            // Its pages are gone or on their way, its place is not free yet: they would wait.
            assert_eq!(v.load(1, &q, spot(n)), Err(Resolution::Claimed));
            let last = spot(TABLES - 1) + PAGE_SIZE;
            assert_eq!(v.store(1, &q, last, 1), Err(Resolution::Claimed));
            for place in [Place::Fixed(spot(n)), Place::Hint(VirtAddr(0))] {
                let mapped = q.map(anon(place, 1, RW));
                assert_eq!(mapped, Err(Error::Interrupted), "it would have to wait");
            }
            assert_eq!(q.protect(AT, PAGE_SIZE, RW), Err(Error::Interrupted));
            assert!(q.fork().is_err());
            // Asked to end, it goes on: others may share the space.
            true
        };
        let (result, pauses) = paused(w, others, || p.unmap(AT, LEN));
        assert_eq!(result, Ok(()));
        assert!(pauses >= TABLES / 2, "{pauses}");
        assert_eq!((p.usage().mapped.total, p.usage().rss.anon), (0, 0));
        assert_eq!(w.load(1, &p, spot(0)), Err(Resolution::NotMapped));
        map(&p, AT, 1, RW);
        w.check(&[&p], &[]);
    });
}

/// To a place where each page moves for itself: what has moved is reached at its new place, and
/// what has not at its old one.
fn move_by_pages_is_whole_to_others<F: PteFormat>() {
    const AWAY: u64 = 4 * LEN + 3 * PAGE_SIZE;
    scene::<F>(|w, p| {
        w.store(0, &p, AT + (LEN - PAGE_SIZE), 77).unwrap();
        for (keeps, to) in [(false, AT + AWAY), (true, AT + 2 * AWAY)] {
            let (v, q) = (w.clone(), p.clone());
            let others = move |n: u64| {
                let at = if keeps { AT + AWAY } else { AT };
                // The first page has moved. At its old place nothing is, or it is new.
                assert_eq!(v.load(1, &q, at + (to - at)), Ok(1));
                let old = v.load(1, &q, at);
                let expected = if keeps {
                    Ok(0)
                } else {
                    Err(Resolution::Claimed)
                };
                assert_eq!(old, expected, "pause {n}");
                let last = LEN - PAGE_SIZE;
                let seen = [v.load(1, &q, at + last), v.load(1, &q, to + last)];
                assert_eq!(seen, [Ok(77), Err(Resolution::Claimed)]);
                assert_eq!(q.protect(to, PAGE_SIZE, RW), Err(Error::Interrupted));
                true
            };
            let (from, flags) = match keeps {
                true => (AT + AWAY, FIXED | RemapFlags::DONTUNMAP),
                false => (AT, FIXED),
            };
            let moves = || p.remap(from, LEN, LEN, flags, to, &mut Default::default());
            let (result, pauses) = paused(w, others, moves);
            assert_eq!(result, Ok(to));
            assert!(pauses >= TABLES / 2, "{pauses}");
            let area = p.vma_at(to).unwrap();
            assert_eq!(area.range, VirtRange::new(to, to + LEN), "one area again");
            (0..TABLES).for_each(|n| {
                assert_eq!(w.load(0, &p, to + (spot(n) - AT)), Ok(n as u8 + 1));
            });
            assert_eq!(p.vma_at(from).is_some(), keeps);
            w.check(&[&p], &[]);
        }
    });
}

fn map_over_memory_is_whole<F: PteFormat>() {
    scene::<F>(|w, p| {
        let (v, q) = (w.clone(), p.clone());
        let others = move |n| {
            assert_eq!(v.load(1, &q, spot(n)), Err(Resolution::Claimed));
            true
        };
        let (result, pauses) = paused(w, others, || p.map(sparse(AT, LEN, Prot::READ)));
        assert_eq!(result, Ok(AT));
        assert!(pauses > 0);
        (0..TABLES).for_each(|n| assert_eq!(w.load(0, &p, spot(n)), Ok(0)));
        assert_eq!(w.store(0, &p, AT, 1), Err(Resolution::Denied));
        w.check(&[&p], &[]);
    });
}

/// A stack does not grow into memory that is being mapped again.
fn map_below_a_stack<F: PteFormat>() {
    scene::<F>(|w, p| {
        let stack = MapRequest {
            flags: VmaFlags::GROWSDOWN,
            ..anon(Place::Fixed(AT + LEN), 4, RW)
        };
        p.map(stack).unwrap();
        let (v, q) = (w.clone(), p.clone());
        let last = AT + (LEN - PAGE_SIZE);
        let others = move |_| {
            assert_eq!(v.store(1, &q, last, 1), Err(Resolution::Claimed));
            false
        };
        let (result, pauses) = paused(w, others, || p.map(sparse(AT, LEN, Prot::READ)));
        assert_eq!(result, Ok(AT));
        assert!(pauses > 0);
        assert_eq!(w.store(1, &p, last, 1), Err(Resolution::Denied));
        p.unmap(AT, LEN).unwrap();
        assert_eq!(w.store(1, &p, last, 1), Ok(()));
        w.check(&[&p], &[]);
    });
}

fn fork_while_others_write<F: PteFormat>() {
    scene::<F>(|w, p| {
        let (v, q) = (w.clone(), p.clone());
        let others = move |n: u64| {
            // Pages that were copied already, that come later, and fresh ones.
            for at in [spot(n % TABLES), spot((n + 3) % TABLES)] {
                v.store(1, &q, at, 100).unwrap();
            }
            let _ = v.store(1, &q, spot(n % TABLES) + 7 * PAGE_SIZE, 50);
            q.dont_need(spot((n + 5) % TABLES), PAGE_SIZE).unwrap();
            assert_eq!(
                q.unmap(AT, PAGE_SIZE),
                Err(Error::Interrupted),
                "areas stay as they are"
            );
            false
        };
        let (child, pauses) = paused(w, others, || p.fork());
        let child = w.adopt(child.unwrap());
        assert!(pauses >= TABLES / 2, "{pauses}");
        w.check(&[&p, &child], &[]);
        for n in 0..TABLES {
            let seen = w.load(0, &child, spot(n)).unwrap();
            assert!([n as u8 + 1, 100, 0].contains(&seen), "{seen}");
            let parents = w.load(0, &p, spot(n)).unwrap();
            // From now on each has its own.
            w.store(0, &child, spot(n), 77).unwrap();
            assert_eq!(w.load(0, &p, spot(n)), Ok(parents));
            w.store(1, &p, spot(n), 78).unwrap();
            assert_eq!(w.load(0, &child, spot(n)), Ok(77));
        }
        w.check(&[&p, &child], &[]);
    });
}

fn a_fork_that_is_stopped_leaves_nothing<F: PteFormat>() {
    scene::<F>(|w, p| {
        let before = w.mm.counts();
        for stop in 0..4 {
            let (child, _) = paused(w, move |n| n == stop, || p.fork());
            assert_eq!(child.err(), Some(Error::Interrupted));
            assert_eq!(w.mm.counts(), before);
        }
        (0..TABLES).for_each(|n| w.store(0, &p, spot(n), 9).unwrap());
        w.check(&[&p], &[]);
    });
}

fn protect_while_others_write<F: PteFormat>() {
    scene::<F>(|w, p| {
        let (v, q) = (w.clone(), p.clone());
        let written = Arc::new(AtomicU64::new(0));
        let seen = written.clone();
        let others = move |n: u64| {
            for k in 0..TABLES {
                // What can still be written is; what was written must stay.
                if v.store(1, &q, spot(k), 20 + n as u8).is_ok() {
                    seen.fetch_or(1 << k, Relaxed);
                }
            }
            false
        };
        let (result, pauses) = paused(w, others, || p.protect(AT, LEN, Prot::READ));
        assert_eq!(result, Ok(()));
        assert!(pauses > 0);
        for n in 0..TABLES {
            let byte = w.load(0, &p, spot(n)).unwrap();
            assert_eq!(byte >= 20, written.load(Relaxed) >> n & 1 == 1, "{n}");
            for cpu in 0..2 {
                assert_eq!(w.store(cpu, &p, spot(n), 1), Err(Resolution::Denied));
            }
        }
        w.check(&[&p], &[]);
    });
}

/// Advice, populating, clear_refs and splitting look areas up again after each pause.
fn others_change_areas_meanwhile<F: PteFormat>() {
    type Verb<F> = fn(&Space<F>);
    let verbs: [Verb<F>; 8] = [
        |s| {
            let _ = s.dont_need(AT, LEN);
        },
        |s| {
            let _ = s.advise(AT, LEN, Advice::Free);
        },
        |s| {
            let _ = s.advise(AT, LEN, Advice::Cold);
        },
        |s| {
            let _ = s.advise(AT, LEN, Advice::Collapse);
        },
        |s| {
            let _ = s.advise(AT, 6 * PAGE_SIZE, Advice::PopulateWrite);
        },
        |s| s.clear_soft_dirty().unwrap(),
        |s| s.clear_referenced(None),
        |s| {
            let _ = s.split_range(all(), Order(0));
        },
    ];
    for verb in verbs {
        scene::<F>(move |w, p| {
            let (v, q) = (w.clone(), p.clone());
            let others = move |n: u64| {
                // No verb goes on for as long as areas change under it.
                assert!(n < 500);
                let at = AT + (n * 3 % TABLES) * TABLE;
                match n % 5 {
                    0 => q.unmap(at, TABLE).unwrap(),
                    1 => drop(q.map(sparse(at, TABLE, RW)).unwrap()),
                    2 => {
                        let _ = q.protect(at, 3 * PAGE_SIZE, Prot::READ);
                    }
                    3 => {
                        let _ = v.store(1, &q, at + TABLE, 5);
                    }
                    _ => drop(v.adopt(q.fork().unwrap())),
                }
                false
            };
            let ((), pauses) = paused(w, others, || verb(&p));
            assert!(pauses > 0);
            // Some of the verbs forget it.
            w.sim.forgive(p.root(), all(), Attrs::ACCESSED);
            w.check(&[&p], &[]);
        });
    }
}

fn populating_ends_where_others_unmap<F: PteFormat>() {
    scene::<F>(|w, p| {
        let q = p.clone();
        let others = move |n| {
            if n == 1 {
                q.unmap(page(4), 2 * PAGE_SIZE).unwrap();
            }
            false
        };
        let populate = || p.advise(AT, 10 * PAGE_SIZE, Advice::PopulateWrite);
        assert_eq!(paused(w, others, populate).0, Err(Error::NoMem));
        let populate = || p.advise(AT, 3 * PAGE_SIZE, Advice::PopulateRead);
        assert_eq!(paused(w, |_| true, populate).0, Err(Error::Interrupted));
        w.check(&[&p], &[]);
    });
}

fn truncating_while_others_fault<F: PteFormat>() {
    scene::<F>(|w, p| {
        let object = Object::new(&w.mm);
        object.set_len(LEN);
        let at = AT + LEN;
        let flags = VmaFlags::SHARED | VmaFlags::NORESERVE;
        let request = of_object(&object, 0, at, LEN / PAGE_SIZE, RW, flags);
        p.map(request).unwrap();
        (0..TABLES).for_each(|n| w.store(0, &p, spot(n) + LEN, 1).unwrap());
        let (v, q) = (w.clone(), p.clone());
        let others = move |n: u64| {
            assert_eq!(v.store(1, &q, at, 3), Ok(()));
            assert_eq!(
                v.load(1, &q, at + (n % TABLES) * TABLE + 9 * PAGE_SIZE),
                Err(Resolution::Bus)
            );
            false
        };
        let ((), pauses) = paused(w, others, || object.truncate(PAGE_SIZE));
        assert!(pauses > 0);
        (1..TABLES).for_each(|n| assert_eq!(w.load(0, &p, spot(n) + LEN), Err(Resolution::Bus)));
        assert_eq!(w.load(0, &p, at), Ok(3));
        w.check(&[&p], &[]);
    });
}

/// More areas than are changed in one step.
fn many_areas<F: PteFormat>() {
    let w = World::<F>::new(Options::default());
    let before = w.mm.counts();
    let p = Arc::new(w.process());
    let areas = 1500;
    for n in 0..areas {
        let prot = if n % 2 == 0 { RW } else { Prot::READ };
        map(&p, page(n), 1, prot);
    }
    let len = areas * PAGE_SIZE;
    let q = p.clone();
    let waits = move |_| {
        assert_eq!(q.unmap(AT, PAGE_SIZE), Err(Error::Interrupted));
        false
    };
    let (child, pauses) = paused(&w, waits.clone(), || p.fork());
    assert!(pauses >= 2);
    let child = w.adopt(child.unwrap());
    assert_eq!(child.usage().mapped.total, areas);
    drop(child);
    let (locked, pauses) = paused(&w, waits.clone(), || p.mlock(AT, len, true, true));
    assert_eq!(locked, Ok(()));
    assert!(pauses >= 2);
    assert_eq!(p.usage().mapped.locked, areas);
    assert_eq!(p.lock_all(false, false, false), Ok(()));
    assert_eq!(
        paused(&w, |_| true, || p.fork()).0.err(),
        Some(Error::Interrupted)
    );
    let (gone, pauses) = paused(&w, waits, || p.unmap(AT, len - PAGE_SIZE));
    assert_eq!(gone, Ok(()));
    assert!(pauses >= 2);
    assert_eq!(p.usage().mapped.total, 1);
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts());
}

fn a_space_ends_in_steps<F: PteFormat>() {
    scene::<F>(|w, p| {
        for n in 0..700 {
            map(&p, AT + LEN + 2 * n * PAGE_SIZE, 1, RW);
        }
        let child = p.fork().unwrap();
        let (left, pauses) = paused(
            w,
            |_| true,
            move || {
                drop(child);
                0
            },
        );
        assert!(pauses >= TABLES / 2);
        assert_eq!(left, 0);
        (0..TABLES).for_each(|n| assert_eq!(w.load(0, &p, spot(n)), Ok(n as u8 + 1)));
        w.check(&[&p], &[]);
    });
}

on_both_formats! {
    unmap_is_whole_to_others move_by_pages_is_whole_to_others map_over_memory_is_whole map_below_a_stack fork_while_others_write
    a_fork_that_is_stopped_leaves_nothing protect_while_others_write
    populating_ends_where_others_unmap truncating_while_others_fault many_areas a_space_ends_in_steps
    others_change_areas_meanwhile
}
