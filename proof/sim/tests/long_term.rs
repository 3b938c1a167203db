//! Long-term pins: process and device see one page, whatever is forked and protected meanwhile.

mod common;

use arch_sim::{Options, Process, Sim, World};
use common::{AT, FIXED, RW, Space, map, page, sizes};
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::fault::{Access, Pin, Resolution};
use mm::object::Object;
use mm::switch::Switch;
use mm::thp::CollapseLimits;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Collapse, Error};

macro_rules! tests {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::on::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::on::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
tests! {
    one_page_for_both
    the_child_of_a_fork_has_copies
    a_fork_without_large_folios_copies_pages
    a_page_is_pinned_by_one_process
    a_pipe_holds_a_page_of_the_folio
    its_neighbours_are_copied_without_it
    a_folio_in_two_tables
    what_is_pinned_is_not_collapsed
    an_objects_page_is_everybodys
    what_cannot_be_written_cannot_be_pinned
    a_pin_for_reading
    a_read_of_what_others_have
}

/// Runs the test with every account.
fn on<F: PteFormat>(test: fn(&World<F>)) {
    for account in 0..Switch::Account.words().len() {
        let world = World::<F>::new(Options {
            frames: 4096,
            ..Options::default()
        });
        world.mm.switches().set(Switch::Account, account as u32);
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
    }
}

fn byte<F: PteFormat>(pin: &Pin<Sim<F>>, offset: usize) -> u8 {
    let mut one = [0];
    pin.read(offset, &mut one);
    one[0]
}

/// A process with 512 pages, the first 32 of them written, in folios of these orders.
fn written<F: PteFormat>(w: &World<F>, orders: &[u8]) -> Process<F> {
    sizes(w, orders);
    let s = w.process();
    map(&s, AT, 512, RW);
    (0..32).for_each(|n| w.store(0, &s, page(n), 5).unwrap());
    s
}

/// May not be written, and may be again: writes ask.
fn protect_and_back<F: PteFormat>(s: &Space<F>) {
    for prot in [Prot::READ, RW] {
        s.protect(AT, 512 * PAGE_SIZE, prot).unwrap();
    }
}

const ORDERS: [&[u8]; 3] = [&[], &[4], &[9]];

/// Both see the same page.
fn same<F: PteFormat>(w: &World<F>, s: &Space<F>, n: u64, pin: &Pin<Sim<F>>, value: u8) {
    w.store(0, s, page(n), value).unwrap();
    assert_eq!(byte(pin, 0), value);
    pin.write(0, &[value + 1]);
    assert_eq!(w.load(1, s, page(n)), Ok(value + 1));
}

fn one_page_for_both<F: PteFormat>(w: &World<F>) {
    for orders in ORDERS {
        let s = written(w, orders);
        let pins = [(); 2].map(|()| s.pin_long_term(page(3), Access::Write).unwrap());
        let copied = w.mm.event("pages_copied");
        same(w, &s, 3, &pins[0], 1);
        w.check(&[&s], &[]);
        // Whatever becomes of the protection, and of the mapping's place.
        protect_and_back(&s);
        same(w, &s, 3, &pins[1], 3);
        let to = page(1024);
        s.remap(
            page(3),
            PAGE_SIZE,
            PAGE_SIZE,
            FIXED,
            to,
            &mut Default::default(),
        )
        .unwrap();
        same(w, &s, 1024, &pins[0], 5);
        assert_eq!(w.mm.event("pages_copied"), copied);
        w.check(&[&s], &[]);
        let [first, second] = pins;
        drop(first);
        w.check(&[&s], &[]);
        s.unmap(to, PAGE_SIZE).unwrap();
        assert_eq!(byte(&second, 0), 6);
        drop(s);
        w.check(&[], &[]);
    }
}

fn the_child_of_a_fork_has_copies<F: PteFormat>(w: &World<F>) {
    for orders in ORDERS {
        let parent = written(w, orders);
        let pin = parent.pin_long_term(page(3), Access::Write).unwrap();
        let child = w.adopt(parent.fork().unwrap());
        w.check(&[&parent, &child], &[]);
        let copied = w.mm.event("pages_copied");
        same(w, &parent, 3, &pin, 7);
        protect_and_back(&parent);
        same(w, &parent, 3, &pin, 9);
        assert_eq!(w.load(1, &child, page(3)), Ok(5));
        w.store(1, &child, page(3), 6).unwrap();
        assert_eq!(byte(&pin, 0), 10);
        assert_eq!(
            w.mm.event("pages_copied"),
            copied,
            "the copy was made by fork"
        );
        // The child's is a page like any other.
        let grandchild = w.adopt(child.fork().unwrap());
        w.store(0, &child, page(3), 8).unwrap();
        assert_eq!(w.load(1, &grandchild, page(3)), Ok(6));
        w.check(&[&parent, &child, &grandchild], &[]);
        drop(parent);
        assert_eq!(byte(&pin, 0), 10);
        w.check(&[&child, &grandchild], &[]);
    }
}

fn a_page_is_pinned_by_one_process<F: PteFormat>(w: &World<F>) {
    for orders in ORDERS {
        let parent = written(w, orders);
        let child = w.adopt(parent.fork().unwrap());
        // What both have, each gets for itself.
        let pins = [&parent, &child].map(|s| s.pin_long_term(page(3), Access::Write).unwrap());
        w.check(&[&parent, &child], &[]);
        same(w, &parent, 3, &pins[0], 7);
        same(w, &child, 3, &pins[1], 9);
        assert_eq!(w.load(0, &parent, page(3)), Ok(8));
        // A page that may be written lies in a folio that the child has a part of.
        parent.unmap(AT, 512 * PAGE_SIZE).unwrap();
        map(&parent, AT, 512, RW);
        (0..32).for_each(|n| w.store(0, &parent, page(n), 5).unwrap());
        parent.advise(AT, 8 * PAGE_SIZE, Advice::DontFork).unwrap();
        let other = w.adopt(parent.fork().unwrap());
        let pin = parent.pin_long_term(page(3), Access::Write).unwrap();
        w.store(1, &other, page(9), 7).unwrap();
        same(w, &parent, 3, &pin, 7);
        assert_eq!(w.load(0, &parent, page(9)), Ok(5));
        w.check(&[&parent, &child, &other], &[]);
    }
}

/// What a pipe holds reads as shared, of the same page or another one of the folio: a write that
/// has to ask stays all the same.
fn a_pipe_holds_a_page_of_the_folio<F: PteFormat>(w: &World<F>) {
    for orders in ORDERS {
        for (held, first) in [(3, true), (9, true), (3, false), (9, false)] {
            let s = written(w, orders);
            let before = (!first).then(|| s.pin(page(held)).unwrap());
            let pin = s.pin_long_term(page(3), Access::Write).unwrap();
            let after = first.then(|| s.pin(page(held)).unwrap());
            let copied = w.mm.event("pages_copied");
            for value in [7, 9] {
                same(w, &s, 3, &pin, value);
                protect_and_back(&s);
                w.check(&[&s], &[]);
            }
            assert_eq!(w.mm.event("pages_copied"), copied);
            // A child has a copy, and so has its child a page like any other.
            let child = w.adopt(s.fork().unwrap());
            same(w, &s, 3, &pin, 11);
            assert_eq!(w.load(1, &child, page(3)), Ok(10));
            w.check(&[&s, &child], &[]);
            drop((before, after));
            protect_and_back(&s);
            same(w, &s, 3, &pin, 13);
        }
    }
}

/// A write beside the page, which has to be copied, copies what surrounds it; but for what is
/// pinned.
fn its_neighbours_are_copied_without_it<F: PteFormat>(w: &World<F>) {
    for orders in [&[4][..], &[4, 9]] {
        let s = written(w, orders);
        let pin = s.pin_long_term(page(3), Access::Write).unwrap();
        let pipe = s.pin(page(9)).unwrap();
        protect_and_back(&s);
        w.store(0, &s, page(5), 6).unwrap();
        w.check(&[&s], &[]);
        same(w, &s, 3, &pin, 7);
        assert_eq!(w.load(0, &s, page(5)), Ok(6));
        assert_eq!(w.load(0, &s, page(9)), Ok(5));
        assert_eq!(byte(&pipe, 0), 5);
    }
}

/// Others have a part of the folio by a table that they share with the process, until it gets its
/// own.
fn a_folio_in_two_tables<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, 2);
    sizes(w, &[4]);
    let s = w.process();
    // 8 pages before a 2 MiB border, and the whole 2 MiB behind it.
    let (from, to, pages) = (page(4096), page(504), 520);
    map(&s, from, pages, RW);
    for n in 0..16 {
        w.store(0, &s, from + n * PAGE_SIZE, 5).unwrap();
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
    child.unmap(to, 8 * PAGE_SIZE).unwrap();
    let pin = s.pin_long_term(page(505), Access::Write).unwrap();
    w.check(&[&s, &child], &[]);
    same(w, &s, 505, &pin, 7);
    // The table behind the border is copied for the write, and what was the process's own in the
    // account with it.
    w.store(0, &s, page(513), 1).unwrap();
    w.check(&[&s, &child], &[]);
    for prot in [Prot::READ, RW] {
        s.protect(to, 8 * PAGE_SIZE, prot).unwrap();
    }
    same(w, &s, 505, &pin, 9);
    assert_eq!(w.load(1, &child, page(513)), Ok(5));
    w.check(&[&s, &child], &[]);
}

