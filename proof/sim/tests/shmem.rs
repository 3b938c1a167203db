//! Large folios of shared memory: their orders, who maps them how, and what becomes of one of which
//! a part goes. `check::all` after each step counts references.

mod common;

use arch_sim::{Process, Sim, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::object::{Object, PagePool};
use mm::thp::controls::{ShmemEnabled, ShmemSize};
use mm::thp::{Disable, ORDERS, PMD_ORDER, Permit, Stat};
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Content, Error, MapRequest, Offline, Place, Registration};
use std::sync::Arc;

on_both_by_run! {
    the_largest_that_fits
    what_the_files_say
    within_the_size
    spaces_share_a_folio
    a_child_maps_it_too
    a_hole_splits
    a_pin_keeps_the_folio
    a_locked_area_does_not_keep_the_folio
    the_end_splits
    private_mappings_copy_pages
    a_limit_is_in_pages
    memory_is_full
    first_accesses_are_watched
    a_monitor_protects
    a_monitor_is_gone_after_mremap
    a_page_is_lost
    a_page_moves
    leaves
    parts_of_a_leaf
    a_hole_under_a_leaf
    a_protected_leaf
    a_range_collapses
    what_a_monitor_waits_for_stays_a_hole
    the_place_suits_the_folios
}

const HUGE: u64 = PMD_ORDER.pages();
type O<F> = Arc<Object<Sim<F>>>;

/// [`common::run`], on machines with room for some folios of 2 MiB.
fn run<F: PteFormat>(test: fn(&World<F>)) {
    let test = |world: &World<F>| {
        test(world);
        assert_eq!(world.mm.thp().shmem(), (0, 0));
    };
    run_on(8192, test, with_hwpoison);
}

/// Shared memory may have these orders everywhere.
fn orders<F: PteFormat>(w: &World<F>, orders: &[u8]) {
    for order in ORDERS {
        let to = match orders.contains(&order) {
            true => ShmemSize::Always,
            false => ShmemSize::Never,
        };
        w.mm.thp().controls.set_shmem_size(Order(order), to);
    }
}

fn object<F: PteFormat>(w: &World<F>, pages: u64) -> O<F> {
    let object = Object::new(&w.mm);
    object.set_len(pages * PAGE_SIZE);
    object
}

fn shared<F: PteFormat>(s: &Process<F>, object: &O<F>, at: VirtAddr, pages: u64) {
    s.map(of_object(object, 0, at, pages, RW, VmaFlags::SHARED))
        .unwrap();
}

/// The order of the folio of a page that is mapped, and the page's frame.
fn folio<F: PteFormat>(w: &World<F>, s: &Process<F>, at: VirtAddr) -> (u8, Pfn) {
    let info = s.page_info(at);
    assert!(info.present, "{at:?} is not mapped");
    let frame = Pfn(info.pfn);
    (w.mm.frame_info(frame).unwrap().block.order.0, frame)
}

/// The pages of an area that are mapped.
fn mapped<F: PteFormat>(s: &Process<F>, at: VirtAddr, pages: u64) -> Vec<u64> {
    let is_mapped = |n: &u64| s.page_info(at + n * PAGE_SIZE).present;
    (0..pages).filter(is_mapped).collect()
}

/// A hole of some pages.
fn punch<F: PteFormat>(object: &O<F>, first: u64, pages: u64) {
    object.punch(first * PAGE_SIZE, pages * PAGE_SIZE);
}

fn move_to<F: PteFormat>(s: &Process<F>, at: VirtAddr, pages: u64, to: VirtAddr) {
    let len = pages * PAGE_SIZE;
    assert_eq!(
        s.remap(at, len, len, FIXED, to, &mut Default::default()),
        Ok(to)
    );
}

fn stat<F: PteFormat>(w: &World<F>, order: u8, stat: Stat) -> u64 {
    w.mm.thp().stats.get(Order(order), stat)
}

