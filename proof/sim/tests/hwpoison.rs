//! Pages that go out of use (MADV_HWPOISON, MADV_SOFT_OFFLINE): who loses what, and that their
//! frames are never used again. `check::all` after each step counts them.

mod common;

use arch_sim::{Process, Sim, World};
use common::{AT, RW, anon, map, of_object, on_both_by_run, page, run_on, sizes, with_hwpoison};
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::frame::Kind;
use mm::hugetlb;
use mm::object::{Object, PagePool};
use mm::vma::{Backing, VmaFlags};
use mm::{Advice, Error, MapRequest, Offline, Place, Registration};
use std::sync::Arc;

on_both_by_run! {
    a_private_page_is_lost
    all_who_share_lose
    a_large_folio_is_split_first
    a_pinned_page_goes_with_the_pin
    an_object_remembers
    private_copies_stay
    what_is_truncated_is_forgotten
    a_private_huge_page_is_lost
    of_a_huge_page_the_rest_can_be_read
    contents_move
    all_who_share_get_copies
    a_page_of_an_object_moves
    huge_pages_move
    protection_moves_with_huge_pages
    what_cannot_go
    no_memory_to_move_to
}

const LOST: Resolution = Resolution::Poisoned(Order(0));

/// Runs a test on machines with room for some huge pages; what it has lost is all that is missing
/// afterwards.
fn run<F: PteFormat>(test: fn(&World<F>)) {
    run_on(9 << 13, test, with_hwpoison);
}

type O<F> = Arc<Object<Sim<F>>>;

fn lose<F: PteFormat>(s: &Process<F>, at: VirtAddr) -> Result<u64, Error> {
    s.offline(at, Offline::Hard)
}
fn leave<F: PteFormat>(s: &Process<F>, at: VirtAddr) -> Result<u64, Error> {
    s.offline(at, Offline::Soft)
}

fn frame<F: PteFormat>(s: &Process<F>, at: VirtAddr) -> Pfn {
    let info = s.page_info(at);
    assert!(info.present, "{at:?} is not mapped");
    Pfn(info.pfn)
}

/// The frame of a page that is loaded first.
fn frame_of<F: PteFormat>(w: &World<F>, s: &Process<F>, at: VirtAddr) -> Pfn {
    w.load(0, s, at).unwrap();
    frame(s, at)
}

fn kind<F: PteFormat>(w: &World<F>, frame: Pfn) -> Kind {
    w.mm.frames().get(frame).kind()
}

fn is_retired<F: PteFormat>(w: &World<F>, frame: Pfn) -> bool {
    w.mm.frames().get(frame).is_retired()
}

fn object<F: PteFormat>(w: &World<F>, pages: u64) -> O<F> {
    let object = Object::new(&w.mm);
    for page in 0..pages {
        let bytes = [1 + page as u8; PAGE_SIZE as usize];
        object.write_at(page * PAGE_SIZE, &bytes).unwrap();
    }
    object
}

fn shared<F: PteFormat>(s: &Process<F>, object: &O<F>, at: VirtAddr, pages: u64) {
    s.map(of_object(object, 0, at, pages, RW, VmaFlags::SHARED))
        .unwrap();
}

/// A mapping of huge pages: of a file, or private ones.
fn huge<F: PteFormat>(w: &World<F>, s: &Process<F>, order: Order, file: Option<&O<F>>, pages: u64) {
    let (object, flags) = match file {
        Some(file) => (file.clone(), VmaFlags::SHARED),
        None => (
            Object::huge_private(&w.mm, order, None, s.root()),
            VmaFlags::empty(),
        ),
    };
    let (offset, file) = (0, None);
    s.map(MapRequest {
        backing: Backing::Object {
            object: object.into(),
            offset,
            file,
        },
        flags: flags | VmaFlags::HUGETLB,
        ..anon(Place::Fixed(AT), pages * order.pages(), RW)
    })
    .unwrap();
}

