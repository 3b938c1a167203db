//! Huge pages (hugetlb): the pool and its reservations, private and shared mappings, and what verbs
//! refuse. `check::all` after each step compares pools, reservations and mappings.

#[path = "../common/mod.rs"]
mod common;

use arch_sim::{Process, Sim, World};
use common::{AT, FIXED, MAYMOVE, RW, anon, map, on_both_by_run, run_on};
use mm::addr::{Order, PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::hugetlb::sizes;
use mm::object::Object;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{Advice, Error, MapRequest, Place};
use std::ops::Deref;
use std::sync::Arc;

mod monitored;
mod steps;

on_both_by_run! {
    a_pool_grows_and_shrinks
    a_mapping_reserves
    without_a_reservation_the_first_come
    surplus_pages_come_and_go
    private_pages_are_copied_after_a_fork
    a_child_has_no_reservations
    shared_pages_are_one
    a_file_keeps_its_reservations
    a_file_grows_with_what_is_mapped
    private_pages_of_a_file
    truncation_and_holes
    truncation_in_steps
    verbs_do_not_cut_pages
    parts_of_a_mapping_go
    pages_move_whole
    advice
    dropped_pages_are_reserved_again
    protection_is_kept_apart
    pinned_pages_stay
    threads_unmap_beside
    figures
}

/// A machine, and the size of huge pages that a test is about.
struct Huge<'a, F: PteFormat> {
    world: &'a World<F>,
    order: Order,
}

impl<F: PteFormat> Deref for Huge<'_, F> {
    type Target = World<F>;
    fn deref(&self) -> &World<F> {
        self.world
    }
}

impl<F: PteFormat> Huge<'_, F> {
    /// Bytes of a huge page.
    fn size(&self) -> u64 {
        self.order.bytes()
    }
    /// Single pages of a huge one.
    fn pages(&self) -> u64 {
        self.order.pages()
    }
    /// The address of huge page `n` after [`AT`].
    fn huge(&self, n: u64) -> VirtAddr {
        AT + n * self.size()
    }
}

/// [`common::run`] for every size of the format, on machines with room for some huge pages.
fn run<F: PteFormat>(test: fn(&Huge<F>)) {
    for &order in sizes::<F>() {
        let frames = 10240.max(9 * order.pages() as usize);
        let test = |world: &World<F>| test(&Huge { world, order });
        run_on(frames, test, |world| world.mm.counts());
    }
}

type O<F> = Arc<Object<Sim<F>>>;

fn pool<F: PteFormat>(w: &Huge<F>, pages: u64) {
    w.mm.resize_hugetlb(w.order, pages);
    assert_eq!(w.mm.hugetlb(w.order).persistent(), pages);
}

/// (free, reserved).
fn left<F: PteFormat>(w: &Huge<F>) -> (u64, u64) {
    let figures = w.mm.hugetlb(w.order);
    (figures.free, figures.reserved)
}

fn request<F: PteFormat>(object: O<F>, at: VirtAddr, pages: u64) -> MapRequest<Sim<F>> {
    let (offset, file) = (0, None);
    let page = object.huge_order().unwrap().pages();
    MapRequest {
        backing: Backing::Object {
            object: object.into(),
            offset,
            file,
        },
        flags: VmaFlags::HUGETLB,
        ..anon(Place::Fixed(at), pages * page, RW)
    }
}

fn try_private<F: PteFormat>(
    w: &Huge<F>,
    s: &Process<F>,
    at: VirtAddr,
    pages: u64,
    below: Option<O<F>>,
) -> Result<VirtAddr, Error> {
    let object = Object::huge_private(&w.mm, w.order, below, s.root());
    s.map(request(object, at, pages))
}

fn private<F: PteFormat>(w: &Huge<F>, s: &Process<F>, at: VirtAddr, pages: u64) {
    assert_eq!(try_private(w, s, at, pages, None), Ok(at));
}