fn the_largest_that_fits<F: PteFormat>(w: &World<F>) {
    orders(w, &[2, 3, 4]);
    let (s, object) = (w.process(), object(w, 64));
    shared(&s, &object, AT, 64);
    w.store(0, &s, page(21), 1).unwrap();
    assert_eq!(folio(w, &s, page(21)).0, 4);
    assert_eq!(mapped(&s, AT, 64), Vec::from_iter(16..32));
    w.check(&[&s], &[&object]);
    // A read, too; where a page is there already, a smaller one.
    object.write_at(40 * PAGE_SIZE, &[7]).unwrap();
    w.load(0, &s, page(35)).unwrap();
    assert_eq!((folio(w, &s, page(35)).0, object.pages()), (3, 25));
    w.load(0, &s, page(41)).unwrap();
    assert_eq!(folio(w, &s, page(41)).0, 0);
    // Where addresses and indices differ by 4 pages, or the area cuts it.
    let other = other_object(w, &s, page(1004));
    w.store(0, &s, page(1004), 1).unwrap();
    assert_eq!(folio(w, &s, page(1004)).0, 2);
    w.check(&[&s], &[&object, &other]);
    let counted = |order| {
        (
            stat(w, order, Stat::ShmemAlloc),
            stat(w, order, Stat::ShmemFallback),
        )
    };
    assert_eq!(
        (counted(4), counted(3), counted(2)),
        ((1, 0), (1, 0), (1, 0))
    );
}

/// An object of 16 pages that is mapped from its first page on.
fn other_object<F: PteFormat>(w: &World<F>, s: &Process<F>, at: VirtAddr) -> O<F> {
    let other = object(w, 16);
    shared(s, &other, at, 16);
    other
}

fn what_the_files_say<F: PteFormat>(w: &World<F>) {
    let order_with = |top, size, advised: bool, file: bool| {
        w.mm.thp().controls.change(|settings| {
            settings.shmem = top;
            settings.shmem_sizes.fill(ShmemSize::Never);
            settings.shmem_sizes[4] = size;
        });
        let object = match file {
            true => Object::of_file(&w.mm, PagePool::new(100)),
            false => Object::new(&w.mm),
        };
        object.set_len(8 * PAGE_SIZE);
        let s = w.process();
        shared(&s, &object, AT, 16);
        if advised {
            s.advise(AT, 16 * PAGE_SIZE, Advice::HugePage).unwrap();
        }
        w.store(0, &s, AT, 1).unwrap();
        w.check(&[&s], &[&object]);
        folio(w, &s, AT).0
    };
    use ShmemEnabled as Top;
    for (top, size, plain, advised, file) in [
        (Top::Never, ShmemSize::Always, 4, 4, 0),
        (Top::Never, ShmemSize::Never, 0, 0, 0),
        (Top::Never, ShmemSize::Inherit, 0, 0, 0),
        (Top::Never, ShmemSize::Advise, 0, 4, 0),
        (Top::Always, ShmemSize::Inherit, 4, 4, 0),
        (Top::Always, ShmemSize::WithinSize, 0, 0, 0),
        (Top::WithinSize, ShmemSize::Inherit, 0, 0, 0),
        (Top::Advise, ShmemSize::Inherit, 0, 4, 0),
        (Top::Deny, ShmemSize::Always, 0, 0, 0),
        (Top::Force, ShmemSize::Always, 0, 0, 0),
        (Top::Force, ShmemSize::Inherit, 4, 4, 4),
    ] {
        let found = (
            order_with(top, size, false, false),
            order_with(top, size, true, false),
            order_with(top, size, false, true),
        );
        assert_eq!(found, (plain, advised, file), "{top:?} {size:?}");
    }
}

fn within_the_size<F: PteFormat>(w: &World<F>) {
    w.mm.thp()
        .controls
        .set_shmem_size(Order(4), ShmemSize::WithinSize);
    let (s, object) = (w.process(), object(w, 31));
    shared(&s, &object, AT, 48);
    w.store(0, &s, page(3), 1).unwrap();
    w.store(0, &s, page(30), 1).unwrap();
    assert_eq!((folio(w, &s, page(3)).0, folio(w, &s, page(30)).0), (4, 0));
    // What lies behind the end is not mapped, although it is there.
    orders(w, &[4]);
    punch(&object, 16, 16);
    w.store(0, &s, page(17), 1).unwrap();
    assert_eq!((folio(w, &s, page(17)).0, object.pages()), (4, 32));
    assert_eq!(mapped(&s, AT, 48), Vec::from_iter(0..31));
    assert_eq!(w.load(0, &s, page(31)), Err(Resolution::Bus));
    w.check(&[&s], &[&object]);
    object.set_len(32 * PAGE_SIZE);
    assert_eq!(w.load(0, &s, page(31)), Ok(0));
    w.check(&[&s], &[&object]);
}