fn a_private_page_is_lost<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 3, RW);
    (0..3).for_each(|n| w.store(0, &s, page(n), 1 + n as u8).unwrap());
    let bad = frame(&s, page(1));
    assert_eq!(lose(&s, page(1) + 5), Ok(PAGE_SIZE));
    w.check(&[&s], &[]);
    assert!(is_retired(w, bad));
    assert_eq!((w.mm.hwpoisoned(), s.usage().rss.anon), (1, 2));
    for cpu in 0..2 {
        assert_eq!(w.load(cpu, &s, page(1)), Err(LOST));
        assert_eq!(w.store(cpu, &s, page(1), 1), Err(LOST));
        assert_eq!(w.load(cpu, &s, page(2)), Ok(3));
    }
    assert_eq!(s.write(page(1), &[1], false), 0);
    assert_eq!(lose(&s, page(1)), Err(Error::HwPoison));
    assert_eq!(leave(&s, page(1)), Err(Error::HwPoison));
    // A child has it as well, and a page in its place once it was dropped.
    let child = w.adopt(s.fork().unwrap());
    w.check(&[&s, &child], &[]);
    assert_eq!(w.load(0, &child, page(1)), Err(LOST));
    child.advise(page(1), PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!(w.load(0, &child, page(1)), Ok(0));
    assert_eq!(w.load(0, &s, page(1)), Err(LOST));
    w.check(&[&s, &child], &[]);
}

fn all_who_share_lose<F: PteFormat>(w: &World<F>) {
    let parent = w.process();
    map(&parent, AT, 2, RW);
    (0..2).for_each(|n| w.store(0, &parent, page(n), 1).unwrap());
    let child = w.adopt(parent.fork().unwrap());
    let other = w.adopt(parent.fork().unwrap());
    // It has a page of its own by now.
    w.store(0, &other, page(0), 2).unwrap();
    let bad = frame(&parent, AT);
    assert_eq!(lose(&child, AT), Ok(PAGE_SIZE));
    w.check(&[&parent, &child, &other], &[]);
    assert!(is_retired(w, bad));
    assert_eq!(w.load(0, &parent, AT), Err(LOST));
    assert_eq!(w.load(1, &child, AT), Err(LOST));
    assert_eq!(w.load(0, &other, AT), Ok(2));
    assert_eq!(w.load(0, &child, page(1)), Ok(1));
}

fn a_large_folio_is_split_first<F: PteFormat>(w: &World<F>) {
    for order in [4, 9] {
        sizes(w, &[order]);
        let (s, pages) = (w.process(), 1 << order);
        map(&s, AT, pages, RW);
        (0..pages).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
        let size = Order(order).bytes();
        let lost = w.mm.hwpoisoned();
        assert_eq!(lose(&s, page(5)), Ok(size));
        w.check(&[&s], &[]);
        assert_eq!(w.mm.hwpoisoned(), lost + 1);
        for n in 0..pages {
            let expected = if n == 5 { Err(LOST) } else { Ok(n as u8) };
            assert_eq!(w.load(0, &s, page(n)), expected);
        }
        // One that a child has, too, cannot be split.
        let at = AT + 2 * hugetlb::DEFAULT.bytes();
        map(&s, at, pages, RW);
        w.store(0, &s, at, 1).unwrap();
        let child = w.adopt(s.fork().unwrap());
        assert_eq!(lose(&s, at), Err(Error::Busy));
        assert_eq!(leave(&s, at), Err(Error::Busy));
        assert_eq!(w.load(0, &s, at), Ok(1));
        assert_eq!(w.mm.hwpoisoned(), lost + 1);
        w.check(&[&s, &child], &[]);
    }
    sizes(w, &[]);
}