fn file<F: PteFormat>(w: &Huge<F>, pages: u64) -> O<F> {
    let object = Object::huge(&w.mm, w.order, None);
    object.set_len(pages * w.size());
    object
}

fn shared<F: PteFormat>(s: &Process<F>, object: &O<F>, at: VirtAddr, pages: u64) {
    let mut request = request(object.clone(), at, pages);
    request.flags |= VmaFlags::SHARED;
    assert_eq!(s.map(request), Ok(at));
}

fn a_pool_grows_and_shrinks<F: PteFormat>(w: &Huge<F>) {
    let before = w.mm.free_frames();
    pool(w, 3);
    assert_eq!(w.mm.free_frames(), before - 3 * w.pages());
    assert_eq!(w.mm.counts().hugetlb, 3 * w.pages());
    w.check(&[], &[]);
    pool(w, 1);
    assert_eq!(w.mm.free_frames(), before - w.pages());
    // More than there is: as many as there are.
    w.mm.resize_hugetlb(w.order, u64::MAX);
    let all = w.mm.hugetlb(w.order).total;
    assert!(
        all > 3 && all * w.pages() + (2 * w.pages()).max(1024) > before,
        "{all} of {before} frames"
    );
    w.check(&[], &[]);
    pool(w, 0);
    assert_eq!(w.mm.free_frames(), before);
}

fn a_mapping_reserves<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let s = w.process();
    private(w, &s, AT, 2);
    assert_eq!(left(w), (3, 2));
    w.check(&[&s], &[]);
    let second = try_private(w, &s, w.huge(8), 2, None);
    assert_eq!(second, Err(Error::NoMem));
    assert_eq!(left(w), (3, 2));
    assert_eq!(w.store(0, &s, w.huge(1) + 12345, 7), Ok(()));
    assert_eq!(left(w), (2, 1));
    assert_eq!(w.load(0, &s, w.huge(1) + 12345), Ok(7));
    assert_eq!(w.load(0, &s, w.huge(1) + (w.size() - 1)), Ok(0));
    w.check(&[&s], &[]);
    // A read takes a page, too.
    assert_eq!(w.load(0, &s, AT), Ok(0));
    assert_eq!(left(w), (1, 0));
    w.check(&[&s], &[]);
    assert_eq!(w.store(0, &s, AT, 1), Ok(()));
    assert_eq!(w.mm.event("cow_reused"), Some(1));
    drop(s);
    assert_eq!(left(w), (3, 0));
    pool(w, 0);
}

fn without_a_reservation_the_first_come<F: PteFormat>(w: &Huge<F>) {
    pool(w, 1);
    let s = w.process();
    let object = Object::huge_private(&w.mm, w.order, None, s.root());
    let mut two = request(object, AT, 2);
    two.flags |= VmaFlags::NORESERVE;
    s.map(two).unwrap();
    assert_eq!(left(w), (1, 0));
    assert_eq!(w.store(0, &s, AT, 1), Ok(()));
    assert_eq!(w.store(0, &s, w.huge(1), 1), Err(Resolution::Bus));
    assert_eq!(w.load(0, &s, w.huge(1)), Err(Resolution::Bus));
    w.check(&[&s], &[]);
    // What is given back is for the next.
    s.dont_need(AT, w.size()).unwrap();
    assert_eq!(w.store(0, &s, w.huge(1), 1), Ok(()));
    assert_eq!(w.load(0, &s, AT), Err(Resolution::Bus));
    w.check(&[&s], &[]);
    drop(s);
    pool(w, 0);
}