fn spaces_share_a_folio<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (a, b, object) = (w.process(), w.process(), object(w, 64));
    shared(&a, &object, AT, 64);
    shared(&b, &object, page(100), 10);
    w.store(0, &a, page(5), 9).unwrap();
    assert_eq!(w.load(1, &b, page(105)), Ok(9));
    assert_eq!(mapped(&b, page(100), 10), Vec::from_iter(0..10));
    assert_eq!(w.mm.references(folio(w, &a, AT).1), 16 + 16 + 10);
    w.check(&[&a, &b], &[&object]);
    a.unmap(page(3), 5 * PAGE_SIZE).unwrap();
    b.protect(page(102), 3 * PAGE_SIZE, Prot::READ).unwrap();
    w.check(&[&a, &b], &[&object]);
    drop(object);
    drop(a);
    assert_eq!(w.load(1, &b, page(105)), Ok(9));
    w.check(&[&b], &[]);
}

fn a_child_maps_it_too<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, object) = (w.process(), object(w, 64));
    shared(&s, &object, AT, 64);
    w.store(0, &s, page(5), 9).unwrap();
    let child = w.adopt(s.fork().unwrap());
    w.check(&[&s, &child], &[&object]);
    w.store(1, &child, page(6), 8).unwrap();
    assert_eq!(mapped(&child, AT, 64).len(), 16);
    assert_eq!(
        (w.load(0, &s, page(6)), w.load(1, &child, page(5))),
        (Ok(8), Ok(9))
    );
    w.check(&[&s, &child], &[&object]);
}

fn a_hole_splits<F: PteFormat>(w: &World<F>) {
    orders(w, &[5]);
    let (a, b, object) = (w.process(), w.process(), object(w, 64));
    shared(&a, &object, AT, 64);
    shared(&b, &object, page(128), 64);
    for n in 0..32 {
        w.store(0, &a, page(n), 1 + n as u8).unwrap();
    }
    w.load(0, &b, page(128)).unwrap();
    let (before, frame) = (w.mm.counts().object, folio(w, &a, page(9)).1);
    punch(&object, 4, 5);
    w.check(&[&a, &b], &[&object]);
    assert_eq!((object.pages(), w.mm.counts().object), (27, before - 5));
    // The rest is where it was, in single pages, and mapped again when it is used.
    assert_eq!(w.load(1, &b, page(137)), Ok(10));
    assert_eq!(folio(w, &b, page(137)), (0, frame));
    assert_eq!(w.load(1, &b, page(132)), Ok(0));
    assert_eq!(stat(w, 5, Stat::Split), 1);
    w.check(&[&a, &b], &[&object]);
    // A hole of whole folios splits none; one at both ends both.
    punch(&object, 0, 64);
    w.store(0, &a, page(2), 1).unwrap();
    w.store(0, &a, page(40), 1).unwrap();
    punch(&object, 0, 32);
    assert_eq!(stat(w, 5, Stat::Split), 1);
    w.store(0, &a, page(2), 1).unwrap();
    punch(&object, 30, 4);
    assert_eq!((stat(w, 5, Stat::Split), object.pages()), (3, 60));
    w.check(&[&a, &b], &[&object]);
}

fn a_pin_keeps_the_folio<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, object) = (w.process(), object(w, 16));
    shared(&s, &object, AT, 16);
    w.store(0, &s, page(5), 9).unwrap();
    w.store(0, &s, page(7), 8).unwrap();
    let pin = s.pin(page(5)).unwrap();
    punch(&object, 4, 2);
    w.check(&[&s], &[&object]);
    assert_eq!((object.pages(), w.mm.counts().object), (14, 16));
    let mut byte = [0];
    pin.read(0, &mut byte);
    assert_eq!(byte, [9]);
    // A fault maps the part that is there, and a new page in the hole.
    assert_eq!(w.load(0, &s, page(7)), Ok(8));
    assert_eq!(mapped(&s, AT, 16), Vec::from_iter(6..16));
    assert_eq!(w.load(0, &s, page(5)), Ok(0));
    assert_eq!((folio(w, &s, page(7)).0, folio(w, &s, page(5)).0), (4, 0));
    w.check(&[&s], &[&object]);
    drop(pin);
    // The next hole in it gives its parts back.
    punch(&object, 8, 1);
    assert_eq!((object.pages(), w.mm.counts().object), (14, 14));
    w.check(&[&s], &[&object]);
}

