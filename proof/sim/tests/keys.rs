//! Protection keys (pkeys(7)): an attribute of areas, and of the entries of every level; and what
//! the register of a CPU makes of them. Only x86_64's format has keys.

mod common;

use arch_sim::{Options, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::Key;
use mm::fault::{Access, Resolution};
use mm::object::Object;
use mm::thp::CollapseLimits;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Collapse, Error, Place};

type X86 = arch_x86_64::pte::Format;
type Arm = arch_aarch64::pte::Format;

const HUGE: u64 = 512;

fn world() -> World<X86> {
    World::new(Options {
        frames: 8192,
        ..Options::default()
    })
}

fn protect(s: &Space<X86>, first: u64, pages: u64, prot: Prot, key: Key) {
    s.protect_with_key(page(first), pages * PAGE_SIZE, prot, Some(key))
        .unwrap();
}

fn key_at(s: &Space<X86>, n: u64) -> Key {
    s.vma_at(page(n)).unwrap().prot.key()
}

/// What CPU 1 may do with a page: read it, write to it.
fn may(w: &World<X86>, s: &Space<X86>, n: u64) -> (bool, bool) {
    let read = w.load(1, s, page(n)).is_ok();
    (read, w.store(1, s, page(n), 7).is_ok())
}

/// Keys refuse all use of key 1 and writes to key 2, on CPU 1.
fn refuse(w: &World<X86>) {
    w.sim.set_keys(1, 0b10_01_00);
}

#[test]
fn a_cpu_refuses_by_the_key_of_the_entry() {
    let w = world();
    let s = w.process();
    map(&s, AT, 4, RW);
    let (one, two) = (s.allocate_key().unwrap(), s.allocate_key().unwrap());
    (0..4).for_each(|n| w.store(1, &s, page(n), 1).unwrap());
    protect(&s, 1, 1, RW, one);
    protect(&s, 2, 1, RW, two);
    refuse(&w);
    let all: Vec<_> = (0..4).map(|n| may(&w, &s, n)).collect();
    let none = (false, false);
    assert_eq!(all, [(true, true), none, (true, false), (true, true)]);
    // The other CPU's register says nothing.
    (0..4).for_each(|n| w.store(0, &s, page(n), 2).unwrap());
    // Keys are about data.
    protect(&s, 1, 1, Prot::READ | Prot::EXEC, one);
    assert_eq!(w.fetch(1, &s, page(1)), Ok(2));
    w.check(&[&s], &[]);
}