fn a_pinned_page_goes_with_the_pin<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 1, RW);
    w.store(0, &s, AT, 1).unwrap();
    let bad = frame(&s, AT);
    let pin = s.pin(AT).unwrap();
    assert_eq!(leave(&s, AT), Err(Error::Busy));
    assert_eq!((frame(&s, AT), w.mm.hwpoisoned()), (bad, 0));
    w.check(&[&s], &[]);
    assert_eq!(lose(&s, AT), Err(Error::Busy));
    w.check(&[&s], &[]);
    assert_eq!(w.load(0, &s, AT), Err(LOST));
    assert_eq!(w.mm.hwpoisoned(), 1);
    let mut byte = [0];
    pin.read(0, &mut byte);
    assert_eq!((byte, kind(w, bad)), ([1], Kind::Anon));
    drop(pin);
    assert_eq!((w.mm.pins(), is_retired(w, bad)), (0, true));
    w.check(&[&s], &[]);
    // The same with an object's page.
    let object = object(w, 1);
    shared(&s, &object, page(1), 1);
    let bad = frame_of(w, &s, page(1));
    let (first, second) = (
        s.pin(page(1)).unwrap(),
        s.pin_long_term(page(1), Access::Write).unwrap(),
    );
    assert_eq!(lose(&s, page(1)), Err(Error::Busy));
    drop(first);
    w.check(&[&s], &[&object]);
    assert_eq!(kind(w, bad), Kind::Object);
    drop(second);
    assert!(is_retired(w, bad));
    w.check(&[&s], &[&object]);
}

fn an_object_remembers<F: PteFormat>(w: &World<F>) {
    let (a, b) = (w.process(), w.process());
    let limit = PagePool::new(3);
    let object = Object::in_pool(&w.mm, Some(limit.clone()));
    object.write_at(0, &[7; 3 * PAGE_SIZE as usize]).unwrap();
    shared(&a, &object, AT, 3);
    shared(&b, &object, page(100), 3);
    w.load(0, &a, page(1)).unwrap();
    w.store(1, &b, page(101), 9).unwrap();
    let bad = frame(&a, page(1));
    assert_eq!(lose(&a, page(1)), Ok(PAGE_SIZE));
    w.check(&[&a, &b], &[&object]);
    assert!(is_retired(w, bad));
    assert_eq!(w.load(0, &a, page(1)), Err(LOST));
    assert_eq!(w.store(1, &b, page(101), 1), Err(LOST));
    assert_eq!(w.load(0, &a, page(2)), Ok(7));
    assert_eq!(w.load(0, &b, page(100)), Ok(7));
    // It can be read up to there, and from behind it.
    let mut bytes = [0; 3 * PAGE_SIZE as usize];
    assert_eq!(object.read_at(5, &mut bytes), PAGE_SIZE as usize - 5);
    assert_eq!(object.read_at(PAGE_SIZE + 9, &mut bytes), 0);
    assert!(object.is_hwpoison(1) && !object.is_hwpoison(2));
    assert_eq!(
        object.read_at(2 * PAGE_SIZE, &mut bytes),
        PAGE_SIZE as usize
    );
    assert!(object.write_at(PAGE_SIZE, &[1]).is_err());
    assert!(object.write_at(2 * PAGE_SIZE, &[1]).is_ok());
    object.reserve(0, 3 * PAGE_SIZE).unwrap();
    // It counts until it is punched out.
    assert_eq!((object.pages(), limit.used()), (3, 3));
    assert!(object.punch_step(PAGE_SIZE, PAGE_SIZE));
    assert_eq!((object.pages(), limit.used()), (2, 2));
    assert_eq!(w.load(0, &a, page(1)), Ok(0));
    assert_eq!(object.read_at(PAGE_SIZE, &mut bytes), bytes.len() / 3 * 2);
    w.check(&[&a, &b], &[&object]);
    // The object ends with one that is lost.
    assert_eq!(lose(&b, page(100)), Ok(PAGE_SIZE));
    drop((a, b, object));
    assert_eq!(limit.used(), 0);
}

fn private_copies_stay<F: PteFormat>(w: &World<F>) {
    let (a, b) = (w.process(), w.process());
    let object = object(w, 2);
    let private = |s: &Process<F>| {
        s.map(of_object(&object, 0, AT, 2, RW, VmaFlags::empty()))
            .unwrap()
    };
    private(&a);
    private(&b);
    w.store(0, &a, AT, 5).unwrap();
    assert_eq!(w.load(0, &b, AT), Ok(1));
    assert_eq!(lose(&b, AT), Ok(PAGE_SIZE));
    w.check(&[&a, &b], &[&object]);
    assert_eq!(w.load(0, &a, AT), Ok(5));
    assert_eq!(w.store(0, &b, AT, 1), Err(LOST));
    // A copy is lost alone.
    w.store(0, &b, page(1), 6).unwrap();
    assert_eq!(lose(&b, page(1)), Ok(PAGE_SIZE));
    assert_eq!(w.load(0, &b, page(1)), Err(LOST));
    assert_eq!(w.load(0, &a, page(1)), Ok(2));
    w.check(&[&a, &b], &[&object]);
}

