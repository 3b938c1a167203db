//! Private memory in swap slots: what MADV_PAGEOUT parks and a fault takes back, with each verb in
//! between.

mod common;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::{PteFormat, Tlb};
use mm::fault::{Access, Resolution};
use mm::object::Object;
use mm::switch::{ForkBy, SwapIn, Switch};
use mm::thp::ORDERS;
use mm::thp::controls::ShmemSize;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Error, RemapFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGES: u64 = 40;
const ALL: u64 = PAGES * PAGE_SIZE;
/// Single pages, and folios that are folded where the format has the contiguous bit.
const SIZES: [&[u8]; 3] = [&[], &[2], &[4]];

/// A process whose page `n` has byte `n`.
fn written<F: PteFormat>(w: &World<F>, orders: &[u8]) -> Process<F> {
    sizes(w, orders);
    let p = w.process();
    map(&p, AT, PAGES, RW);
    (0..PAGES).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
    p
}

fn park<F: PteFormat>(p: &Process<F>, first: u64, pages: u64) {
    p.advise(page(first), pages * PAGE_SIZE, Advice::PageOut)
        .unwrap();
}

/// Its swapped pages.
fn swapped<F: PteFormat>(p: &Process<F>) -> u64 {
    p.usage().rss.swapped
}

fn reads<F: PteFormat>(w: &World<F>, p: &Process<F>, pages: core::ops::Range<u64>) {
    for n in pages {
        assert_eq!(w.load(1, p, page(n)), Ok(n as u8), "page {n}");
    }
}

fn copied<F: PteFormat>(w: &World<F>) -> u64 {
    w.mm.event("cow_copied").expect("a counter")
}

fn what_is_parked_comes_back<F: PteFormat>(w: &World<F>) {
    // Single pages are left of folios of 16.
    let faults_back = [PAGES, PAGES / 4, PAGES / 16 + PAGES % 16];
    for (orders, wanted) in SIZES.into_iter().zip(faults_back) {
        let p = written(w, orders);
        let folios = p.smaps(AT).unwrap().folios;
        let before = w.mm.counts().anon;
        park(&p, 0, PAGES);
        w.check(&[&p], &[]);
        assert_eq!((swapped(&p), p.usage().rss.total()), (PAGES, 0));
        assert_eq!(w.mm.slots().total() - w.mm.slots().free(), PAGES);
        assert_eq!(w.mm.counts().anon, before - PAGES, "all are stored");
        assert_eq!(w.mm.stored().original, ALL);
        let smaps = p.smaps(AT).unwrap();
        assert_eq!((smaps.swap, smaps.swap_pss, smaps.rss), (ALL, ALL, 0));
        let faults = || w.mm.event("pgfault").expect("a counter");
        let before = faults();
        reads(w, &p, 0..PAGES);
        assert_eq!(faults() - before, wanted);
        w.check(&[&p], &[]);
        assert_eq!(
            (swapped(&p), w.mm.slots().total()),
            (0, w.mm.slots().free())
        );
        assert_eq!(
            p.smaps(AT).unwrap().folios,
            folios,
            "whole and folded again"
        );
        // It is the space's alone.
        let before = copied(w);
        (0..PAGES).for_each(|n| w.store(1, &p, page(n), n as u8).unwrap());
        assert_eq!(copied(w), before);
        w.check(&[&p], &[]);
    }
}

/// A fault takes back what it finds of the folio in its area. While another one has parked pages of
/// it, a write copies: the account says who names slots, and not which.
fn what_other_areas_have_parked_stays<F: PteFormat>(w: &World<F>) {
    let p = written(w, &[4]);
    park(&p, 0, PAGES);
    p.protect(page(4), 4 * PAGE_SIZE, Prot::READ).unwrap();
    let before = copied(w);
    w.store(0, &p, page(0), 0).unwrap();
    assert_eq!((swapped(&p), copied(w)), (PAGES - 4, before + 1));
    w.check(&[&p], &[]);
    reads(w, &p, 0..PAGES);
    assert_eq!(swapped(&p), 0);
    let before = copied(w);
    w.store(0, &p, page(8), 8).unwrap();
    assert_eq!(copied(w), before);
    w.check(&[&p], &[]);
}

fn a_child_and_its_parent_park_the_same_folio<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        for parked_before in [false, true] {
            let parent = written(w, orders);
            if parked_before {
                park(&parent, 0, PAGES);
            }
            let child = w.adopt(parent.fork().unwrap());
            let both = [&*parent, &*child];
            w.check(&both, &[]);
            park(&parent, 0, PAGES);
            w.check(&both, &[]);
            park(&child, 0, PAGES / 2);
            w.check(&both, &[]);
            reads(w, &child, 0..PAGES);
            w.check(&both, &[]);
            let before = copied(w);
            w.store(0, &child, page(1), 77).unwrap();
            assert!(copied(w) > before, "the parent has it in its slot");
            reads(w, &parent, 0..PAGES);
            w.check(&both, &[]);
            assert_eq!(w.load(0, &child, page(1)), Ok(77));
            park(&child, 0, PAGES);
            drop(parent);
            w.check(&[&child], &[]);
            assert_eq!(w.load(0, &child, page(1)), Ok(77));
            reads(w, &child, 2..PAGES);
            w.check(&[&child], &[]);
        }
    }
}

