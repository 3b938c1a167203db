//! Pins: pages that stay for whoever holds them, and how copy-on-write sees them.

mod common;

use arch_sim::World;
use common::*;
use mm::Advice;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::fault::{Pin, Resolution};
use mm::object::Object;
use mm::vma::{Prot, VmaFlags};

on_both! {
    a_pin_sees_what_is_written
    a_pin_outlives_its_mapping
    after_a_fork_a_pin_keeps_what_was_there
    zeros_need_no_reference
    a_pinned_folio_is_not_split
    an_objects_page
    what_cannot_be_pinned
}

fn byte<F: PteFormat>(pin: &Pin<arch_sim::Sim<F>>, offset: usize) -> u8 {
    let mut one = [0];
    pin.read(offset, &mut one);
    one[0]
}

fn a_pin_sees_what_is_written<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 512, RW);
        w.store(0, &s, page(3), 1).unwrap();
        let pin = s.pin(page(3) + 100).unwrap();
        w.check(&[&s], &[]);
        w.store(0, &s, page(3) + 7, 9).unwrap();
        assert_eq!((byte(&pin, 0), byte(&pin, 7), byte(&pin, 8)), (1, 9, 0));
        // Not by a copy: it is still the same page.
        assert!(!s.page_info(page(3)).exclusive);
        drop(pin);
        assert!(s.page_info(page(3)).exclusive);
    }
}

fn a_pin_outlives_its_mapping<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        let free = w.mm.counts();
        let s = w.process();
        map(&s, AT, 512, RW);
        w.store(0, &s, page(3), 5).unwrap();
        let pins = [s.pin(page(3)).unwrap(), s.pin(page(3)).unwrap()];
        s.advise(AT, 512 * PAGE_SIZE, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, &s, page(3)), Ok(0));
        assert_eq!(byte(&pins[0], 0), 5);
        w.check(&[&s], &[]);
        drop(s);
        assert_eq!(byte(&pins[1], 0), 5);
        w.check(&[], &[]);
        drop(pins);
        assert_eq!(w.mm.counts(), free);
    }
}

fn after_a_fork_a_pin_keeps_what_was_there<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[9]] {
        sizes(w, orders);
        for child_lives in [true, false] {
            let parent = w.process();
            map(&parent, AT, 512, RW);
            (0..32).for_each(|n| w.store(0, &parent, page(n), 5).unwrap());
            let pin = parent.pin(page(3)).unwrap();
            let child = w.adopt(parent.fork().unwrap());
            w.check(&[&parent, &child], &[]);
            let child = child_lives.then_some(child);
            (0..32).for_each(|n| w.store(0, &parent, page(n), 6).unwrap());
            assert_eq!(byte(&pin, 0), 5);
            if let Some(child) = &child {
                assert_eq!(w.load(1, child, page(3)), Ok(5));
                w.store(1, child, page(3), 7).unwrap();
                assert_eq!(byte(&pin, 0), 5);
                w.check(&[&parent, child], &[]);
            }
            assert_eq!(w.load(0, &parent, page(3)), Ok(6));
        }
    }
}

fn zeros_need_no_reference<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[9]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 512, RW);
        let pin = s.pin(page(9)).unwrap();
        assert!(s.page_info(page(9)).zero_page);
        w.check(&[&s], &[]);
        // The huge one goes here.
        w.store(0, &s, page(9), 1).unwrap();
        assert_eq!(byte(&pin, 0), 0);
        w.check(&[&s], &[]);
    }
}

fn a_pinned_folio_is_not_split<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    let s = w.process();
    map(&s, AT, 16, RW);
    (0..16).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    let pin = s.pin(page(11)).unwrap();
    s.unmap(page(8), 8 * PAGE_SIZE).unwrap();
    assert_eq!(s.split_deferred(), 0);
    assert_eq!(byte(&pin, 0), 11);
    w.check(&[&s], &[]);
    drop(pin);
    assert_eq!(s.split_deferred(), 8);
    w.check(&[&s], &[]);
}

fn an_objects_page<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    let s = w.process();
    s.map(of_object(&object, 0, AT, 4, RW, VmaFlags::SHARED))
        .unwrap();
    w.store(0, &s, page(2), 8).unwrap();
    let pin = s.pin(page(2)).unwrap();
    w.store(0, &s, page(2), 9).unwrap();
    assert_eq!(byte(&pin, 0), 9);
    w.check(&[&s], &[&object]);
    drop(s);
    drop(object);
    assert_eq!(byte(&pin, 0), 9);
}

fn what_cannot_be_pinned<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 1, Prot::empty());
    assert_eq!(s.pin(AT).err(), Some(Resolution::Denied));
    assert_eq!(s.pin(page(1)).err(), Some(Resolution::NotMapped));
    assert_eq!(s.pin(F::USER_END).err(), Some(Resolution::NotMapped));
}