/// One locked page of a large folio would keep all of it, outside of any limit.
fn a_locked_area_does_not_keep_the_folio<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, object) = (w.process(), object(w, 16));
    shared(&s, &object, AT, 16);
    s.mlock(AT, PAGE_SIZE, true, false).unwrap();
    w.store(0, &s, AT, 7).unwrap();
    punch(&object, 1, 15);
    assert_eq!((object.pages(), w.mm.counts().object), (1, 1));
    w.check(&[&s], &[&object]);
    assert_eq!(w.load(0, &s, AT), Ok(7));
}

fn the_end_splits<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, object) = (w.process(), object(w, 32));
    shared(&s, &object, AT, 32);
    for n in 0..32 {
        w.store(0, &s, page(n), 1).unwrap();
    }
    object.truncate(19 * PAGE_SIZE + 5);
    w.check(&[&s], &[&object]);
    assert_eq!((object.pages(), w.mm.counts().object), (20, 20));
    assert_eq!((folio(w, &s, page(3)).0, mapped(&s, AT, 32).len()), (4, 16));
    object.set_len(32 * PAGE_SIZE);
    assert_eq!(
        (w.load(0, &s, page(18)), w.load(0, &s, page(20))),
        (Ok(1), Ok(0))
    );
    // Of 4 KiB alone: no larger one lies in the rest.
    assert_eq!(folio(w, &s, page(20)).0, 0);
    w.check(&[&s], &[&object]);
}

fn private_mappings_copy_pages<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, t, object) = (w.process(), w.process(), object(w, 16));
    shared(&s, &object, AT, 16);
    w.store(0, &s, page(5), 9).unwrap();
    t.map(of_object(&object, 0, AT, 16, RW, VmaFlags::empty()))
        .unwrap();
    assert_eq!(w.load(1, &t, page(5)), Ok(9));
    w.store(1, &t, page(5), 1).unwrap();
    w.store(1, &t, page(6), 1).unwrap();
    assert_eq!(
        (w.load(0, &s, page(5)), folio(w, &t, page(5)).0),
        (Ok(9), 0)
    );
    w.check(&[&s, &t], &[&object]);
    // A hole takes no copies; a private write at a hole gets a single page.
    punch(&object, 4, 2);
    assert_eq!(
        (w.load(1, &t, page(5)), w.load(1, &t, page(4))),
        (Ok(1), Ok(0))
    );
    w.check(&[&s, &t], &[&object]);
}

fn a_limit_is_in_pages<F: PteFormat>(w: &World<F>) {
    orders(w, &[2, 4]);
    let (s, limit) = (w.process(), PagePool::new(21));
    let object = Object::in_pool(&w.mm, Some(limit.clone()));
    object.set_len(32 * PAGE_SIZE);
    shared(&s, &object, AT, 32);
    for n in [0, 16, 20] {
        w.store(0, &s, page(n), 1).unwrap();
    }
    let found = [0, 16, 20].map(|n| folio(w, &s, page(n)).0);
    assert_eq!((found, limit.used()), ([4, 2, 0], 21));
    assert_eq!(w.store(0, &s, page(21), 1), Err(Resolution::Bus));
    let charge = |order| stat(w, order, Stat::ShmemFallbackCharge);
    assert_eq!((charge(4), charge(2)), (1, 1));
    w.check(&[&s], &[&object]);
    punch(&object, 2, 3);
    assert_eq!(limit.used(), 18);
    drop((s, object));
    assert_eq!(limit.used(), 0);
}

fn memory_is_full<F: PteFormat>(w: &World<F>) {
    orders(w, &[9]);
    let taken = [(); 4].map(|()| w.mm.alloc_kernel(PMD_ORDER).expect("an empty machine"));
    let (s, object) = (w.process(), object(w, 15 * HUGE));
    shared(&s, &object, AT, 15 * HUGE);
    let mut sizes = [(); 15].map(|()| None);
    for (n, size) in (0..).zip(&mut sizes) {
        let at = page(n * HUGE);
        *size = w.store(0, &s, at, 1).ok().map(|()| folio(w, &s, at).0);
        w.check(&[&s], &[&object]);
    }
    let (large, small): (Vec<_>, Vec<_>) = sizes.into_iter().partition(|size| *size == Some(9));
    assert!(
        large.len() > 5 && small[0] == Some(0),
        "{large:?}, {small:?}"
    );
    assert_eq!(stat(w, 9, Stat::ShmemFallback), small.len() as u64);
    assert_eq!(stat(w, 9, Stat::ShmemFallbackCharge), 0);
    taken
        .into_iter()
        .for_each(|block| w.mm.free_kernel(block, PMD_ORDER));
}