fn verbs_take_swap_entries_for_what_they_are<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        let p = written(w, orders);
        park(&p, 0, PAGES);
        // Dropped: zeros.
        p.advise(page(1), PAGE_SIZE, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, &p, page(1)), Ok(0));
        assert_eq!(swapped(&p), PAGES - 1);
        // Unmapped in part.
        p.unmap(page(20), 3 * PAGE_SIZE).unwrap();
        assert_eq!(w.load(0, &p, page(21)), Err(Resolution::NotMapped));
        // Moved.
        let to = page(1000);
        let flags = RemapFlags::MAYMOVE | RemapFlags::FIXED;
        let len = 4 * PAGE_SIZE;
        let place = p.remap(page(8), len, len, flags, to, &mut Default::default());
        assert_eq!(place.unwrap(), to);
        w.check(&[&p], &[]);
        // No access, and access again.
        p.protect(page(30), 2 * PAGE_SIZE, Prot::empty()).unwrap();
        assert_eq!(w.load(0, &p, page(30)), Err(Resolution::Denied));
        p.protect(page(30), 2 * PAGE_SIZE, RW).unwrap();
        let mut resident = [9; PAGES as usize];
        p.mincore(AT, &mut resident[..8]).unwrap();
        assert_eq!(resident[..8], [0, 1, 0, 0, 0, 0, 0, 0]);
        w.check(&[&p], &[]);
        reads(w, &p, 2..8);
        reads(w, &p, 12..20);
        reads(w, &p, 23..PAGES);
        for n in 0..4 {
            assert_eq!(w.load(1, &p, to + n * PAGE_SIZE), Ok((8 + n) as u8));
        }
        w.check(&[&p], &[]);
        // Locked: brought back. Page 1 is the page of zeros.
        park(&p, 0, 8);
        p.mlock(page(2), 6 * PAGE_SIZE, true, false).unwrap();
        assert_eq!(swapped(&p), 1);
        p.mlock(page(2), 6 * PAGE_SIZE, false, false).unwrap();
        w.check(&[&p], &[]);
        park(&p, 2, 6);
        // With what is parked.
        drop(p);
        w.check(&[], &[]);
        assert_eq!(w.mm.slots().free(), w.mm.slots().total());
    }
}

/// Without slots MADV_PAGEOUT clears the accessed bit; with a few it parks a part.
fn slots_may_run_out<F: PteFormat>() {
    for (slots, parked) in [(0, 0), (12, 12), (16, 16)] {
        let w = World::<F>::new(Options {
            slots,
            ..Options::default()
        });
        let p = written(&w, &[2]);
        park(&p, 0, PAGES);
        if slots == 0 {
            w.forget_accesses(&p);
        }
        assert_eq!(swapped(&p), parked);
        w.check(&[&p], &[]);
        reads(&w, &p, 0..PAGES);
        w.check(&[&p], &[]);
    }
}

/// CPUs that prefetch make pages look used.
fn reclaim<F: PteFormat>(w: &World<F>, pages: u64) {
    let stored: u64 = (0..8).map(|_| w.mm.reclaim(pages)).sum();
    assert_eq!(stored, pages);
}

/// The first look finds that pages were used, the second one parks them.
fn what_is_cold_is_reclaimed<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        let p = written(w, orders);
        let used = w.process();
        map(&used, AT, 8, RW);
        used.mlock(AT, 8 * PAGE_SIZE, true, false).unwrap();
        reclaim(w, PAGES);
        w.forget_accesses(&p);
        w.check(&[&p, &used], &[]);
        assert_eq!(
            (swapped(&p), swapped(&used)),
            (PAGES, 0),
            "locked pages stay"
        );
        reads(w, &p, 0..PAGES);
        w.check(&[&p, &used], &[]);
        // A child shares the tables: each has its own after it.
        let child = w.adopt(p.fork().unwrap());
        reclaim(w, PAGES);
        w.forget_accesses(&p);
        w.forget_accesses(&child);
        w.check(&[&p, &used, &child], &[]);
        reads(w, &child, 0..PAGES);
        reads(w, &p, 0..PAGES);
        w.check(&[&p, &used, &child], &[]);
    }
}

/// Who ends a space and pauses may wait for memory, so reclaim does not wait for the end.
fn a_space_ends_beside_reclaim<F: PteFormat>(w: &World<F>) {
    let (ends, p) = (w.process(), written(w, &[]));
    // More areas than it gives up in a step.
    (0..PAGES).for_each(|n| map(&ends, page(2 * n), 1, RW));
    let (other, stored) = (w.clone(), Arc::new(AtomicU64::new(0)));
    let found = stored.clone();
    w.sim.in_pauses(Some(Box::new(move || {
        let pages = (0..8).map(|_| other.mm.reclaim(PAGES)).sum();
        found.fetch_add(pages, Relaxed);
        false
    })));
    drop(ends);
    w.sim.in_pauses(None);
    assert_eq!(stored.load(Relaxed), PAGES, "of the other space");
    w.forget_accesses(&p);
    w.check(&[&p], &[]);
}

