//! What a user sees in memory: faults, copy-on-write, protection, files.

mod common;

use arch_sim::World;
use common::*;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::object::Object;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{Advice, Error, MapRequest, Place};

on_both! {
    reads_share_the_zero_page
    writes_stay
    fork_copies_on_write
    the_last_owner_reuses
    protection_is_obeyed
    protection_leaves_copy_on_write
    a_private_file_mapping_keeps_the_file
    a_shared_mapping_reaches_the_object
    past_the_end_is_a_bus_error
    forced_writes_stay_private
    wipe_and_dont_fork
    dont_need_reads_zeros
}

fn reads_share_the_zero_page<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 4, RW);
    let before = w.mm.counts().anon;
    assert_eq!(w.load(0, &s, page(1)), Ok(0));
    assert!(s.page_info(page(1)).zero_page);
    assert_eq!(w.mm.counts().anon, before);
    w.store(0, &s, page(1), 7).unwrap();
    assert_eq!(
        (w.load(1, &s, page(1)), w.load(0, &s, page(1) + 1)),
        (Ok(7), Ok(0))
    );
    assert_eq!(w.mm.counts().anon, before + 1);
    w.check(&[&s], &[]);
}

fn writes_stay<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 100, RW);
    for n in 0..100 {
        w.store((n % 2) as usize, &s, page(n) + n, n as u8).unwrap();
    }
    for n in 0..100 {
        assert_eq!(w.load((n % 2) as usize, &s, page(n) + n), Ok(n as u8));
    }
    w.check(&[&s], &[]);
    s.unmap(page(10), 80 * PAGE_SIZE).unwrap();
    assert_eq!(w.load(0, &s, page(10)), Err(Resolution::NotMapped));
    assert_eq!(w.load(0, &s, page(9) + 9), Ok(9));
    w.check(&[&s], &[]);
}

fn fork_copies_on_write<F: PteFormat>(w: &World<F>) {
    let parent = w.process();
    map(&parent, AT, 8, RW);
    (0..8).for_each(|n| w.store(0, &parent, page(n), n as u8).unwrap());
    let child = w.adopt(parent.fork().unwrap());
    w.check(&[&parent, &child], &[]);
    assert_eq!(w.mm.counts().anon, 8);
    w.store(0, &parent, page(1), 100).unwrap();
    w.store(1, &child, page(2), 200).unwrap();
    assert_eq!(
        (w.load(0, &parent, page(2)), w.load(1, &child, page(1))),
        (Ok(2), Ok(1))
    );
    assert_eq!(
        (w.load(1, &parent, page(1)), w.load(0, &child, page(2))),
        (Ok(100), Ok(200))
    );
    assert_eq!(w.mm.counts().anon, 10);
    w.check(&[&parent, &child], &[]);
    drop(child);
    w.check(&[&parent], &[]);
}

fn the_last_owner_reuses<F: PteFormat>(w: &World<F>) {
    let parent = w.process();
    map(&parent, AT, 2, RW);
    w.store(0, &parent, page(0), 1).unwrap();
    drop(w.adopt(parent.fork().unwrap()));
    let pfn = parent.page_info(page(0)).pfn;
    let (copied, reused) = (w.mm.event("cow_copied"), w.mm.event("cow_reused").unwrap());
    w.store(0, &parent, page(0), 2).unwrap();
    assert_eq!(parent.page_info(page(0)).pfn, pfn);
    assert_eq!(
        (w.mm.event("cow_copied"), w.mm.event("cow_reused")),
        (copied, Some(reused + 1))
    );
}

fn protection_is_obeyed<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 3, RW);
    (0..3).for_each(|n| w.store(0, &s, page(n), 5).unwrap());
    w.load(1, &s, page(1)).unwrap();
    s.protect(page(1), PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(w.store(1, &s, page(1), 6), Err(Resolution::Denied));
    assert_eq!(w.fetch(0, &s, page(1)), Err(Resolution::Denied));
    s.protect(page(1), PAGE_SIZE, Prot::empty()).unwrap();
    assert_eq!(w.load(0, &s, page(1)), Err(Resolution::Denied));
    w.check(&[&s], &[]);
    s.protect(page(1), PAGE_SIZE, RW | Prot::EXEC).unwrap();
    assert_eq!(w.fetch(0, &s, page(1)), Ok(5));
    w.store(0, &s, page(1), 6).unwrap();
    w.check(&[&s], &[]);
}

fn protection_leaves_copy_on_write<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    map(&p, AT, 2, RW);
    (0..2).for_each(|n| w.store(0, &p, page(n), 1).unwrap());
    let child = w.adopt(p.fork().unwrap());
    w.store(1, &child, page(1), 2).unwrap();
    p.protect(AT, 2 * PAGE_SIZE, Prot::READ).unwrap();
    p.protect(AT, 2 * PAGE_SIZE, RW).unwrap();
    // The shared page stays read-only, the one that has a single owner is writable at once.
    assert!(!p.page_info(page(0)).writable && p.page_info(page(1)).writable);
    w.store(0, &p, page(0), 3).unwrap();
    assert_eq!(w.load(1, &child, page(0)), Ok(1));
    w.check(&[&p, &child], &[]);
}