fn surplus_pages_come_and_go<F: PteFormat>(w: &Huge<F>) {
    let before = w.mm.free_frames();
    w.mm.set_hugetlb_overcommit(w.order, 2);
    let s = w.process();
    private(w, &s, AT, 2);
    let figures = w.mm.hugetlb(w.order);
    assert_eq!(
        (figures.total, figures.surplus, figures.reserved),
        (2, 2, 2)
    );
    assert_eq!(try_private(w, &s, w.huge(8), 1, None), Err(Error::NoMem));
    w.check(&[&s], &[]);
    w.store(0, &s, AT, 1).unwrap();
    s.unmap(AT, 2 * w.size()).unwrap();
    assert_eq!(w.mm.hugetlb(w.order).total, 0);
    // A pool that shrinks below what is used.
    pool(w, 2);
    private(w, &s, AT, 2);
    w.store(0, &s, AT, 1).unwrap();
    pool(w, 0);
    assert_eq!(w.mm.hugetlb(w.order).surplus, 2);
    w.check(&[&s], &[]);
    drop(s);
    assert_eq!(
        (w.mm.hugetlb(w.order).total, w.mm.free_frames()),
        (0, before)
    );
    w.mm.set_hugetlb_overcommit(w.order, 0);
}

fn private_pages_are_copied_after_a_fork<F: PteFormat>(w: &Huge<F>) {
    pool(w, 4);
    for child_writes in [true, false] {
        let parent = w.process();
        private(w, &parent, AT, 2);
        w.store(0, &parent, AT, 1).unwrap();
        w.store(0, &parent, w.huge(1), 2).unwrap();
        let child = w.adopt(parent.fork().unwrap());
        w.check(&[&parent, &child], &[]);
        assert_eq!(left(w), (2, 0));
        let (writer, other) = match child_writes {
            true => (&child, &parent),
            false => (&parent, &child),
        };
        assert_eq!(w.load(1, &child, w.huge(1)), Ok(2));
        w.store(0, writer, AT + (w.size() - 1), 9).unwrap();
        assert_eq!(left(w), (1, 0));
        assert_eq!(w.load(1, writer, AT), Ok(1));
        assert_eq!(w.load(1, other, AT + (w.size() - 1)), Ok(0));
        w.check(&[&parent, &child], &[]);
        // The last one reuses what was shared.
        let copied = w.mm.event("cow_copied");
        w.store(0, other, AT, 5).unwrap();
        assert_eq!(w.mm.event("cow_copied"), copied);
        // Nothing is left for a third copy and a fourth.
        w.store(0, other, w.huge(1), 5).unwrap();
        assert_eq!(left(w), (0, 0));
        w.store(0, writer, w.huge(1), 5).unwrap();
        w.check(&[&parent, &child], &[]);
    }
    pool(w, 0);
}

fn a_child_has_no_reservations<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let parent = w.process();
    private(w, &parent, AT, 2);
    w.store(0, &parent, AT, 1).unwrap();
    let child = w.adopt(parent.fork().unwrap());
    assert_eq!(w.load(0, &child, AT), Ok(1));
    // The other page is the parent's.
    assert_eq!(w.store(0, &child, w.huge(1), 1), Err(Resolution::Bus));
    assert_eq!(w.store(0, &child, AT, 1), Err(Resolution::Bus));
    w.check(&[&parent, &child], &[]);
    w.store(0, &parent, w.huge(1), 1).unwrap();
    assert_eq!(left(w), (0, 0));
    drop(child);
    w.check(&[&parent], &[]);
    // The parent ends first: what it did not use goes with it.
    parent.unmap(AT, 2 * w.size()).unwrap();
    private(w, &parent, AT, 2);
    let child = w.adopt(parent.fork().unwrap());
    assert_eq!(left(w), (2, 2));
    drop(parent);
    assert_eq!(left(w), (2, 0));
    w.check(&[&child], &[]);
    drop(child);
    pool(w, 0);
}