/// A folio comes back for one of its pages, and no other is used: from then on each page is stored
/// by itself, and has a slot of its own.
fn what_is_sparse_comes_by_the_page<F: PteFormat>(w: &World<F>) {
    let p = written(w, &[4]);
    park(&p, 0, PAGES);
    let stored = || w.mm.stored().original / PAGE_SIZE;
    let slots = || w.mm.slots().total() - w.mm.slots().free();
    // As where memory is short: only this page is mapped, of a unit that is brought back.
    w.mm.switches().set(Switch::SwapIn, SwapIn::Page as u32);
    reads(w, &p, 5..6);
    w.mm.switches().set(Switch::SwapIn, SwapIn::Adaptive as u32);
    w.check(&[&p], &[]);
    assert_eq!((swapped(&p), stored()), (PAGES - 1, PAGES - 16));
    // The page is found used; the rest of its folio goes.
    assert_eq!(w.mm.reclaim(15), 15);
    w.forget_accesses(&p);
    w.check(&[&p], &[]);
    assert_eq!((swapped(&p), stored()), (PAGES - 1, PAGES - 1));
    assert_eq!(slots(), PAGES - 1, "the page's own is free");
    reads(w, &p, 7..8);
    assert_eq!((swapped(&p), stored()), (PAGES - 2, PAGES - 2));
    w.check(&[&p], &[]);
    // It is no part of a folio any more, which others would have, too.
    let before = copied(w);
    (0..PAGES).for_each(|n| w.store(1, &p, page(n), n as u8).unwrap());
    assert_eq!((copied(w), slots()), (before, 0));
}

/// So is a unit of which few pages were used before it is stored again.
fn what_was_sparse_comes_by_the_page<F: PteFormat>(w: &World<F>) {
    let p = written(w, &[4]);
    let stored = || w.mm.stored().original / PAGE_SIZE;
    park(&p, 0, PAGES);
    for (used, back) in [(5..6, 16), (7..8, 1), (16..16 + 12, 16), (17..18, 16)] {
        w.mm.switches().set(Switch::SwapIn, SwapIn::Page as u32);
        reads(w, &p, used.start..used.start + 1);
        assert_eq!(stored(), PAGES - back, "{used:?}");
        reads(w, &p, used);
        w.mm.switches().set(Switch::SwapIn, SwapIn::Adaptive as u32);
        park(&p, 0, PAGES);
        w.mm.store_pages(PAGES);
        assert_eq!((swapped(&p), stored()), (PAGES, PAGES));
        w.check(&[&p], &[]);
    }
    reads(w, &p, 0..PAGES);
}

/// Single pages that fill a unit, where a folio could be: they are stored together, and come back
/// as the folio, or by the page where memory is in pieces, and go together again. Those that the
/// unit is too noisy with stay, and the others go by themselves.
fn single_pages_go_together<F: PteFormat>(w: &World<F>) {
    let p = written(w, &[]);
    let faults = || w.mm.event("pgfault").expect("a counter");
    let noise = |n: u64| {
        let mix = |x: u64| (x ^ x >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
        (0..PAGE_SIZE).map(move |at| (mix(mix(n << 12 | at)) >> 56) as u8)
    };
    let wanted: [(&[u8], _); 2] = [(&[], PAGES), (&[4], PAGES / 16 + PAGES % 16)];
    for (orders, wanted) in wanted {
        sizes(w, orders);
        park(&p, 0, PAGES);
        w.check(&[&p], &[]);
        let before = faults();
        reads(w, &p, 0..PAGES);
        assert_eq!((faults() - before, swapped(&p)), (wanted, 0));
        w.check(&[&p], &[]);
    }
    let folios = p.smaps(AT).unwrap().folios[4];
    assert_eq!(folios.whole, 2);
    // With a child's they are alone once both have parked them.
    let (q, before) = (written(w, &[]), w.mm.slots().used());
    sizes(w, &[4]);
    let child = w.adopt(q.fork().unwrap());
    park(&q, 0, PAGES);
    w.check(&[&p, &q, &child], &[]);
    park(&child, 0, PAGES);
    assert_eq!(w.mm.stored().original, ALL);
    assert_eq!(w.mm.slots().used() - before, PAGES);
    reads(w, &child, 0..PAGES);
    reads(w, &q, 0..PAGES);
    w.check(&[&p, &q, &child], &[]);
    drop((q, child));
    // Of one unit most is noise.
    let q = written(w, &[]);
    sizes(w, &[4]);
    for n in 1..15 {
        for (at, byte) in (0..).zip(noise(n)) {
            w.store(0, &q, page(n) + at, byte).unwrap();
        }
    }
    park(&q, 0, PAGES);
    w.mm.store_pages(PAGES);
    let stored = w.mm.stored().original;
    assert_eq!((swapped(&q), stored), (PAGES, (PAGES - 14) * PAGE_SIZE));
    w.check(&[&p, &q], &[]);
    for n in 1..15 {
        let found = (0..PAGE_SIZE).map(|at| w.load(1, &q, page(n) + at).unwrap());
        assert!(found.eq(noise(n)), "page {n}");
    }
    w.check(&[&p, &q], &[]);
    // What is left of them keeps nothing of what is gone.
    park(&q, 0, PAGES);
    let used = || (w.mm.counts().anon, w.mm.slots().used());
    let before = used();
    q.dont_need(AT, 8 * PAGE_SIZE).unwrap();
    q.dont_need(page(9), 7 * PAGE_SIZE).unwrap();
    assert_eq!(used(), (before.0 - 13, before.1 - 15));
    w.check(&[&p, &q], &[]);
}

/// It stays where it is, and is not tried again until it was used.
fn what_does_not_compress_stays<F: PteFormat>(w: &World<F>) {
    const NOISY: u64 = 4;
    let p = w.process();
    map(&p, AT, NOISY, RW);
    let mut seed = 1u64;
    let mut noise = || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 56) as u8
    };
    let bytes: Vec<u8> = (0..NOISY * PAGE_SIZE).map(|_| noise()).collect();
    let write = |at: usize| w.store(0, &p, AT + at as u64, bytes[at]).unwrap();
    (0..bytes.len()).for_each(write);
    park(&p, 0, NOISY);
    assert_eq!((swapped(&p), w.mm.stored().original), (NOISY, 0));
    w.check(&[&p], &[]);
    assert_eq!(w.mm.store_pages(NOISY), 0);
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(w.load(1, &p, AT + at as u64), Ok(*byte));
    }
    w.check(&[&p], &[]);
}