fn register<F: PteFormat>(s: &Process<F>, pages: u64, flags: VmaFlags) {
    let with = Registration { monitor: 3, flags };
    s.userfault_register(VirtRange::new(AT, page(pages)), with)
        .unwrap();
}

fn first_accesses_are_watched<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, t, object) = (w.process(), w.process(), object(w, 32));
    shared(&s, &object, AT, 32);
    shared(&t, &object, AT, 32);
    register(&s, 32, VmaFlags::UFFD_MISSING | VmaFlags::UFFD_MINOR);
    assert_eq!(w.load(0, &s, page(3)), Err(Resolution::Userfault));
    let fill = |n| {
        let at = VirtRange::new(page(n), page(n + 1));
        s.userfault_fill(at, page(n), Content::Bytes(&[7; PAGE_SIZE as usize]), false)
    };
    fill(3).unwrap();
    assert_eq!(
        (w.load(0, &s, page(3)), folio(w, &s, page(3)).0),
        (Ok(7), 0)
    );
    // What another space has brought in is mapped page by page.
    w.store(1, &t, page(20), 5).unwrap();
    assert_eq!(
        (folio(w, &t, page(20)).0, w.load(0, &s, page(20))),
        (4, Err(Resolution::Userfault))
    );
    let at = VirtRange::new(page(20), page(21));
    s.userfault_fill(at, page(20), Content::Object, false)
        .unwrap();
    assert_eq!(w.load(0, &s, page(20)), Ok(5));
    assert_eq!(mapped(&s, AT, 32), [3, 20]);
    w.check(&[&s, &t], &[&object]);
    s.userfault_unregister(VirtRange::new(AT, page(32)), 3)
        .unwrap();
    // Soft-dirty: the first write of each page is to be seen.
    t.unmap(AT, 32 * PAGE_SIZE).unwrap();
    shared(&t, &object, AT, 32);
    t.clear_soft_dirty().unwrap();
    w.store(1, &t, page(22), 5).unwrap();
    assert_eq!(mapped(&t, AT, 32), [22]);
    w.check(&[&s, &t], &[&object]);
}

fn a_monitor_protects<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, t, object) = (w.process(), w.process(), object(w, 32));
    shared(&s, &object, AT, 32);
    shared(&t, &object, AT, 32);
    w.store(0, &s, page(3), 1).unwrap();
    register(&s, 32, VmaFlags::UFFD_WP);
    s.userfault_protect(VirtRange::new(AT, page(32)), true)
        .unwrap();
    w.check(&[&s, &t], &[&object]);
    assert_eq!(w.store(0, &s, page(4), 1), Err(Resolution::Userfault));
    assert_eq!(w.load(0, &s, page(4)), Ok(0));
    // A hole in the folio leaves the marks of all of it.
    punch(&object, 2, 1);
    w.check(&[&s, &t], &[&object]);
    assert_eq!(w.mm.counts().object, 15);
    assert_eq!(w.store(0, &s, page(9), 1), Err(Resolution::Userfault));
    assert_eq!(
        (w.load(0, &s, page(3)), w.load(0, &s, page(2))),
        (Ok(1), Ok(0))
    );
    s.userfault_protect(VirtRange::new(AT, page(32)), false)
        .unwrap();
    w.store(0, &s, page(9), 1).unwrap();
    w.check(&[&s, &t], &[&object]);
}