fn what_is_pinned_is_not_collapsed<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    let s = w.process();
    map(&s, AT, 512, RW);
    (0..512).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    sizes(w, &[9]);
    for long_term in [false, true] {
        let pin = match long_term {
            false => s.pin(page(3)).unwrap(),
            true => s.pin_long_term(page(3), Access::Write).unwrap(),
        };
        assert_eq!(
            s.collapse(AT, CollapseLimits::ANY),
            Collapse::Pinned,
            "{long_term}"
        );
        assert_eq!(
            s.advise(AT, 512 * PAGE_SIZE, Advice::Collapse),
            Err(Error::Again)
        );
        w.store(0, &s, page(3), 3).unwrap();
        assert_eq!(byte(&pin, 0), 3);
    }
    assert_eq!(s.collapse(AT, CollapseLimits::ANY), Collapse::Done);
    w.check(&[&s], &[]);
}

fn a_fork_without_large_folios_copies_pages<F: PteFormat>(w: &World<F>) {
    let parent = written(w, &[9]);
    let pin = parent.pin_long_term(page(3), Access::Write).unwrap();
    // Every page that may be had, and then each second 64 KiB of it back.
    sizes(w, &[]);
    let hog = w.process();
    let pages = w.mm.counts().free;
    map(&hog, AT, pages, RW);
    let got = (0..pages).take_while(|n| w.store(0, &hog, page(*n), 1).is_ok());
    for n in (0..got.count() as u64).step_by(32) {
        hog.unmap(page(n), 16 * PAGE_SIZE).unwrap();
    }
    w.mm.drain_pcp();
    let child = w.adopt(parent.fork().unwrap());
    w.check(&[&parent, &child, &hog], &[]);
    same(w, &parent, 3, &pin, 7);
    (0..32).for_each(|n| assert_eq!(w.load(1, &child, page(n)), Ok(5)));
    w.store(1, &child, page(3), 1).unwrap();
    assert_eq!(byte(&pin, 0), 8);
}

