//! Soft-dirty: which pages were written since the bits were cleared (soft-dirty.rst).

mod common;

use arch_sim::World;
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::object::Object;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Place, RemapFlags};

on_both! {
    what_is_new_counts_as_written
    only_writes_count
    by_the_page_in_folios
    a_huge_leaf_is_one
    reading_is_not_writing
    shared_memory
    protection_forgets_nothing
    a_child_starts_with_its_parents
    neighbours_that_could_be_one
    copies_are_written
    what_moves_counts_as_written
    what_grows_counts_as_written
    the_kernels_writes_count
}

/// Which of the first `n` pages count as written.
fn written<F: PteFormat>(s: &Space<F>, n: u64) -> Vec<u64> {
    (0..n)
        .filter(|n| s.page_info(page(*n)).soft_dirty)
        .collect()
}

fn fill<F: PteFormat>(w: &World<F>, s: &Space<F>, n: u64) {
    (0..n).for_each(|n| w.store(0, s, page(n), n as u8).unwrap());
}

fn what_is_new_counts_as_written<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 4, RW);
    w.store(0, &s, page(1), 1).unwrap();
    assert_eq!(written(&s, 4), [0, 1, 2, 3]);
    assert!(!s.page_info(page(4)).soft_dirty);
    s.clear_soft_dirty().unwrap();
    assert_eq!(written(&s, 4), []);
    // Another mapping where one was.
    s.unmap(page(2), PAGE_SIZE).unwrap();
    map(&s, page(2), 1, Prot::READ);
    assert_eq!(written(&s, 4), [2]);
    w.check(&[&s], &[]);
}

fn only_writes_count<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 8, RW);
    fill(w, &s, 6);
    s.clear_soft_dirty().unwrap();
    assert_eq!(w.load(0, &s, page(2)), Ok(2));
    w.store(1, &s, page(3), 9).unwrap();
    // Where nothing was yet.
    w.store(0, &s, page(7), 9).unwrap();
    assert_eq!(written(&s, 8), [3, 7]);
    w.check(&[&s], &[]);
    w.store(0, &s, page(3), 10).unwrap();
    s.clear_soft_dirty().unwrap();
    assert_eq!(written(&s, 8), []);
    // No copies were needed for all that.
    w.store(0, &s, page(3), 11).unwrap();
    assert_eq!((written(&s, 8), w.load(1, &s, page(3))), (vec![3], Ok(11)));
    assert_eq!(w.mm.event("cow_copied"), Some(0));
    w.check(&[&s], &[]);
}

fn by_the_page_in_folios<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    let s = w.process();
    map(&s, AT, 64, RW);
    fill(w, &s, 64);
    s.clear_soft_dirty().unwrap();
    for n in [5, 16, 31] {
        w.store(0, &s, page(n), 1).unwrap();
    }
    assert_eq!(written(&s, 64), [5, 16, 31]);
    w.check(&[&s], &[]);
    s.clear_soft_dirty().unwrap();
    fill(w, &s, 16);
    assert_eq!(written(&s, 64), (0..16).collect::<Vec<_>>());
    w.check(&[&s], &[]);
}

fn a_huge_leaf_is_one<F: PteFormat>(w: &World<F>) {
    sizes(w, &[9]);
    let s = w.process();
    map(&s, AT, 512, RW);
    w.store(0, &s, page(0), 1).unwrap();
    s.clear_soft_dirty().unwrap();
    assert_eq!(written(&s, 512), []);
    // Of two halves only the one that is written.
    s.protect(page(256), 256 * PAGE_SIZE, Prot::READ).unwrap();
    s.protect(page(256), 256 * PAGE_SIZE, RW).unwrap();
    assert_eq!(written(&s, 512), []);
    w.store(0, &s, page(300), 1).unwrap();
    assert_eq!(written(&s, 512), [300]);
    w.check(&[&s], &[]);
    drop(s);
    let t = w.process();
    map(&t, AT, 512, RW);
    w.store(0, &t, page(0), 1).unwrap();
    t.clear_soft_dirty().unwrap();
    w.store(0, &t, page(7), 1).unwrap();
    assert_eq!(written(&t, 512).len(), 512);
    w.check(&[&t], &[]);
}

fn reading_is_not_writing<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 512, RW);
        s.clear_soft_dirty().unwrap();
        assert_eq!(w.load(0, &s, page(5)), Ok(0));
        assert_eq!(written(&s, 512), []);
        w.check(&[&s], &[]);
        w.store(0, &s, page(5), 1).unwrap();
        assert!(written(&s, 512).contains(&5));
        w.check(&[&s], &[]);
    }
}

fn shared_memory<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(40 * PAGE_SIZE);
    let (s, t) = (w.process(), w.process());
    for space in [&s, &t] {
        let request = of_object(&object, 0, AT, 40, RW, VmaFlags::SHARED);
        space.map(request).unwrap();
        w.store(0, space, page(1), 1).unwrap();
    }
    s.clear_soft_dirty().unwrap();
    // Reads map what is around.
    assert_eq!(w.load(0, &s, page(2)), Ok(0));
    w.store(0, &t, page(1), 2).unwrap();
    assert_eq!((written(&s, 40), w.load(0, &s, page(1))), (vec![], Ok(2)));
    w.store(0, &s, page(1), 3).unwrap();
    w.store(0, &s, page(2), 3).unwrap();
    assert_eq!(written(&s, 40), [1, 2]);
    assert_eq!(w.load(0, &t, page(2)), Ok(3));
    w.check(&[&s, &t], &[]);
}