fn a_monitor_is_gone_after_mremap<F: PteFormat>(w: &World<F>) {
    for order in ORDERS {
        orders(w, &[order]);
        let pages = Order(order).pages();
        let (s, object) = (w.process(), object(w, 2 * pages));
        let (at, to) = (page(0), page(4 * HUGE));
        shared(&s, &object, at, 2 * pages);
        w.store(0, &s, at, 1).unwrap();
        assert_eq!(
            (folio(w, &s, at).0, mapped(&s, at, pages).len() as u64),
            (order, pages)
        );
        register(&s, pages, VmaFlags::UFFD_WP);
        s.userfault_protect(VirtRange::new(at, page(pages)), true)
            .unwrap();
        let protected = |at: VirtAddr| {
            (0..pages)
                .filter(|n| s.page_info(at + n * PAGE_SIZE).write_protected)
                .count() as u64
        };
        assert_eq!(protected(at), pages);
        w.check(&[&s], &[&object]);
        move_to(&s, at, pages, to);
        assert_eq!(
            (protected(to), mapped(&s, to, pages).len() as u64),
            (0, pages)
        );
        w.store(0, &s, to, 2).unwrap();
        w.check(&[&s], &[&object]);
    }
}

fn a_page_is_lost<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, t, object) = (w.process(), w.process(), object(w, 16));
    shared(&s, &object, AT, 16);
    shared(&t, &object, AT, 16);
    w.store(0, &s, page(3), 1).unwrap();
    w.load(1, &t, page(3)).unwrap();
    let pin = s.pin(page(9)).unwrap();
    assert_eq!(s.offline(page(4), Offline::Hard), Err(Error::Busy));
    w.check(&[&s, &t], &[&object]);
    drop(pin);
    assert_eq!(s.offline(page(4), Offline::Hard), Ok(16 * PAGE_SIZE));
    w.check(&[&s, &t], &[&object]);
    assert_eq!(w.load(1, &t, page(4)), Err(Resolution::Poisoned(Order(0))));
    assert_eq!(w.load(1, &t, page(3)), Ok(1));
    w.check(&[&s, &t], &[&object]);
}

fn a_page_moves<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, object) = (w.process(), object(w, 16));
    shared(&s, &object, AT, 16);
    w.store(0, &s, page(3), 1).unwrap();
    let frame = folio(w, &s, page(3)).1;
    assert_eq!(s.offline(page(3), Offline::Soft), Ok(16 * PAGE_SIZE));
    assert_eq!(w.load(0, &s, page(3)), Ok(1));
    assert_ne!(folio(w, &s, page(3)).1, frame);
    w.check(&[&s], &[&object]);
}

fn is_leaf<F: PteFormat>(s: &Process<F>, at: VirtAddr) -> bool {
    s.page_info(at).huge
}

/// Two spaces that map a folio of 2 MiB by a leaf each.
fn with_leaves<F: PteFormat>(w: &World<F>) -> (Process<F>, Process<F>, O<F>) {
    orders(w, &[9]);
    let (s, t, object) = (w.process(), w.process(), object(w, 2 * HUGE));
    shared(&s, &object, AT, 2 * HUGE);
    shared(&t, &object, page(8 * HUGE), 2 * HUGE);
    w.store(0, &s, page(7), 7).unwrap();
    w.load(1, &t, page(8 * HUGE)).unwrap();
    assert!(is_leaf(&s, AT) && is_leaf(&t, page(8 * HUGE)));
    assert_eq!(w.mm.thp().shmem(), (1, 2));
    w.check(&[&s, &t], &[&object]);
    (s, t, object)
}

fn leaves<F: PteFormat>(w: &World<F>) {
    let (s, t, object) = with_leaves(w);
    assert_eq!(s.smaps(AT).unwrap().shmem_huge, HUGE * PAGE_SIZE);
    assert_eq!(s.usage().rss.shmem, HUGE);
    let child = w.adopt(s.fork().unwrap());
    w.check(&[&s, &t, &child], &[&object]);
    assert_eq!(w.load(0, &child, page(7)), Ok(7));
    assert_eq!(w.mm.thp().shmem(), (1, 3));
    w.store(0, &child, page(8), 8).unwrap();
    // Whole, it moves as one; by other offsets it does not.
    move_to(&s, AT, HUGE, page(4 * HUGE));
    assert!(is_leaf(&s, page(4 * HUGE)));
    w.check(&[&s, &t, &child], &[&object]);
    move_to(&s, page(4 * HUGE), HUGE, page(1));
    assert!(!is_leaf(&s, page(1)));
    assert_eq!(w.load(0, &s, page(9)), Ok(8));
    w.check(&[&s, &t, &child], &[&object]);
    // An area that ends before, and one that has a page there already.
    let u = w.process();
    shared(&u, &object, AT, HUGE - 1);
    w.load(0, &u, AT).unwrap();
    assert!(!is_leaf(&u, AT) && mapped(&u, AT, HUGE).len() as u64 == HUGE - 1);
    w.check(&[&s, &t, &child, &u], &[&object]);
    // A process without large folios.
    let v = w.process();
    v.change_thp_permit(|permit| Permit::new(Disable::Yes, permit.orders()));
    shared(&v, &object, AT, 2 * HUGE);
    w.load(0, &v, AT).unwrap();
    w.store(0, &v, page(HUGE), 1).unwrap();
    assert!(!is_leaf(&v, AT) && folio(w, &v, page(HUGE)).0 == 0);
    w.check(&[&s, &t, &child, &u, &v], &[&object]);
}