fn what_is_truncated_is_forgotten<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    let object = object(w, 3);
    shared(&s, &object, AT, 3);
    assert_eq!(lose(&s, page(1)), Ok(PAGE_SIZE));
    assert_eq!(lose(&s, page(2)), Ok(PAGE_SIZE));
    object.truncate(2 * PAGE_SIZE);
    object.set_len(3 * PAGE_SIZE);
    assert_eq!(w.load(0, &s, page(1)), Err(LOST));
    assert_eq!(w.load(0, &s, page(2)), Ok(0));
    w.check(&[&s], &[&object]);
}

fn a_private_huge_page_is_lost<F: PteFormat>(w: &World<F>) {
    for &order in hugetlb::sizes::<F>() {
        let size = order.bytes();
        let before = w.mm.hwpoisoned();
        w.mm.resize_hugetlb(order, 3);
        let s = w.process();
        huge(w, &s, order, None, 2);
        w.store(0, &s, page(3), 1).unwrap();
        w.store(0, &s, AT + size, 2).unwrap();
        let child = w.adopt(s.fork().unwrap());
        let bad = frame(&s, page(3));
        assert_eq!(lose(&s, page(3)), Ok(size));
        w.check(&[&s, &child], &[]);
        for space in [&s, &child] {
            let lost = Resolution::Poisoned(order);
            assert_eq!(w.load(0, space, page(9)), Err(lost));
            assert_eq!(w.load(0, space, AT + size), Ok(2));
        }
        assert!(is_retired(w, bad));
        assert_eq!(
            (w.mm.hugetlb(order).total, w.mm.hwpoisoned() - before),
            (2, 1)
        );
        // A later child has the poison, too; what is dropped is new.
        let later = w.adopt(s.fork().unwrap());
        w.check(&[&s, &child, &later], &[]);
        assert!(w.load(0, &later, AT).is_err());
        s.advise(AT, size, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, &s, page(3)), Ok(0));
        w.check(&[&s, &child, &later], &[]);
        drop((s, child, later));
        assert_eq!(w.mm.hugetlb(order).free, 2);
        w.mm.resize_hugetlb(order, 0);
    }
}

fn of_a_huge_page_the_rest_can_be_read<F: PteFormat>(w: &World<F>) {
    for &order in hugetlb::sizes::<F>() {
        let (size, pages) = (order.bytes(), order.pages());
        w.mm.resize_hugetlb(order, 3);
        let s = w.process();
        let object = Object::huge(&w.mm, order, None);
        object.set_len(2 * size);
        huge(w, &s, order, Some(&object), 2);
        w.store(0, &s, AT + (size + PAGE_SIZE - 1), 3).unwrap();
        w.store(0, &s, AT, 1).unwrap();
        let bad = AT + size + 7 * PAGE_SIZE;
        let bad_frame = frame(&s, bad);
        assert_eq!(lose(&s, bad), Ok(size));
        w.check(&[&s], &[&object]);
        let lost = Resolution::Poisoned(order);
        assert_eq!(w.load(0, &s, AT + size), Err(lost));
        assert_eq!(w.load(0, &s, AT), Ok(1));
        assert_eq!(lose(&s, bad), Err(Error::HwPoison));
        let mut bytes = vec![0; 2 * size as usize];
        let intact = size + 7 * PAGE_SIZE;
        assert_eq!(object.read_at(0, &mut bytes), intact as usize);
        assert_eq!((bytes[0], bytes[(size + PAGE_SIZE) as usize - 1]), (1, 3));
        assert_eq!(object.read_at(intact, &mut bytes), 0);
        let behind = object.read_at(intact + PAGE_SIZE, &mut bytes);
        assert_eq!(behind as u64, size - 8 * PAGE_SIZE);
        // It is of the file, and of the pool, until it is punched out.
        assert_eq!((object.pages(), w.mm.hugetlb(order).total), (2 * pages, 3));
        while !object.punch_step(size, size) {}
        assert!(is_retired(w, bad_frame));
        assert_eq!((object.pages(), w.mm.hugetlb(order).total), (pages, 2));
        w.check(&[&s], &[&object]);
        assert_eq!(w.load(0, &s, AT + size), Ok(0));
        // The file ends with one.
        assert_eq!(lose(&s, AT), Ok(size));
        w.check(&[&s], &[&object]);
        drop((s, object));
        let figures = w.mm.hugetlb(order);
        assert_eq!((figures.total, figures.free), (1, 1));
        w.mm.resize_hugetlb(order, 0);
    }
}