/// All that is swapped of a parent and its child, which may share tables, whatever the rights.
fn swap_off_brings_all_back<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        for by in [ForkBy::Batch, ForkBy::Share] {
            w.mm.switches().set(Switch::Fork, by as u32);
            let parent = written(w, orders);
            map(&parent, page(PAGES), 1024 - PAGES, RW);
            park(&parent, 0, PAGES);
            let child = w.adopt(parent.fork().unwrap());
            let both = [&*parent, &*child];
            assert_eq!((swapped(&parent), swapped(&child)), (PAGES, PAGES));
            child.protect(page(4), PAGE_SIZE, Prot::empty()).unwrap();
            let slots = w.mm.slots().total();
            assert_eq!(w.mm.swap_off(|| false), Ok(()));
            assert_eq!((swapped(&parent), swapped(&child)), (0, 0));
            assert_eq!((w.mm.slots().total(), w.mm.slots().used()), (0, 0));
            w.check(&both, &[]);
            // Nothing gets a slot any more.
            park(&parent, 0, PAGES);
            assert_eq!((swapped(&parent), w.mm.reclaim(PAGES)), (0, 0));
            child.protect(page(4), PAGE_SIZE, RW).unwrap();
            reads(w, &parent, 0..PAGES);
            reads(w, &child, 0..PAGES);
            w.check(&both, &[]);
            w.mm.swap_on(slots);
        }
    }
    w.mm.switches().set(Switch::Fork, ForkBy::Batch as u32);
}

/// It is on again, and nothing is lost: `stops` said so, or another lacks memory meanwhile.
fn swap_off_is_given_up<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        let p = written(w, orders);
        let slots = w.mm.slots();
        let total = slots.total();
        park(&p, 0, PAGES);
        let mut left = 2;
        let stops = || {
            left -= 1;
            left == 0
        };
        assert_eq!(w.mm.swap_off(stops), Err(Error::Interrupted));
        assert_eq!(slots.total(), total);
        w.check(&[&p], &[]);
        park(&p, 0, PAGES);
        let short = || {
            w.mm.reclaim(1);
            false
        };
        assert_eq!(w.mm.swap_off(short), Err(Error::NoMem));
        assert_eq!(slots.total(), total);
        w.forget_accesses(&p);
        w.check(&[&p], &[]);
        reads(w, &p, 0..PAGES);
        w.check(&[&p], &[]);
    }
}

/// Shared memory of which page `n` has byte `n`, mapped by nobody any more.
fn object<F: PteFormat>(w: &World<F>, orders: &[u8]) -> Arc<Object<Sim<F>>> {
    for order in ORDERS {
        let to = match orders.contains(&order) {
            true => ShmemSize::Always,
            false => ShmemSize::Never,
        };
        w.mm.thp().controls.set_shmem_size(Order(order), to);
    }
    let (object, p) = (Object::new(&w.mm), w.process());
    object.set_len(ALL);
    share(&p, &object);
    (0..PAGES).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
    object
}

fn share<F: PteFormat>(p: &Process<F>, object: &Arc<Object<Sim<F>>>) {
    p.map(of_object(object, 0, AT, PAGES, RW, VmaFlags::SHARED))
        .unwrap();
}

/// The pages of an object that are in slots.
fn in_slots<F: PteFormat>(object: &Object<Sim<F>>) -> u64 {
    let mut pages = 0;
    object.for_each(&mut |_, place| pages += u64::from(place.is_err()));
    pages
}
/// The same, when all of them are stored.
fn shelved<F: PteFormat>(w: &World<F>, object: &Object<Sim<F>>) -> u64 {
    let pages = in_slots(object);
    assert_eq!(w.mm.stored().original, pages * PAGE_SIZE);
    pages
}