fn parts_of_a_leaf<F: PteFormat>(w: &World<F>) {
    let (s, t, object) = with_leaves(w);
    s.protect(page(3), 2 * PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(
        (w.load(0, &s, page(7)), w.mm.thp().shmem()),
        (Ok(7), (1, 1))
    );
    assert_eq!(mapped(&s, AT, HUGE).len() as u64, HUGE);
    w.check(&[&s, &t], &[&object]);
    s.protect(page(3), 2 * PAGE_SIZE, RW).unwrap();
    t.unmap(page(8 * HUGE + 5), PAGE_SIZE).unwrap();
    w.check(&[&s, &t], &[&object]);
    s.advise(page(0), HUGE * PAGE_SIZE, Advice::DontNeed)
        .unwrap();
    w.check(&[&s, &t], &[&object]);
    w.store(0, &s, page(9), 9).unwrap();
    assert!(is_leaf(&s, AT));
    s.protect(AT, HUGE * PAGE_SIZE, Prot::READ).unwrap();
    assert!(is_leaf(&s, AT));
    assert_eq!(w.store(0, &s, page(9), 1), Err(Resolution::Denied));
    s.advise(page(100), PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(
        (w.load(0, &s, page(100)), w.load(1, &t, page(8 * HUGE + 9))),
        (Ok(0), Ok(9))
    );
    w.check(&[&s, &t], &[&object]);
}

fn a_hole_under_a_leaf<F: PteFormat>(w: &World<F>) {
    let (s, t, object) = with_leaves(w);
    punch(&object, 100, 3);
    assert_eq!((object.pages(), w.mm.counts().object), (HUGE - 3, HUGE - 3));
    assert_eq!(w.mm.thp().shmem(), (0, 0));
    w.check(&[&s, &t], &[&object]);
    assert_eq!(
        (w.load(0, &s, page(7)), w.load(1, &t, page(8 * HUGE + 100))),
        (Ok(7), Ok(0))
    );
    w.check(&[&s, &t], &[&object]);
    // The end, while a pin keeps the folio.
    w.store(0, &s, page(HUGE), 3).unwrap();
    let pin = s.pin(page(HUGE + 9)).unwrap();
    object.truncate((HUGE + 4) * PAGE_SIZE);
    w.check(&[&s, &t], &[&object]);
    assert_eq!(
        (w.load(0, &s, page(HUGE)), w.mm.counts().object),
        (Ok(3), 2 * HUGE - 2)
    );
    assert_eq!(w.load(0, &s, page(HUGE + 4)), Err(Resolution::Bus));
    drop(pin);
    w.check(&[&s, &t], &[&object]);
}

fn a_protected_leaf<F: PteFormat>(w: &World<F>) {
    let (s, t, object) = with_leaves(w);
    register(&s, 2 * HUGE, VmaFlags::UFFD_WP);
    assert!(is_leaf(&s, AT));
    s.userfault_protect(VirtRange::new(AT, page(2 * HUGE)), true)
        .unwrap();
    assert!(!is_leaf(&s, AT));
    w.check(&[&s, &t], &[&object]);
    punch(&object, 10, 1);
    w.check(&[&s, &t], &[&object]);
    assert_eq!(w.store(0, &s, page(7), 1), Err(Resolution::Userfault));
    assert_eq!(w.store(0, &s, page(10), 1), Err(Resolution::Userfault));
    assert_eq!(w.load(0, &s, page(7)), Ok(7));
    w.check(&[&s, &t], &[&object]);
}

fn collapse<F: PteFormat>(s: &Process<F>, at: VirtAddr) -> Result<(), Error> {
    s.advise(at, HUGE * PAGE_SIZE, Advice::Collapse)
}

fn what_a_monitor_waits_for_stays_a_hole<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, t, object) = (w.process(), w.process(), object(w, HUGE));
    shared(&s, &object, AT, HUGE);
    shared(&t, &object, AT, HUGE);
    w.store(0, &t, AT, 5).unwrap();
    register(&s, HUGE, VmaFlags::UFFD_MISSING);
    for asks in [&s, &t] {
        assert_eq!(collapse(asks, AT), Err(Error::Busy));
        assert_eq!(w.load(0, &s, page(99)), Err(Resolution::Userfault));
    }
    w.check(&[&s, &t], &[&object]);
}