fn shared_pages_are_one<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let object = file(w, 2);
    let (a, b) = (w.process(), w.process());
    shared(&a, &object, AT, 2);
    assert_eq!(left(w), (2, 2));
    shared(&b, &object, w.huge(4), 2);
    assert_eq!(left(w), (2, 2));
    w.store(0, &a, w.huge(1) + 5, 3).unwrap();
    assert_eq!(w.load(1, &b, w.huge(5) + 5), Ok(3));
    assert_eq!(left(w), (1, 1));
    let child = w.adopt(a.fork().unwrap());
    w.store(0, &child, AT, 4).unwrap();
    assert_eq!(w.load(0, &a, AT), Ok(4));
    assert_eq!(object.pages(), 2 * w.pages());
    w.check(&[&a, &b, &child], &[&object]);
    let mut byte = [0];
    assert_eq!(object.read_at(w.size() + 5, &mut byte), 1);
    assert_eq!(byte, [3]);
    drop((a, b, child));
    assert_eq!(left(w), (0, 0));
    drop(object);
    assert_eq!(left(w), (2, 0));
    pool(w, 0);
}

fn a_file_keeps_its_reservations<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let object = file(w, 3);
    let s = w.process();
    shared(&s, &object, AT, 3);
    s.unmap(AT, 3 * w.size()).unwrap();
    assert_eq!(left(w), (3, 3));
    w.check(&[&s], &[&object]);
    // For any mapping of it, and none of another.
    assert_eq!(try_private(w, &s, AT, 1, None), Err(Error::NoMem));
    shared(&s, &object, AT, 3);
    w.store(0, &s, AT, 1).unwrap();
    object.truncate(w.size());
    assert_eq!(left(w), (2, 0));
    assert_eq!(w.load(0, &s, w.huge(1)), Err(Resolution::Bus));
    w.check(&[&s], &[&object]);
    drop(object);
    drop(s);
    assert_eq!(left(w), (3, 0));
    pool(w, 0);
}

/// By a mapping that may write, and not if the mapping cannot be had.
fn a_file_grows_with_what_is_mapped<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let (object, s) = (file(w, 0), w.process());
    let map = |pages, prot| {
        s.map(MapRequest {
            prot,
            flags: VmaFlags::SHARED | VmaFlags::HUGETLB,
            ..request(object.clone(), AT, pages)
        })
    };
    assert_eq!(map(3, RW), Err(Error::NoMem));
    assert_eq!(object.len(), 0);
    map(2, Prot::READ).unwrap();
    assert_eq!(object.len(), 0);
    map(2, RW).unwrap();
    map(1, RW).unwrap();
    assert_eq!(object.len(), 2 * w.size());
    drop((s, object));
    assert_eq!(left(w), (2, 0));
    pool(w, 0);
}

fn private_pages_of_a_file<F: PteFormat>(w: &Huge<F>) {
    pool(w, 4);
    let object = file(w, 2);
    let s = w.process();
    shared(&s, &object, AT, 1);
    w.store(0, &s, AT, 5).unwrap();
    assert_eq!(
        try_private(w, &s, w.huge(4), 2, Some(object.clone())),
        Ok(w.huge(4))
    );
    assert_eq!(left(w), (3, 2));
    // The file's page, without a page of the pool.
    assert_eq!(w.load(0, &s, w.huge(4)), Ok(5));
    assert_eq!(left(w), (3, 2));
    w.check(&[&s], &[&object]);
    w.store(0, &s, AT, 6).unwrap();
    assert_eq!(w.load(0, &s, w.huge(4)), Ok(6));
    w.store(0, &s, w.huge(4) + 1, 7).unwrap();
    assert_eq!(left(w), (2, 1));
    assert_eq!(w.load(0, &s, w.huge(4)), Ok(6));
    assert_eq!(w.load(0, &s, AT + 1), Ok(0));
    // A hole of the file is the process's own from the first access on.
    assert_eq!(w.load(0, &s, w.huge(5)), Ok(0));
    assert_eq!((left(w), object.pages()), ((1, 0), w.pages()));
    w.check(&[&s], &[&object]);
    // Private copies go with what is truncated.
    object.truncate(w.size());
    assert_eq!(w.load(0, &s, w.huge(5)), Err(Resolution::Bus));
    assert_eq!(w.load(0, &s, w.huge(4) + 1), Ok(7));
    w.check(&[&s], &[&object]);
    drop((s, object));
    pool(w, 0);
}