#[test]
fn areas_with_different_keys_stay_apart() {
    let w = world();
    let s = w.process();
    map(&s, AT, 6, RW);
    let key = s.allocate_key().unwrap();
    protect(&s, 2, 2, RW, key);
    assert_eq!(
        (key_at(&s, 1), key_at(&s, 2), key_at(&s, 4)),
        (Key(0), key, Key(0))
    );
    // mprotect(2) leaves the key.
    s.protect(page(2), 2 * PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(key_at(&s, 3), key);
    protect(&s, 2, 2, RW, Key(0));
    assert_eq!(s.vma_at(page(3)).unwrap().range.pages(), 6);
    w.check(&[&s], &[]);
}

#[test]
fn only_keys_that_are_allocated() {
    let w = world();
    let s = w.process();
    map(&s, AT, 1, RW);
    let with = |n| s.protect_with_key(AT, PAGE_SIZE, RW, Some(Key(n)));
    assert_eq!(
        (with(1), with(0), with(16)),
        (Err(Error::Inval), Ok(()), Err(Error::Inval))
    );
    let all: Vec<_> = std::iter::from_fn(|| s.allocate_key()).collect();
    assert_eq!(all, (1..16).map(Key).collect::<Vec<_>>());
    with(15).unwrap();
    s.free_key(Key(15)).unwrap();
    assert_eq!(
        (s.free_key(Key(15)), with(15)),
        (Err(Error::Inval), Err(Error::Inval))
    );
    // Memory keeps what it has.
    assert_eq!(key_at(&s, 0), Key(15));
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(
        (child.free_key(Key(14)), child.free_key(Key(15))),
        (Ok(()), Err(Error::Inval))
    );
    assert_eq!(s.allocate_key(), Some(Key(15)));
    w.check(&[&s, &child], &[]);
}

#[test]
fn a_format_without_keys_has_none() {
    let w = World::<Arm>::new(Options::default());
    let s = w.process();
    map(&s, AT, 1, RW);
    assert_eq!(
        (s.allocate_key(), s.free_key(Key(0))),
        (None, Err(Error::Inval))
    );
    assert_eq!(
        s.protect_with_key(AT, PAGE_SIZE, RW, Some(Key(0))),
        Err(Error::Inval)
    );
    // Memory that may only be executed can be read.
    s.protect(AT, PAGE_SIZE, Prot::EXEC).unwrap();
    assert_eq!(w.load(0, &s, AT), Ok(0));
    w.check(&[&s], &[]);
}

#[test]
fn a_huge_leaf_has_one_key() {
    let w = world();
    sizes(&w, &[9]);
    let s = w.process();
    map(&s, AT, 2 * HUGE, RW);
    let key = s.allocate_key().unwrap();
    w.store(0, &s, page(0), 3).unwrap();
    protect(&s, 0, HUGE, RW, key);
    assert!(s.page_info(page(0)).huge);
    refuse(&w);
    assert_eq!(may(&w, &s, 5), (false, false));
    // What a fault maps has it, too.
    protect(&s, HUGE, HUGE, RW, key);
    w.store(0, &s, page(HUGE), 3).unwrap();
    assert!(s.page_info(page(HUGE)).huge);
    assert_eq!(may(&w, &s, HUGE), (false, false));
    // A part of it with another key: the leaf is split, and the pages keep theirs.
    protect(&s, 8, 1, RW, Key(0));
    assert!(!s.page_info(page(0)).huge);
    let of = |n| may(&w, &s, n).0;
    assert_eq!((of(7), of(8), of(9)), (false, true, false));
    assert_eq!(w.load(0, &s, page(0)), Ok(3));
    w.check(&[&s], &[]);
    // And comes back as one only when it has one key.
    let collapse = || s.collapse(page(0), CollapseLimits::ANY);
    assert_eq!(collapse(), Collapse::NotEligible);
    protect(&s, 8, 1, RW, key);
    assert_eq!(collapse(), Collapse::Done);
    assert_eq!(may(&w, &s, 8), (false, false));
    w.check(&[&s], &[]);
}

#[test]
fn a_folio_that_is_split_keeps_it() {
    let w = world();
    sizes(&w, &[9]);
    let s = w.process();
    map(&s, AT, HUGE, RW);
    let key = s.allocate_key().unwrap();
    (0..HUGE).for_each(|n| w.store(0, &s, page(n), 1).unwrap());
    protect(&s, 0, HUGE, RW, key);
    s.split_range(VirtRange::new(AT, page(HUGE)), Order(0));
    refuse(&w);
    assert_eq!(may(&w, &s, HUGE - 1), (false, false));
    w.check(&[&s], &[]);
}

#[test]
fn a_child_and_its_copies_have_it() {
    let w = world();
    let s = w.process();
    map(&s, AT, 4, RW);
    let key = s.allocate_key().unwrap();
    (0..4).for_each(|n| w.store(0, &s, page(n), 1).unwrap());
    protect(&s, 0, 2, RW, key);
    let child = w.adopt(s.fork().unwrap());
    refuse(&w);
    // Copied by the one, taken over by the other.
    w.store(0, &child, page(0), 2).unwrap();
    w.store(0, &s, page(0), 3).unwrap();
    for space in [&*s, &*child] {
        assert_eq!(
            (may(&w, space, 0), may(&w, space, 1)),
            ((false, false), (false, false))
        );
        assert_eq!(may(&w, space, 2), (true, true));
    }
    w.check(&[&s, &child], &[]);
}

#[test]
fn it_moves_with_its_memory() {
    let w = world();
    let s = w.process();
    map(&s, AT, 4, RW);
    let key = s.allocate_key().unwrap();
    protect(&s, 0, 4, RW, key);
    w.store(0, &s, page(1), 1).unwrap();
    let len = 4 * PAGE_SIZE;
    assert_eq!(
        s.remap(AT, len, 2 * len, FIXED, page(99), &mut Default::default()),
        Ok(page(99))
    );
    refuse(&w);
    // What was there, and what has grown.
    assert_eq!(
        (may(&w, &s, 100), may(&w, &s, 106)),
        ((false, false), (false, false))
    );
    // New memory has key 0.
    map(&s, page(99), 1, RW);
    assert_eq!(may(&w, &s, 99), (true, true));
    w.check(&[&s], &[]);
}

#[test]
fn pages_of_objects_and_of_zeros() {
    let w = world();
    let s = w.process();
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    object.write_at(0, &[5; 4 * PAGE_SIZE as usize]).unwrap();
    let kinds = [VmaFlags::SHARED, VmaFlags::empty()];
    let key = s.allocate_key().unwrap();
    for (at, flags) in [0, 8].into_iter().zip(kinds) {
        s.map(of_object(&object, 0, page(at), 4, RW, flags))
            .unwrap();
        protect(&s, at, 4, RW, key);
    }
    s.map(anon(Place::Fixed(page(16)), 4, RW)).unwrap();
    protect(&s, 16, 4, RW, key);
    for n in [0, 8, 16] {
        w.load(0, &s, page(n)).unwrap();
        w.store(0, &s, page(n + 1), 1).unwrap();
    }
    refuse(&w);
    for n in [0, 1, 2, 8, 9, 10, 16, 17, 18] {
        assert_eq!(may(&w, &s, n), (false, false), "page {n}");
    }
    w.check(&[&s], &[&object]);
}

#[test]
fn memory_that_may_only_be_executed_gets_a_key_of_its_own() {
    let w = world();
    let s = w.process();
    map(&s, AT, 2, RW);
    (0..2).for_each(|n| w.store(0, &s, page(n), 4).unwrap());
    w.sim.run_on(0);
    s.protect(AT, PAGE_SIZE, Prot::EXEC).unwrap();
    let key = key_at(&s, 0);
    assert_ne!(key, Key(0));
    assert_eq!(w.load(0, &s, AT), Err(Resolution::Denied));
    assert_eq!(w.fetch(0, &s, AT), Ok(4));
    // By mmap, too, and by the same key, which is not the program's.
    s.map(anon(Place::Fixed(page(8)), 1, Prot::EXEC)).unwrap();
    assert_eq!(key_at(&s, 8), key);
    assert_eq!(s.free_key(key), Err(Error::Inval));
    assert_ne!(s.allocate_key(), Some(key));
    // Other rights take it away.
    s.protect(AT, PAGE_SIZE, RW).unwrap();
    assert_eq!((key_at(&s, 0), w.load(0, &s, AT)), (Key(0), Ok(4)));
    // It is a key of the program that is kept.
    let own = s.allocate_key().unwrap();
    protect(&s, 1, 1, Prot::EXEC, own);
    s.protect(page(1), PAGE_SIZE, RW).unwrap();
    assert_eq!(key_at(&s, 1), own);
    w.check(&[&s], &[]);
}

#[test]
fn the_kernel_asks_the_register_where_hardware_does_not() {
    let w = world();
    let s = w.process();
    map(&s, AT, 4, RW);
    let (one, two) = (s.allocate_key().unwrap(), s.allocate_key().unwrap());
    protect(&s, 0, 1, RW, one);
    protect(&s, 1, 1, RW, two);
    refuse(&w);
    w.sim.run_on(1);
    let pin = |n| s.pin(page(n)).map(drop);
    assert_eq!(
        (pin(0), pin(1), pin(2)),
        (Err(Resolution::Denied), Ok(()), Ok(()))
    );
    let long_term = |n| s.pin_long_term(page(n), Access::Write).map(drop);
    assert_eq!(
        (long_term(1), long_term(2)),
        (Err(Resolution::Denied), Ok(()))
    );
    let populate = |n, advice| s.advise(page(n), PAGE_SIZE, advice);
    assert!(populate(0, Advice::PopulateRead).is_err());
    populate(1, Advice::PopulateRead).unwrap();
    assert!(populate(1, Advice::PopulateWrite).is_err());
    // Others' accesses are not the thread's own.
    assert_eq!(s.write(page(0), &[1], false), 1);
    w.check(&[&s], &[]);
}

#[test]
fn the_address_of_a_fault_says_its_key() {
    let w = world();
    let s = w.process();
    map(&s, AT, 2, RW);
    let key = s.allocate_key().unwrap();
    protect(&s, 1, 1, Prot::READ, key);
    assert_eq!(s.key_at(page(1) + 5), key);
    assert_eq!((s.key_at(page(0)), s.key_at(VirtAddr(0))), (Key(0), Key(0)));
}