fn contents_move<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 2, RW);
    w.store(0, &s, page(1), 7).unwrap();
    w.load(1, &s, page(1)).unwrap();
    let old = frame(&s, page(1));
    assert_eq!(leave(&s, page(1)), Ok(PAGE_SIZE));
    w.check(&[&s], &[]);
    assert_ne!(frame(&s, page(1)), old);
    assert!(is_retired(w, old));
    assert_eq!(w.load(1, &s, page(1)), Ok(7));
    assert_eq!(w.store(0, &s, page(1), 8), Ok(()));
    assert_eq!(s.usage().rss.anon, 1);
    w.check(&[&s], &[]);
}

fn all_who_share_get_copies<F: PteFormat>(w: &World<F>) {
    let parent = w.process();
    map(&parent, AT, 1, RW);
    w.store(0, &parent, AT, 7).unwrap();
    let child = w.adopt(parent.fork().unwrap());
    let old = frame(&parent, AT);
    assert_eq!(leave(&parent, AT), Ok(PAGE_SIZE));
    w.check(&[&parent, &child], &[]);
    assert!(is_retired(w, old));
    w.store(0, &child, AT, 8).unwrap();
    assert_eq!(w.load(0, &parent, AT), Ok(7));
    assert_eq!(w.load(1, &child, AT), Ok(8));
    // Who has a pin keeps it.
    let other = w.adopt(parent.fork().unwrap());
    let pin = other.pin(AT).unwrap();
    assert_eq!(leave(&parent, AT), Err(Error::Busy));
    w.check(&[&parent, &child, &other], &[]);
    drop(pin);
    assert_eq!(
        (w.load(0, &other, AT), w.load(0, &parent, AT)),
        (Ok(7), Ok(7))
    );
    assert_eq!(w.mm.hwpoisoned(), 1);
}

fn a_page_of_an_object_moves<F: PteFormat>(w: &World<F>) {
    let (a, b) = (w.process(), w.process());
    let object = object(w, 2);
    shared(&a, &object, AT, 2);
    shared(&b, &object, page(100), 2);
    w.store(0, &a, page(1), 8).unwrap();
    w.load(1, &b, page(101)).unwrap();
    let old = frame(&a, page(1));
    assert_eq!(leave(&b, page(101)), Ok(PAGE_SIZE));
    w.check(&[&a, &b], &[&object]);
    assert!(is_retired(w, old));
    assert_eq!(w.load(0, &a, page(1)), Ok(8));
    w.store(0, &a, page(1), 9).unwrap();
    assert_eq!(w.load(1, &b, page(101)), Ok(9));
    // A pin keeps its page.
    let pin = a.pin_long_term(page(1), Access::Write).unwrap();
    assert_eq!(leave(&b, page(101)), Err(Error::Busy));
    assert_eq!(w.mm.hwpoisoned(), 1);
    w.check(&[&a, &b], &[&object]);
    drop(pin);
}