fn truncation_and_holes<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let object = file(w, 3);
    let s = w.process();
    shared(&s, &object, AT, 3);
    (0..3).for_each(|n| w.store(0, &s, w.huge(n), 8).unwrap());
    w.store(0, &s, w.huge(2) + 5000, 8).unwrap();
    // One page and the beginning of the next.
    object.punch(w.size(), w.size() + 5000);
    assert_eq!(left(w), (1, 0));
    w.check(&[&s], &[&object]);
    let seen: Vec<_> = (0..3).map(|n| w.load(0, &s, w.huge(n)).unwrap()).collect();
    assert_eq!(seen, [8, 0, 0]);
    assert_eq!(w.load(0, &s, w.huge(2) + 5000), Ok(8));
    object.reserve(0, 3 * w.size()).unwrap();
    assert_eq!(left(w), (0, 0));
    assert!(object.reserve(3 * w.size(), w.size()).is_err());
    w.check(&[&s], &[&object]);
    drop((s, object));
    assert_eq!(left(w), (3, 0));
    pool(w, 0);
}

/// As many pages go as one step drops, and behind them are some that are only reserved.
fn truncation_in_steps<F: PteFormat>(w: &Huge<F>) {
    const STEP: u64 = 256;
    let all = STEP + 10;
    // Larger ones are more than the machine has.
    if w.pages() > 16 {
        return;
    }
    pool(w, all);
    let (object, s) = (file(w, all), w.process());
    shared(&s, &object, AT, all);
    (1..=STEP).for_each(|n| w.store(0, &s, w.huge(n), 8).unwrap());
    assert_eq!(left(w), (10, 10));
    object.truncate(w.size());
    assert_eq!(left(w), (all, 1));
    w.check(&[&s], &[&object]);
    drop((s, object));
    assert_eq!(left(w), (all, 0));
    pool(w, 0);
}

fn verbs_do_not_cut_pages<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let s = w.process();
    private(w, &s, AT, 2);
    w.store(0, &s, AT, 1).unwrap();
    let part = PAGE_SIZE;
    let inval = Err(Error::Inval);
    assert_eq!(s.unmap(AT + part, w.size()), inval);
    assert_eq!(s.unmap(AT, w.size() + part), inval);
    assert_eq!(s.protect(AT, part, Prot::READ), inval);
    assert_eq!(s.protect(AT + part, w.size() - part, Prot::READ), inval);
    assert_eq!(
        s.map(anon(Place::Fixed(AT + part), 1, RW)),
        inval.map(|()| AT)
    );
    assert_eq!(s.seal(AT, part), inval);
    assert_eq!(s.dont_need(AT + part, w.size()), inval);
    assert_eq!(s.advise(AT, part, Advice::DontFork), inval);
    for advice in [
        Advice::Free,
        Advice::Cold,
        Advice::GuardInstall,
        Advice::Remove,
    ] {
        assert!(s.advise(AT, w.size(), advice).is_err(), "{advice:?}");
    }
    // Less than a page is nothing, not all of it.
    assert_eq!(s.dont_need(AT, part), Ok(()));
    assert_eq!(w.load(0, &s, AT), Ok(1));
    // Locks change nothing.
    assert_eq!(s.mlock(AT + part, part, true, false), Ok(()));
    assert_eq!(s.usage().mapped.locked, 0);
    assert_eq!(
        s.map(request(Object::huge(&w.mm, w.order, None), AT + part, 1)),
        inval.map(|()| AT)
    );
    w.check(&[&s], &[]);
    drop(s);
    pool(w, 0);
}