fn protection_forgets_nothing<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 32, RW);
        fill(w, &s, 32);
        s.clear_soft_dirty().unwrap();
        w.store(0, &s, page(1), 1).unwrap();
        for prot in [Prot::READ, Prot::empty(), RW] {
            s.protect(AT, 32 * PAGE_SIZE, prot).unwrap();
            assert_eq!(written(&s, 32), [1]);
            w.check(&[&s], &[]);
        }
        w.store(0, &s, page(20), 1).unwrap();
        assert_eq!(written(&s, 32), [1, 20]);
        w.check(&[&s], &[]);
    }
}

fn a_child_starts_with_its_parents<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4]] {
        sizes(w, orders);
        let parent = w.process();
        map(&parent, AT, 32, RW);
        fill(w, &parent, 32);
        parent.clear_soft_dirty().unwrap();
        w.store(0, &parent, page(3), 1).unwrap();
        let child = w.adopt(parent.fork().unwrap());
        assert_eq!(written(&child, 32), [3]);
        w.store(1, &child, page(4), 1).unwrap();
        w.check(&[&parent, &child], &[]);
        assert_eq!(
            (written(&parent, 32), written(&child, 32)[..2].to_vec()),
            (vec![3], vec![3, 4])
        );
        drop(child);
        w.store(0, &parent, page(5), 1).unwrap();
        assert_eq!(written(&parent, 32), [3, 5]);
        w.check(&[&parent], &[]);
    }
}

/// What copy-on-write brings along besides the page that was written is not written.
fn copies_are_written<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    let parent = w.process();
    map(&parent, AT, 32, RW);
    fill(w, &parent, 32);
    let child = w.adopt(parent.fork().unwrap());
    child.clear_soft_dirty().unwrap();
    w.store(1, &child, page(9), 1).unwrap();
    assert_eq!(written(&child, 32), [9]);
    w.store(1, &child, page(10), 1).unwrap();
    assert_eq!(written(&child, 32), [9, 10]);
    assert_eq!(
        (w.load(0, &parent, page(9)), w.load(1, &child, page(11))),
        (Ok(9), Ok(11))
    );
    w.check(&[&parent, &child], &[]);
}

fn what_moves_counts_as_written<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 512, RW);
        w.store(0, &s, page(0), 1).unwrap();
        s.clear_soft_dirty().unwrap();
        let to = VirtAddr(AT.0 + (4 << 20));
        let len = 256 * PAGE_SIZE;
        s.remap(AT, len, len, FIXED, to, &mut Default::default())
            .unwrap();
        assert!((0..256).all(|n| s.page_info(to + n * PAGE_SIZE).soft_dirty));
        assert_eq!(written(&s, 512), []);
        w.store(0, &s, to, 2).unwrap();
        w.check(&[&s], &[]);
        s.clear_soft_dirty().unwrap();
        assert!(!s.page_info(to).soft_dirty);
    }
}

fn what_grows_counts_as_written<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 4, RW);
    fill(w, &s, 4);
    s.clear_soft_dirty().unwrap();
    s.remap(
        AT,
        4 * PAGE_SIZE,
        6 * PAGE_SIZE,
        RemapFlags::empty(),
        VirtAddr(0),
        &mut Default::default(),
    )
    .unwrap();
    assert!(written(&s, 6).ends_with(&[4, 5]));
    s.clear_soft_dirty().unwrap();
    // Advice is no write, and what comes back is none before it is.
    s.advise(AT, PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(written(&s, 6), []);
    s.map(anon(Place::Fixed(page(6)), 1, RW)).unwrap();
    assert!(written(&s, 7).contains(&6));
    w.check(&[&s], &[]);
}

fn the_kernels_writes_count<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 3, RW);
    fill(w, &s, 3);
    s.clear_soft_dirty().unwrap();
    let mut byte = [0];
    assert_eq!(
        (
            s.read(page(0), &mut byte, false),
            s.write(page(1), &[1], false)
        ),
        (1, 1)
    );
    assert_eq!(written(&s, 3), [1]);
    s.protect(page(2), PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(s.write(page(2), &[1], true), 1);
    assert_eq!(written(&s, 3), [1, 2]);
    w.check(&[&s], &[]);
}

/// A fork leaves areas side by side that only a lock kept apart.
fn neighbours_that_could_be_one<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 8, RW);
    s.mlock(page(3), PAGE_SIZE, true, true).unwrap();
    let child = w.adopt(s.fork().unwrap());
    child.clear_soft_dirty().unwrap();
    assert_eq!(written(&child, 8), []);
    w.store(0, &child, page(4), 1).unwrap();
    assert_eq!(written(&child, 8), [4]);
    w.check(&[&s, &child], &[]);
}