fn huge_pages_move<F: PteFormat>(w: &World<F>) {
    for &order in hugetlb::sizes::<F>() {
        let size = order.bytes();
        w.mm.resize_hugetlb(order, 5);
        let s = w.process();
        huge(w, &s, order, None, 1);
        w.store(0, &s, page(3), 4).unwrap();
        assert_eq!(leave(&s, page(3)), Ok(size));
        w.check(&[&s], &[]);
        assert_eq!(w.load(1, &s, page(3)), Ok(4));
        assert_eq!(w.store(1, &s, page(3), 5), Ok(()));
        let figures = w.mm.hugetlb(order);
        assert_eq!((figures.total, figures.free), (4, 3));
        s.unmap(AT, size).unwrap();
        let object = Object::huge(&w.mm, order, None);
        object.set_len(size);
        huge(w, &s, order, Some(&object), 1);
        w.store(0, &s, page(7), 4).unwrap();
        assert_eq!(leave(&s, AT), Ok(size));
        w.check(&[&s], &[&object]);
        assert_eq!(w.load(1, &s, page(7)), Ok(4));
        assert_eq!(w.mm.hugetlb(order).total, 3);
        // Without another one it stays.
        w.mm.resize_hugetlb(order, 1);
        assert_eq!(leave(&s, AT), Err(Error::NoMem));
        assert_eq!(w.load(1, &s, page(7)), Ok(4));
        w.check(&[&s], &[&object]);
        drop((s, object));
        w.mm.resize_hugetlb(order, 0);
    }
}

fn protection_moves_with_huge_pages<F: PteFormat>(w: &World<F>) {
    let monitor = Registration {
        monitor: 1,
        flags: VmaFlags::UFFD_WP,
    };
    for &order in hugetlb::sizes::<F>() {
        let size = order.bytes();
        for of_file in [false, true] {
            w.mm.resize_hugetlb(order, 3);
            let object = of_file.then(|| Object::huge(&w.mm, order, None));
            object.iter().for_each(|object| object.set_len(size));
            let s = w.process();
            huge(w, &s, order, object.as_ref(), 1);
            w.store(0, &s, page(3), 4).unwrap();
            let all = VirtRange::new(AT, AT + size);
            s.userfault_register(all, monitor).unwrap();
            s.userfault_protect(all, true).unwrap();
            let before = frame(&s, page(3));
            assert_eq!(leave(&s, page(3)), Ok(size));
            w.check(&[&s], object.as_ref().as_slice());
            assert_eq!(w.store(0, &s, page(2), 5), Err(Resolution::Userfault));
            assert_ne!(frame_of(w, &s, page(3)), before);
            assert_eq!(w.load(1, &s, page(3)), Ok(4));
            assert!(s.page_info(page(5)).write_protected);
            drop((s, object));
            w.mm.resize_hugetlb(order, 0);
        }
    }
}

fn what_cannot_go<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 2, RW);
    assert_eq!(lose(&s, page(2)), Err(Error::Fault));
    // The page of zeros.
    assert_eq!(lose(&s, AT), Err(Error::Busy));
    assert_eq!(w.load(0, &s, AT), Ok(0));
    // What a device writes to.
    let pin = s.pin_long_term(page(1), Access::Write).unwrap();
    pin.write(0, &[5]);
    assert_eq!(leave(&s, page(1)), Err(Error::Busy));
    assert_eq!(w.load(0, &s, page(1)), Ok(5));
    w.check(&[&s], &[]);
    drop(pin);
    assert_eq!(w.mm.hwpoisoned(), 0);
}

fn no_memory_to_move_to<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    let object = object(w, 1);
    map(&s, AT, 1, RW);
    shared(&s, &object, page(1), 1);
    w.store(0, &s, AT, 7).unwrap();
    w.load(0, &s, page(1)).unwrap();
    w.mm.allocator().fail_after(Some(0));
    let results = [AT, page(1)].map(|at| leave(&s, at));
    w.mm.allocator().fail_after(None);
    assert_eq!(results, [Err(Error::NoMem); 2]);
    assert_eq!(w.mm.hwpoisoned(), 0);
    assert_eq!((w.load(0, &s, AT), w.load(0, &s, page(1))), (Ok(7), Ok(1)));
    w.check(&[&s], &[&object]);
}