fn parts_of_a_mapping_go<F: PteFormat>(w: &Huge<F>) {
    pool(w, 4);
    let s = w.process();
    private(w, &s, AT, 4);
    w.store(0, &s, w.huge(2), 1).unwrap();
    // The middle: one page is used, one only reserved.
    s.unmap(w.huge(1), 2 * w.size()).unwrap();
    assert_eq!(left(w), (4, 2));
    w.check(&[&s], &[]);
    s.protect(w.huge(3), w.size(), Prot::READ).unwrap();
    assert_eq!(w.load(0, &s, w.huge(3)), Ok(0));
    assert_eq!(left(w), (3, 1));
    // Something else comes in the place of the rest.
    map(&s, AT, w.pages(), RW);
    assert_eq!(left(w), (3, 0));
    w.store(0, &s, AT, 1).unwrap();
    w.check(&[&s], &[]);
    drop(s);
    assert_eq!(left(w), (4, 0));
    pool(w, 0);
}

fn pages_move_whole<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let s = w.process();
    private(w, &s, AT, 3);
    w.store(0, &s, AT, 1).unwrap();
    w.store(0, &s, w.huge(1), 2).unwrap();
    let remap =
        |from, old, new, flags, to| s.remap(from, old, new, flags, to, &mut Default::default());
    let inval = Err(Error::Inval);
    assert_eq!(remap(AT, 3 * w.size(), 4 * w.size(), MAYMOVE, AT), inval);
    assert_eq!(
        remap(AT + PAGE_SIZE, w.size(), w.size(), FIXED, w.huge(8)),
        inval
    );
    assert_eq!(
        remap(AT, w.size(), w.size(), FIXED, w.huge(8) + PAGE_SIZE),
        inval
    );
    let keep = MAYMOVE | mm::RemapFlags::DONTUNMAP;
    assert_eq!(remap(AT, w.size(), w.size(), keep, w.huge(8)), inval);
    // A length that no whole number of huge pages is as large as.
    assert_eq!(remap(AT, u64::MAX - 8191, w.size(), MAYMOVE, AT), inval);
    w.check(&[&s], &[]);
    // Far, to where other tables are, with the reservation of the third page.
    let to = VirtAddr(0x50_0000_0000);
    assert_eq!(remap(AT, 3 * w.size(), 3 * w.size(), FIXED, to), Ok(to));
    assert_eq!(w.load(0, &s, to), Ok(1));
    assert_eq!(w.load(0, &s, to + w.size()), Ok(2));
    assert_eq!(w.load(0, &s, AT), Err(Resolution::NotMapped));
    w.check(&[&s], &[]);
    assert_eq!(left(w), (1, 1));
    w.store(0, &s, to + 2 * w.size(), 3).unwrap();
    assert_eq!(left(w), (0, 0));
    // It shrinks, by lengths that are rounded up.
    assert_eq!(remap(to, 3 * w.size(), w.size() + 1, MAYMOVE, to), Ok(to));
    assert_eq!(left(w), (1, 0));
    assert_eq!(w.load(0, &s, to + w.size()), Ok(2));
    w.check(&[&s], &[]);
    drop(s);
    pool(w, 0);
}

fn advice<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let object = file(w, 3);
    let s = w.process();
    shared(&s, &object, AT, 3);
    s.advise(AT, 3 * w.size(), Advice::PopulateWrite).unwrap();
    assert_eq!(left(w), (0, 0));
    w.store(0, &s, AT, 5).unwrap();
    // The file keeps what a mapping drops.
    s.dont_need(AT, 3 * w.size()).unwrap();
    assert_eq!(s.usage().rss.hugetlb, 0);
    assert_eq!(w.load(0, &s, AT), Ok(5));
    // A part of a page is zeroed, and stays.
    s.advise(w.huge(1), PAGE_SIZE, Advice::Remove).unwrap();
    assert_eq!(left(w), (0, 0));
    s.advise(AT, w.size(), Advice::Remove).unwrap();
    assert_eq!(left(w), (1, 0));
    assert_eq!(w.load(0, &s, AT), Ok(0));
    s.advise(AT, w.size(), Advice::DontFork).unwrap();
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(w.load(0, &child, AT), Err(Resolution::NotMapped));
    assert_eq!(w.load(0, &child, w.huge(1)), Ok(0));
    w.check(&[&s, &child], &[&object]);
    drop((s, child, object));
    pool(w, 0);
}