/// What nobody maps goes, by advice or as it is cold, and comes back for who maps or reads it.
fn what_objects_have_is_stored<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        let object = object(w, orders);
        let check = |spaces: &[&Process<F>]| {
            let spaces: Vec<_> = spaces.iter().map(|p| &***p).collect();
            w.check(&spaces, &[&object]);
        };
        reclaim(w, PAGES);
        assert_eq!((shelved(w, &object), w.mm.counts().object), (PAGES, 0));
        assert_eq!(object.pages(), PAGES);
        check(&[]);
        // The end lies in a folio.
        let p = w.process();
        share(&p, &object);
        let swap = |p: &Process<F>| p.smaps(AT).unwrap().swap / PAGE_SIZE;
        assert_eq!(swap(&p), PAGES);
        reads(w, &p, 0..PAGES);
        park(&p, 0, 20);
        assert!((16..=20).contains(&shelved(w, &object)));
        assert_eq!((swap(&p), swapped(&p)), (in_slots(&object), 0));
        drop(p);
        // Another one has what it maps; both see what either writes.
        let (p, q) = (w.process(), w.process());
        share(&p, &object);
        share(&q, &object);
        reads(w, &p, 0..PAGES);
        assert_eq!((shelved(w, &object), w.mm.counts().object), (0, PAGES));
        w.store(1, &q, page(3), 77).unwrap();
        check(&[&p, &q]);
        park(&p, 0, PAGES);
        let kept = PAGES - shelved(w, &object);
        assert!((1..=16).contains(&kept), "{kept}");
        check(&[&p, &q]);
        park(&q, 0, PAGES);
        assert_eq!(shelved(w, &object), PAGES);
        assert_eq!(w.load(0, &p, page(3)), Ok(77));
        w.store(0, &p, page(3), 3).unwrap();
        reads(w, &q, 0..PAGES);
        w.forget_accesses(&p);
        w.forget_accesses(&q);
        check(&[&p, &q]);
        // Locked memory stays.
        p.mlock(AT, ALL, true, false).unwrap();
        assert_eq!((0..4).map(|_| w.mm.reclaim(PAGES)).sum::<u64>(), 0);
        w.forget_accesses(&q);
        check(&[&p, &q]);
        drop((p, q));
        reclaim(w, PAGES);
        drop(object);
        w.check(&[], &[]);
        assert_eq!((w.mm.slots().used(), w.mm.stored().original), (0, 0));
    }
}

/// Calls on an object whose pages are in slots.
fn calls_find_what_is_stored<F: PteFormat>(w: &World<F>) {
    for orders in SIZES {
        let object = object(w, orders);
        let byte = |n: u64, offset: u64| {
            let mut byte = [99];
            assert_eq!(object.read_at(n * PAGE_SIZE + offset, &mut byte), 1);
            byte[0]
        };
        let store = || {
            while in_slots(&object) < object.pages() {
                w.mm.reclaim(PAGES);
            }
            w.check(&[], &[&object]);
        };
        store();
        object.write_at(5 * PAGE_SIZE + 1, &[55]).unwrap();
        assert_eq!((byte(5, 0), byte(5, 1), byte(6, 0)), (5, 55, 6));
        w.check(&[], &[&object]);
        // Read lately: only the second look finds it cold.
        assert!(w.mm.reclaim_cold(1) >= 1);
        store();
        // In the middle of a page and of a folio.
        object.punch(9 * PAGE_SIZE, 2 * PAGE_SIZE + 1);
        w.check(&[], &[&object]);
        assert_eq!(
            (byte(8, 0), byte(9, 0), byte(11, 0), byte(12, 0)),
            (8, 0, 0, 12)
        );
        assert_eq!(object.pages(), PAGES - 2);
        assert_eq!(object.next_hole(0), Some(9 * PAGE_SIZE));
        store();
        object.reserve(9 * PAGE_SIZE, 2 * PAGE_SIZE).unwrap();
        store();
        object.truncate(30 * PAGE_SIZE + 1);
        w.check(&[], &[&object]);
        assert_eq!(object.pages(), 31);
        object.truncate(ALL);
        assert_eq!((byte(30, 0), byte(30, 1), byte(31, 0)), (30, 0, 0));
        w.check(&[], &[&object]);
        let slots = w.mm.slots().total();
        assert_eq!(w.mm.swap_off(|| false), Ok(()));
        assert_eq!((in_slots(&object), w.mm.slots().used()), (0, 0));
        w.check(&[], &[&object]);
        w.mm.swap_on(slots);
    }
}

/// As many slots may be used as it was turned on with.
fn swap_has_a_size<F: PteFormat>(w: &World<F>) {
    let total = w.mm.slots().total();
    assert_eq!(w.mm.swap_off(|| false), Ok(()));
    w.mm.swap_on(11);
    assert_eq!(w.mm.slots().free(), 11);
    let p = written(w, &[2]);
    park(&p, 0, PAGES);
    assert_eq!((swapped(&p), w.mm.slots().free()), (8, 3));
    w.check(&[&p], &[]);
    assert_eq!(w.mm.swap_off(|| false), Ok(()));
    w.mm.swap_on(u64::MAX);
    assert_eq!(w.mm.slots().total(), total, "no more than there are");
    reads(w, &p, 0..PAGES);
}