fn a_private_file_mapping_keeps_the_file<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.write_at(0, &[1; 3 * PAGE_SIZE as usize]).unwrap();
    let s = w.process();
    s.map(of_object(&object, 1, AT, 2, RW, VmaFlags::empty()))
        .unwrap();
    assert_eq!(w.load(0, &s, page(0)), Ok(1));
    w.store(0, &s, page(0), 9).unwrap();
    w.store(1, &s, page(1), 8).unwrap();
    assert_eq!(
        (w.load(1, &s, page(0)), w.load(0, &s, page(0) + 1)),
        (Ok(9), Ok(1))
    );
    let mut byte = [0];
    object.read_at(PAGE_SIZE, &mut byte);
    assert_eq!(byte, [1]);
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(
        (w.load(1, &child, page(0)), w.load(1, &child, page(1))),
        (Ok(9), Ok(8))
    );
    w.check(&[&s, &child], &[]);
    drop(child);
}

fn a_shared_mapping_reaches_the_object<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(2 * PAGE_SIZE);
    let s = w.process();
    let request = || {
        let backing = Backing::Object {
            object: object.clone().into(),
            offset: 0,
            file: None,
        };
        MapRequest {
            backing,
            flags: VmaFlags::SHARED,
            ..anon(Place::Fixed(AT), 2, RW)
        }
    };
    s.map(request()).unwrap();
    assert_eq!(w.load(0, &s, page(0)), Ok(0));
    w.store(0, &s, page(0), 3).unwrap();
    let child = w.adopt(s.fork().unwrap());
    w.store(1, &child, page(1), 4).unwrap();
    assert_eq!(
        (w.load(1, &child, page(0)), w.load(0, &s, page(1))),
        (Ok(3), Ok(4))
    );
    let mut bytes = [0; 2 * PAGE_SIZE as usize];
    assert_eq!(object.read_at(0, &mut bytes), bytes.len());
    assert_eq!((bytes[0], bytes[PAGE_SIZE as usize]), (3, 4));
    w.check(&[&s, &child], &[&object]);
    s.advise(page(0), PAGE_SIZE, Advice::Remove).unwrap();
    assert_eq!(
        (w.load(0, &s, page(0)), w.load(1, &child, page(0))),
        (Ok(0), Ok(0))
    );
    w.check(&[&s, &child], &[&object]);
    drop(child);
}

fn past_the_end_is_a_bus_error<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.write_at(0, &[1; 100]).unwrap();
    let s = w.process();
    s.map(of_object(&object, 0, AT, 3, RW, VmaFlags::empty()))
        .unwrap();
    assert_eq!(w.load(0, &s, page(0) + 200), Ok(0));
    assert_eq!(w.load(0, &s, page(1)), Err(Resolution::Bus));
    object.set_len(2 * PAGE_SIZE);
    w.store(0, &s, page(1), 1).unwrap();
    object.truncate(0);
    assert_eq!(
        (w.load(0, &s, page(0)), w.store(0, &s, page(1), 1)),
        (Err(Resolution::Bus), Err(Resolution::Bus))
    );
    w.check(&[&s], &[&object]);
}

fn forced_writes_stay_private<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.write_at(0, &[1; 100]).unwrap();
    let s = w.process();
    s.map(of_object(&object, 0, AT, 1, Prot::READ, VmaFlags::empty()))
        .unwrap();
    w.load(0, &s, AT).unwrap();
    assert_eq!(s.write(AT, &[2], false), 0);
    assert_eq!(s.write(AT, &[2], true), 1);
    assert_eq!(
        (w.load(0, &s, AT), w.store(0, &s, AT, 3)),
        (Ok(2), Err(Resolution::Denied))
    );
    let mut byte = [0];
    object.read_at(0, &mut byte);
    assert_eq!(byte, [1]);
    w.check(&[&s], &[&object]);
}

fn wipe_and_dont_fork<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 3, RW);
    (0..3).for_each(|n| w.store(0, &s, page(n), 1).unwrap());
    s.advise(page(0), PAGE_SIZE, Advice::WipeOnFork).unwrap();
    s.advise(page(1), PAGE_SIZE, Advice::DontFork).unwrap();
    let child = w.adopt(s.fork().unwrap());
    let seen = [0, 1, 2].map(|n| w.load(1, &child, page(n)));
    assert_eq!(seen, [Ok(0), Err(Resolution::NotMapped), Ok(1)]);
    w.check(&[&s, &child], &[]);
    drop(child);
}

fn dont_need_reads_zeros<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 3, RW);
    (0..3).for_each(|n| w.store(0, &s, page(n), 1).unwrap());
    s.advise(page(1), PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(
        [0, 1, 2].map(|n| w.load(1, &s, page(n))),
        [Ok(1), Ok(0), Ok(1)]
    );
    assert_eq!(
        s.advise(page(2), 2 * PAGE_SIZE, Advice::DontNeed),
        Err(Error::NoMem)
    );
    assert_eq!(w.load(1, &s, page(2)), Ok(0));
    s.mlock(page(0), PAGE_SIZE, true, false).unwrap();
    assert_eq!(
        s.advise(page(0), PAGE_SIZE, Advice::DontNeed),
        Err(Error::Inval)
    );
    assert_eq!(
        s.advise(page(0), 2 * PAGE_SIZE, Advice::PopulateWrite),
        Ok(())
    );
    w.check(&[&s], &[]);
}