fn a_range_collapses<F: PteFormat>(w: &World<F>) {
    orders(w, &[4]);
    let (s, t, limit) = (w.process(), w.process(), PagePool::new(3 * HUGE));
    let object = Object::in_pool(&w.mm, Some(limit.clone()));
    object.set_len(3 * HUGE * PAGE_SIZE - PAGE_SIZE);
    shared(&s, &object, AT, 3 * HUGE);
    shared(&t, &object, page(8 * HUGE + 1), 3 * HUGE);
    // Nothing is there.
    assert_eq!(collapse(&s, AT), Err(Error::Inval));
    w.store(0, &s, page(5), 5).unwrap();
    object.write_at(100 * PAGE_SIZE, &[9]).unwrap();
    w.load(1, &t, page(8 * HUGE + 101)).unwrap();
    let pin = s.pin(page(6)).unwrap();
    assert_eq!(collapse(&s, AT), Err(Error::Again));
    w.check(&[&s, &t], &[&object]);
    drop(pin);
    let before = w.mm.counts().object;
    assert_eq!(collapse(&s, AT), Ok(()));
    w.check(&[&s, &t], &[&object]);
    assert_eq!(w.mm.counts().object, before - 17 + HUGE);
    assert_eq!((limit.used(), object.pages()), (HUGE, HUGE));
    assert!(is_leaf(&s, AT));
    let seen = [5, 100, 7].map(|n| w.load(0, &s, page(n)));
    assert_eq!(seen, [Ok(5), Ok(9), Ok(0)]);
    assert_eq!(w.load(1, &t, page(8 * HUGE + 101)), Ok(9));
    assert_eq!(collapse(&s, AT), Ok(()));
    // Where offsets are others, and where the object ends before.
    assert_eq!(collapse(&t, page(9 * HUGE)), Err(Error::Inval));
    w.store(0, &s, page(2 * HUGE), 1).unwrap();
    assert_eq!(collapse(&s, page(2 * HUGE)), Err(Error::Inval));
    w.check(&[&s, &t], &[&object]);
    // In a monitor's area, too, where faults are asked for.
    w.store(1, &t, page(9 * HUGE + 1), 3).unwrap();
    let with = Registration {
        monitor: 3,
        flags: VmaFlags::UFFD_MINOR,
    };
    let second = VirtRange::new(page(HUGE), page(2 * HUGE));
    s.userfault_register(second, with).unwrap();
    assert_eq!(w.load(0, &s, page(HUGE)), Err(Resolution::Userfault));
    assert_eq!(collapse(&s, page(HUGE)), Ok(()));
    assert_eq!(w.load(0, &s, page(HUGE)), Ok(3));
    assert!(is_leaf(&s, page(HUGE)));
    w.check(&[&s, &t], &[&object]);
}

fn the_place_suits_the_folios<F: PteFormat>(w: &World<F>) {
    let (s, object) = (w.process(), object(w, 4 * HUGE));
    let map = |offset, pages| {
        let fixed = of_object(&object, offset, AT, pages, RW, VmaFlags::SHARED);
        let place = Place::Hint(VirtAddr(0));
        let at = s.map(MapRequest { place, ..fixed }).unwrap();
        (at.0 / PAGE_SIZE).wrapping_sub(offset)
    };
    map(0, 1);
    let unaligned = map(3, HUGE + 7);
    orders(w, &[2, 4, 9]);
    for (pages, unit) in [(3, 1), (5, 4), (17, 16), (HUGE + 7, HUGE)] {
        assert_eq!(map(3, pages) % unit, 0, "{pages}");
    }
    assert_ne!(unaligned % HUGE, 0);
    w.check(&[&s], &[&object]);
}