on_both! {
    what_is_parked_comes_back
    swap_off_brings_all_back
    swap_off_is_given_up
    swap_has_a_size
    what_objects_have_is_stored
    calls_find_what_is_stored
    what_other_areas_have_parked_stays
    a_child_and_its_parent_park_the_same_folio
    a_space_ends_beside_reclaim
    verbs_take_swap_entries_for_what_they_are
    what_does_not_compress_stays
    what_is_cold_is_reclaimed
    what_is_sparse_comes_by_the_page
    what_was_sparse_comes_by_the_page
    single_pages_go_together
}

/// Of a folio that is used those pages go that are not, where each has an accessed bit.
fn what_is_used_stays_without_its_folio<F: PteFormat>() {
    let w = World::<F>::new(Options {
        prefetch: 0,
        ..Options::default()
    });
    let p = written(&w, &[2]);
    p.advise(AT, ALL, Advice::Cold).unwrap();
    w.sim.flush_asid(p.asid());
    // Three of four are worth a folio.
    let used = [5, 8, 9, 12, 13, 14];
    let use_them = || used.iter().for_each(|n| reads(&w, &p, *n..*n + 1));
    use_them();
    assert_eq!(w.mm.reclaim_cold(PAGES - 7), PAGES - 7);
    w.forget_accesses(&p);
    w.check(&[&p], &[]);
    assert_eq!((swapped(&p), p.usage().rss.total()), (PAGES - 7, 7));
    use_them();
    reads(&w, &p, 0..PAGES);
    w.check(&[&p], &[]);
}

/// A space with few pages is not looked at more often than others: what it uses stays while there
/// is something colder.
fn all_spaces_age_alike<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 4096,
        slots: 4096,
        prefetch: 0,
        ..Options::default()
    });
    // Of several tables: a step parks what is cold in one.
    let (small, large, pages) = (written(&w, &[]), w.process(), 1536);
    map(&large, AT, pages, RW);
    (0..pages).for_each(|n| w.store(0, &large, page(n), 1).unwrap());
    large.advise(AT, pages * PAGE_SIZE, Advice::Cold).unwrap();
    for _ in 0..5 {
        assert_eq!(w.mm.reclaim_cold(256), 256);
        w.forget_accesses(&small);
        w.forget_accesses(&large);
        w.check(&[&small, &large], &[]);
        assert_eq!(swapped(&small), 0);
    }
}

/// What is stored takes no more of memory that is in pieces.
fn spans_need_no_frames_side_by_side<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 1024,
        prefetch: 0,
        ..Options::default()
    });
    let (object, p, hog) = (Object::new(&w.mm), w.process(), w.process());
    object.set_len(ALL);
    // Half of each page does not compress.
    let bytes = |n: u64| {
        let noise =
            (0..PAGE_SIZE / 2).map(move |i| (((n * PAGE_SIZE + i) * 0x9e37_79b9) >> 13) as u8);
        noise.chain([0; PAGE_SIZE as usize / 2]).collect::<Vec<_>>()
    };
    (0..PAGES).for_each(|n| object.write_at(n * PAGE_SIZE, &bytes(n)).unwrap());
    share(&p, &object);
    (0..PAGES).for_each(|n| assert!(w.load(0, &p, page(n)).is_ok()));
    map(&hog, AT, 1024, RW);
    let full = (0..1024).find(|n| w.store(0, &hog, page(*n), 1).is_err());
    (0..full.unwrap())
        .step_by(2)
        .for_each(|n| hog.unmap(page(n), PAGE_SIZE).unwrap());
    park(&p, 0, PAGES);
    assert_eq!(shelved(&w, &object), PAGES);
    assert!(w.mm.stored().used * 3 <= ALL * 2, "{:?}", w.mm.stored());
    w.check(&[&p, &hog], &[&object]);
    let mut page = vec![0; PAGE_SIZE as usize];
    for n in 0..PAGES {
        object.read_at(n * PAGE_SIZE, &mut page);
        assert_eq!(page, bytes(n));
    }
    w.check(&[&p, &hog], &[&object]);
}

/// How often it pauses in what `f` does.
fn pauses_in<F: PteFormat>(w: &World<F>, f: impl FnOnce()) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    w.sim.in_pauses(Some(Box::new(move || {
        counted.fetch_add(1, Relaxed);
        false
    })));
    f();
    w.sim.in_pauses(None);
    count.load(Relaxed)
}