fn an_objects_page_is_everybodys<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    let s = w.process();
    let request = common::of_object(&object, 0, AT, 4, RW, VmaFlags::SHARED);
    s.map(request).unwrap();
    let pin = s.pin_long_term(page(2), Access::Write).unwrap();
    let child = w.adopt(s.fork().unwrap());
    w.store(0, &child, page(2), 9).unwrap();
    assert_eq!(byte(&pin, 0), 9);
    w.check(&[&s, &child], &[&object]);
}

fn what_cannot_be_written_cannot_be_pinned<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 1, Prot::READ);
    assert_eq!(
        s.pin_long_term(AT, Access::Write).err(),
        Some(Resolution::Denied)
    );
    assert_eq!(
        s.pin_long_term(page(1), Access::Write).err(),
        Some(Resolution::NotMapped)
    );
}

/// As much of a promise as one for writing, also where the process may not write: of its own page,
/// of one that it shares with a child, and of one that a child had.
fn a_pin_for_reading<F: PteFormat>(w: &World<F>) {
    for orders in ORDERS {
        for (forks, ends) in [(false, false), (true, false), (true, true)] {
            let s = written(w, orders);
            let child = forks.then(|| w.adopt(s.fork().unwrap()));
            let child = child.filter(|_| !ends);
            s.protect(AT, 512 * PAGE_SIZE, Prot::READ).unwrap();
            let copied = w.mm.event("pages_copied");
            let pin = s.pin_long_term(page(3), Access::Read).unwrap();
            assert_eq!(byte(&pin, 0), 5);
            // Of what a child had, not every account knows that it is the process's alone again.
            let is_copied = w.mm.event("pages_copied") > copied;
            assert!(is_copied == child.is_some() || ends, "what others have");
            assert!(
                w.store(0, &s, page(3), 6).is_err(),
                "as protected as before"
            );
            let all: Vec<_> = child.iter().chain([&s]).map(|s| &**s).collect();
            w.check(&all, &[]);
            s.protect(AT, 512 * PAGE_SIZE, RW).unwrap();
            same(w, &s, 3, &pin, 7);
            let second = w.adopt(s.fork().unwrap());
            same(w, &s, 3, &pin, 9);
            assert_eq!(w.load(1, &second, page(3)), Ok(8));
            if let Some(child) = &child {
                assert_eq!(w.load(1, child, page(3)), Ok(5));
            }
        }
    }
}

/// Zeros, small and huge, and the page of an object that is mapped privately.
fn a_read_of_what_others_have<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    for orders in ORDERS {
        sizes(w, orders);
        let s = w.process();
        map(&s, AT, 512, RW);
        let request_of = |flags| common::of_object(&object, 0, page(1024), 4, RW, flags);
        s.map(request_of(VmaFlags::empty())).unwrap();
        for n in [3, 1026] {
            assert_eq!(w.load(0, &s, page(n)), Ok(0));
            let pin = s.pin_long_term(page(n), Access::Read).unwrap();
            w.check(&[&s], &[&object]);
            same(w, &s, n, &pin, 7);
        }
        let other = w.process();
        other.map(request_of(VmaFlags::SHARED)).unwrap();
        assert_eq!(w.load(1, &other, page(1026)), Ok(0));
    }
}