fn dropped_pages_are_reserved_again<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let s = w.process();
    private(w, &s, AT, 2);
    w.store(0, &s, AT, 1).unwrap();
    assert_eq!(left(w), (1, 1));
    // Also of what was not touched.
    s.dont_need(AT, 2 * w.size()).unwrap();
    assert_eq!(left(w), (2, 2));
    w.check(&[&s], &[]);
    let other = w.process();
    assert_eq!(try_private(w, &other, AT, 1, None), Err(Error::NoMem));
    assert_eq!(w.load(0, &s, AT), Ok(0));
    assert_eq!(left(w), (1, 1));
    // What a child has, too, is not dropped; the child has no reservation for it.
    let child = w.adopt(s.fork().unwrap());
    s.dont_need(AT, w.size()).unwrap();
    assert_eq!(left(w), (1, 1));
    w.check(&[&s, &child, &other], &[]);
    child.dont_need(AT, w.size()).unwrap();
    assert_eq!(left(w), (2, 1));
    w.check(&[&s, &child, &other], &[]);
    drop(child);
    // Nor is a surplus page.
    w.store(0, &s, w.huge(1), 1).unwrap();
    w.mm.resize_hugetlb(w.order, 0);
    assert_eq!(w.mm.hugetlb(w.order).surplus, 1);
    s.dont_need(AT, 2 * w.size()).unwrap();
    assert_eq!(left(w), (0, 0));
    w.check(&[&s, &other], &[]);
    drop((s, other));
    pool(w, 0);
}

fn protection_is_kept_apart<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let parent = w.process();
    private(w, &parent, AT, 2);
    w.store(0, &parent, AT, 1).unwrap();
    parent.protect(AT, w.size(), Prot::READ).unwrap();
    assert_eq!(w.store(0, &parent, AT, 2), Err(Resolution::Denied));
    let child = w.adopt(parent.fork().unwrap());
    child.protect(AT, w.size(), RW).unwrap();
    parent.protect(AT, w.size(), RW).unwrap();
    // Shared: neither may write without a copy.
    w.check(&[&parent, &child], &[]);
    w.store(0, &child, AT, 3).unwrap();
    assert_eq!(w.load(1, &parent, AT), Ok(1));
    drop(child);
    w.store(1, &parent, AT, 4).unwrap();
    parent.protect(AT, 2 * w.size(), Prot::empty()).unwrap();
    assert_eq!(w.load(0, &parent, AT), Err(Resolution::Denied));
    parent.protect(AT, 2 * w.size(), RW).unwrap();
    assert_eq!(w.load(0, &parent, AT), Ok(4));
    w.check(&[&parent], &[]);
    drop(parent);
    pool(w, 0);
}