/// Of an object that is in slots already each look goes through a part, however large it is.
fn objects_are_looked_through_in_parts<F: PteFormat>() {
    let pauses = |pages: u64| {
        let w = World::<F>::new(Options {
            frames: 16384,
            slots: 16384,
            prefetch: 0,
            ..Options::default()
        });
        let object = Object::new(&w.mm);
        object.set_len(pages * PAGE_SIZE);
        (0..pages).for_each(|n| object.write_at(n * PAGE_SIZE, &[1]).unwrap());
        assert_eq!(w.mm.reclaim(pages), pages);
        let p = written(&w, &[]);
        let pauses = pauses_in(&w, || assert_eq!(w.mm.reclaim_cold(8), 8));
        w.check(&[&p], &[&object]);
        pauses
    };
    assert_eq!(pauses(4096), pauses(8192));
}

/// What was brought back is not stored again before who has asked for it has used it: when memory
/// is full it may be all that could be.
fn what_comes_back_stays_until_it_is_used<F: PteFormat>() {
    for orders in [&[][..], &[4]] {
        let w = World::<F>::new(Options::default());
        let p = written(&w, orders);
        park(&p, 0, PAGES);
        assert_eq!(w.mm.stored().original, PAGES * PAGE_SIZE);
        let why = p.fault(page(3), Access::Read);
        assert!(matches!(why, Resolution::Stored(_)), "{why:?}");
        p.wait_for(why).unwrap();
        assert_eq!(
            (w.mm.reclaim(PAGES), p.fault(page(3), Access::Read)),
            (0, Resolution::Done)
        );
        w.check(&[&p], &[]);
    }
}

/// A look at all spaces takes as many steps as there are spaces, not as pairs of them: of four
/// times as many, at most four times as many.
fn spaces_are_looked_at_once<F: PteFormat>() {
    let pauses = |spaces: u64| {
        let w = World::<F>::new(Options::default());
        let spaces = Vec::from_iter((0..spaces).map(|_| w.process()));
        let pauses = pauses_in(&w, || assert_eq!(w.mm.reclaim_cold(1), 0));
        w.check(&Vec::from_iter(spaces.iter().map(|space| &**space)), &[]);
        pauses
    };
    let (few, many) = (pauses(8), pauses(32));
    assert!(few > 0 && many <= 4 * few, "{few} and {many}");
}

/// A folio of several units comes back whole, or, when there is no memory for that, in parts: in
/// units, and where memory is in pieces in pages.
fn what_cannot_be_whole_comes_in_parts<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 2048,
        ..Options::default()
    });
    sizes(&w, &[9]);
    let (p, pages) = (w.process(), 512);
    let at = |n: u64| AT + n * PAGE_SIZE;
    map(&p, AT, pages, RW);
    let fill = || (0..pages).for_each(|n| w.store(0, &p, at(n), n as u8).unwrap());
    let check = |n: u64| assert_eq!(w.load(1, &p, at(n)), Ok(n as u8), "page {n}");
    fill();
    assert_eq!(p.smaps(AT).unwrap().anon_huge, pages * PAGE_SIZE);
    park(&p, 0, pages);
    w.check(&[&p], &[]);
    assert_eq!(
        (swapped(&p), w.mm.stored().original),
        (pages, pages * PAGE_SIZE)
    );
    check(5);
    assert_eq!(swapped(&p), 0, "whole");
    (0..pages).for_each(check);
    w.check(&[&p], &[]);
    park(&p, 0, pages);
    // Another process takes all memory, and gives back every second page.
    sizes(&w, &[]);
    let other = w.process();
    map(&other, AT, 2048, RW);
    let taken = (0..2048).take_while(|n| w.store(0, &other, at(*n), 1).is_ok());
    let taken = taken.count() as u64;
    other.unmap(AT, 64 * PAGE_SIZE).unwrap();
    assert_eq!(w.mm.swap_off(|| false), Err(Error::NoMem));
    assert!(w.mm.slots().total() != 0 && swapped(&p) != 0);
    w.check(&[&p, &other], &[]);
    park(&p, 0, pages);
    check(0);
    assert_eq!(
        (swapped(&p), w.mm.stored().original),
        (pages - 1, (pages - 16) * PAGE_SIZE),
        "a page of a unit"
    );
    w.check(&[&p, &other], &[]);
    (0..64).for_each(|n| {
        let _ = w.store(0, &other, at(taken + n), 1);
    });
    (64..taken / 2).for_each(|n| other.unmap(at(2 * n), PAGE_SIZE).unwrap());
    (16..pages).for_each(check);
    w.check(&[&p, &other], &[]);
    park(&p, 0, pages);
    w.check(&[&p, &other], &[]);
    drop(other);
    (0..pages).for_each(check);
    w.check(&[&p], &[]);
    drop(p);
    w.check(&[], &[]);
    assert_eq!(w.mm.slots().free(), w.mm.slots().total());
    w.mm.forget_peak();
    assert_eq!(w.mm.stored(), Default::default());
}

/// Without memory what is stored of an object can be read, and cut; a fault finds that there is
/// none, or takes single pages.
fn an_object_is_read_without_memory<F: PteFormat>() {
    for free in [0, 40] {
        let w = World::<F>::new(Options {
            frames: 2048,
            ..Options::default()
        });
        let object = object(&w, &[4]);
        reclaim(&w, PAGES);
        let p = w.process();
        share(&p, &object);
        reads(&w, &p, 0..1);
        let before = in_slots(&object);
        sizes(&w, &[]);
        let other = w.process();
        map(&other, AT, 2048, RW);
        let taken = (0..2048).take_while(|n| w.store(0, &other, page(*n), 1).is_ok());
        let last = taken.last().unwrap();
        (0..free).for_each(|n| other.unmap(page(last - 2 * n), PAGE_SIZE).unwrap());
        let mut byte = [0];
        assert_eq!(object.read_at(20 * PAGE_SIZE, &mut byte), 1);
        // By the page: the others of the unit are in memory, and in their slots.
        let left = before - free.min(1);
        assert_eq!((byte, in_slots(&object)), ([20], left));
        let no_memory = (free == 0).then_some(Err(Resolution::NoMem));
        assert_eq!(w.load(0, &p, page(20)), no_memory.unwrap_or(Ok(20)));
        object.punch(36 * PAGE_SIZE, 1);
        assert_eq!(in_slots(&object), left - 1);
        w.check(&[&p, &other], &[&object]);
        drop(other);
        assert_eq!(w.load(0, &p, page(36)), Ok(0));
        w.store(0, &p, page(36), 36).unwrap();
        reads(&w, &p, 0..PAGES);
        w.check(&[&p], &[&object]);
    }
}

/// While memory is short a fault wants a folio to be waited for, and takes single pages only from
/// those who have waited, or cannot. Nobody waits for larger ones, nor where it is not short.
fn folios_are_worth_waiting<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 4096,
        slots: 8192,
        ..Options::default()
    });
    let (p, other) = (written(&w, &[4]), w.process());
    park(&p, 0, PAGES);
    sizes(&w, &[]);
    map(&other, AT, 4096, RW);
    let taken = (0..4096).take_while(|n| w.store(0, &other, page(*n), 1).is_ok());
    let taken = taken.count() as u64;
    other.unmap(AT, 8 * PAGE_SIZE).unwrap();
    let q = w.process();
    map(&q, AT, 1024, RW);
    let sizes_wanted: [(&[u8], _); 3] = [(&[9], None), (&[4], Some(4)), (&[2, 9], Some(2))];
    for (orders, wanted) in sizes_wanted {
        sizes(&w, orders);
        let wanted = wanted.map_or(Resolution::Done, |order| Resolution::Short(Order(order)));
        let resolution = q.fault(AT, Access::Write);
        assert_eq!(resolution, wanted, "{orders:?}");
        q.dont_need(AT, PAGE_SIZE).unwrap();
    }
    let Resolution::Stored(slot) = p.fault(AT, Access::Read) else {
        panic!("it is stored");
    };
    let short = Err(Resolution::Short(Order(4)));
    let why = Resolution::Stored(slot);
    assert_eq!(p.wait_patiently(why, true), short);
    assert_eq!(w.mm.stored().original, ALL);
    assert_eq!(q.fault_anyhow(AT, Access::Write), Resolution::Done);
    assert_eq!(q.usage().rss.total(), 1);
    // The reserve lends what the store gives back.
    assert_eq!(p.wait_patiently(why, false), Ok(()));
    assert_eq!(w.mm.stored().original, ALL - 16 * PAGE_SIZE);
    w.check(&[&p, &q, &other], &[]);
    // Not short any more, but in pieces.
    (4..taken / 2).for_each(|n| other.unmap(page(2 * n), PAGE_SIZE).unwrap());
    assert!(!w.mm.allocator().is_tight());
    sizes(&w, &[4]);
    assert_eq!(q.fault(page(16), Access::Write), Resolution::Done);
    reads(&w, &p, 0..PAGES);
    w.check(&[&p, &q, &other], &[]);
}

/// A process writes to more pages than there are frames.
fn more_than_memory<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 4096,
        slots: 8192,
        ..Options::default()
    });
    for orders in SIZES {
        sizes(&w, orders);
        let (p, pages) = (w.process(), 6000);
        map(&p, AT, pages, RW);
        let with_room = |access: &dyn Fn() -> Result<(), Resolution>| {
            while access() == Err(Resolution::NoMem) {
                assert_ne!(w.mm.reclaim(16), 0, "no memory, and none comes back");
            }
        };
        for n in 0..pages {
            with_room(&|| w.store(0, &p, page(n), n as u8));
        }
        w.forget_accesses(&p);
        w.check(&[&p], &[]);
        for n in (0..pages).rev() {
            with_room(&|| w.load(1, &p, page(n)).map(|byte| assert_eq!(byte, n as u8)));
        }
        w.forget_accesses(&p);
        w.check(&[&p], &[]);
    }
}

/// On machines of their own.
mod own {
    use super::common::on_both_formats;
    use super::*;
    on_both_formats! {
        all_spaces_age_alike
        folios_are_worth_waiting
        more_than_memory
        objects_are_looked_through_in_parts
        an_object_is_read_without_memory
        slots_may_run_out
        spaces_are_looked_at_once
        spans_need_no_frames_side_by_side
        what_cannot_be_whole_comes_in_parts
        what_comes_back_stays_until_it_is_used
        what_is_used_stays_without_its_folio
    }
}