fn pinned_pages_stay<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let parent = w.process();
    private(w, &parent, AT, 1);
    w.store(0, &parent, AT + 5, 1).unwrap();
    let pin = parent.pin_long_term(AT, Access::Write).unwrap();
    let child = w.adopt(parent.fork().unwrap());
    w.check(&[&parent, &child], &[]);
    // The child has a copy already.
    assert_eq!(left(w), (1, 0));
    w.store(0, &parent, AT + 5, 2).unwrap();
    let mut byte = [0];
    pin.read(5, &mut byte);
    assert_eq!((byte, w.load(0, &child, AT + 5)), ([2], Ok(1)));
    // Without a page for it there is no child.
    let other = w.process();
    private(w, &other, AT, 1);
    w.store(0, &other, AT, 1).unwrap();
    let fork = parent.fork();
    assert_eq!(fork.err(), Some(Error::NoMem));
    w.check(&[&parent, &child, &other], &[]);
    parent.protect(AT, w.size(), Prot::READ).unwrap();
    parent.protect(AT, w.size(), RW).unwrap();
    w.store(0, &parent, AT + 5, 3).unwrap();
    pin.read(5, &mut byte);
    assert_eq!(byte, [3]);
    // A write to another page of it finds the pin, also with another reference.
    let also = parent.pin(AT).unwrap();
    parent.protect(AT, w.size(), Prot::READ).unwrap();
    parent.protect(AT, w.size(), RW).unwrap();
    w.store(0, &parent, AT + (w.size() - 1), 3).unwrap();
    w.store(0, &parent, AT + 5, 4).unwrap();
    pin.read(5, &mut byte);
    assert_eq!(byte, [4]);
    drop(also);
    // A pin of the other kind keeps what was there.
    let short = child.pin(AT).unwrap();
    drop(other);
    w.store(0, &child, AT + 5, 7).unwrap();
    short.read(5, &mut byte);
    assert_eq!(byte, [7]);
    w.check(&[&parent, &child], &[]);
    drop((parent, child));
    assert_eq!(left(w).0, 1);
    drop((pin, short));
    assert_eq!(left(w).0, 3);
    pool(w, 0);
}

fn threads_unmap_beside<F: PteFormat>(w: &Huge<F>) {
    pool(w, 2);
    let s = w.process();
    s.share().unwrap();
    private(w, &s, AT, 2);
    map(&s, w.huge(2), w.pages(), RW);
    w.store(1, &s, AT, 1).unwrap();
    w.store(1, &s, w.huge(2), 1).unwrap();
    w.check(&[&s], &[]);
    s.dont_need(AT, w.size()).unwrap();
    assert_eq!(left(w), (2, 2));
    assert_eq!(w.load(0, &s, AT), Ok(0));
    s.unmap(AT, 3 * w.size()).unwrap();
    assert_eq!(left(w), (2, 0));
    w.check(&[&s], &[]);
    drop(s);
    pool(w, 0);
}

fn figures<F: PteFormat>(w: &Huge<F>) {
    pool(w, 3);
    let object = file(w, 1);
    let s = w.process();
    private(w, &s, AT, 2);
    shared(&s, &object, w.huge(4), 1);
    w.store(0, &s, AT, 1).unwrap();
    w.store(0, &s, w.huge(4), 1).unwrap();
    let rss = s.usage().rss;
    assert_eq!((rss.hugetlb, rss.total()), (2 * w.pages(), 0));
    let one = s.smaps(AT).unwrap();
    assert_eq!(
        (one.private_hugetlb, one.shared_hugetlb, one.rss),
        (w.size(), 0, 0)
    );
    let info = s.page_info(AT + PAGE_SIZE);
    assert!(info.huge && info.exclusive && !info.file_or_shared);
    assert_eq!(w.mm.thp().pmd_mappings(), 0);
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(child.usage().rss.hugetlb, w.pages());
    assert_eq!(s.smaps(AT).unwrap().shared_hugetlb, w.size());
    assert_eq!(w.load(0, &child, w.huge(4)), Ok(1));
    assert_eq!(s.smaps(w.huge(4)).unwrap().shared_hugetlb, w.size());
    assert!(!s.page_info(AT).exclusive && s.page_info(w.huge(4)).file_or_shared);
    let mut core = [0; 3];
    s.mincore(w.huge(4) + (w.size() - 2 * PAGE_SIZE), &mut core[..2])
        .unwrap();
    s.mincore(w.huge(1), &mut core[2..]).unwrap();
    assert_eq!(core, [1, 1, 0]);
    w.check(&[&s, &child], &[&object]);
    drop((s, child, object));
    pool(w, 0);
    assert_eq!(w.mm.hugetlb(w.order), mm::hugetlb::Figures::default());
}
