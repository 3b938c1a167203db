//! The reserve: user verbs that need page tables are refused while the kernel still has frames, and
//! done once there is memory.

mod common;

use arch_sim::{Options, Process, World};
use common::{AT, FIXED, RW, map, page, sizes};
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::switch::Switch;
use mm::vma::Prot;
use mm::{Advice, Error};

macro_rules! tests {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::$name::<arch_x86_64::pte::Format>() })* }
        mod aarch64 { $(#[test] fn $name() { super::$name::<arch_aarch64::pte::Format>() })* }
    };
}
tests! {
    protect
    advise
    lock
    moves
    soft_dirty
    pins
    unmap
    dont_need
    whole_leaves
}

/// Areas of 2 MiB with a table each, which a child shares: more than the part of the reserve that
/// giving back may use.
const AREAS: u64 = 100;
const TABLE: u64 = 512;

/// What may be left of the reserve.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// All of it.
    All,
    /// Three quarters: the verb gives memory back.
    Most,
}

fn world<F: PteFormat>() -> World<F> {
    let world = World::<F>::new(Options {
        frames: 8192,
        ..Options::default()
    });
    sizes(&world, &[]);
    world
}

/// Writes pages until there are none for users.
fn fill<F: PteFormat>(w: &World<F>) -> Process<F> {
    let hog = w.process();
    map(&hog, AT, 8192, RW);
    let refused = (0..8192).find_map(|n| w.store(0, &hog, page(n), 1).err());
    assert_eq!(refused, Some(Resolution::NoMem));
    hog
}

/// Calls the verb for each area while there is no memory, and again when there is.
fn full<F: PteFormat>(leaves: Leaves, verb: impl Fn(&Process<F>, u64) -> Result<(), Error>) {
    let w = &world::<F>();
    w.mm.switches().set(Switch::Fork, 2);
    let before = w.mm.counts();
    let s = w.process();
    for k in 0..AREAS {
        map(&s, page(TABLE * k), TABLE, RW);
        w.store(0, &s, page(TABLE * k), 5).unwrap();
    }
    let child = w.adopt(s.fork().unwrap());
    let hog = fill(w);
    refused(w, leaves, AREAS, |k| verb(&s, k));
    w.check(&[&s, &child, &hog], &[]);
    (0..AREAS).for_each(|k| assert_eq!(w.load(0, &child, page(TABLE * k)), Ok(5)));
    drop(hog);
    (0..AREAS).for_each(|k| assert_eq!(verb(&s, k), Ok(()), "{k}"));
    w.check(&[&s, &child], &[]);
    drop((s, child));
    assert_eq!(before, w.mm.counts());
}

/// One of the calls is refused, and the reserve is still there.
fn refused<F: PteFormat>(
    w: &World<F>,
    leaves: Leaves,
    calls: u64,
    verb: impl Fn(u64) -> Result<(), Error>,
) {
    let result = (0..calls).try_for_each(verb);
    assert_eq!(result, Err(Error::NoMem));
    let min: u64 = w.mm.allocator().zones().iter().map(|z| z.marks().min).sum();
    let least = match leaves {
        Leaves::All => min,
        Leaves::Most => min - min / 4,
    };
    assert!(w.mm.counts().free >= least, "of {min}: {:?}", w.mm.counts());
    let frame = w.mm.alloc_kernel(Order(0)).expect("the kernel's");
    w.mm.free_kernel(frame, Order(0));
}

fn protect<F: PteFormat>() {
    full::<F>(Leaves::All, |s, k| {
        s.protect(page(TABLE * k), TABLE * PAGE_SIZE, Prot::READ)
    });
}

fn advise<F: PteFormat>() {
    full::<F>(Leaves::All, |s, k| {
        s.advise(page(TABLE * k), 3 * PAGE_SIZE, Advice::NoHugePage)
    });
}

fn lock<F: PteFormat>() {
    full::<F>(Leaves::All, |s, k| {
        s.mlock(page(TABLE * k + 3), PAGE_SIZE, true, true)
    });
}

fn moves<F: PteFormat>() {
    full::<F>(Leaves::All, |s, k| {
        let to = page(TABLE * (AREAS + 2 * k) + 1);
        if s.vma_at(to).is_some() {
            return Ok(());
        }
        s.remap(
            page(TABLE * k),
            4 * PAGE_SIZE,
            4 * PAGE_SIZE,
            FIXED,
            to,
            &mut Default::default(),
        )
        .map(drop)
    });
}

fn soft_dirty<F: PteFormat>() {
    full::<F>(Leaves::All, |s, _| s.clear_soft_dirty());
}

fn pins<F: PteFormat>() {
    full::<F>(Leaves::All, |s, k| match s.pin(page(TABLE * k)) {
        Err(Resolution::NoMem) => Err(Error::NoMem),
        pin => pin.map(drop).map_err(|why| panic!("{why:?}")),
    });
}

fn unmap<F: PteFormat>() {
    full::<F>(Leaves::Most, |s, k| s.unmap(page(TABLE * k + 3), PAGE_SIZE));
}

fn dont_need<F: PteFormat>() {
    full::<F>(Leaves::Most, |s, k| {
        s.dont_need(page(TABLE * k + 3), PAGE_SIZE)
    });
}

/// A table for each PMD leaf of which a part goes.
fn whole_leaves<F: PteFormat>() {
    let w = &World::<F>::new(Options {
        frames: 16384,
        prefetch: 0,
        ..Options::default()
    });
    sizes(w, &[9]);
    let (s, leaves) = (w.process(), 20);
    map(&s, AT, leaves * TABLE, RW);
    (0..leaves).for_each(|k| w.store(0, &s, page(TABLE * k), 5).unwrap());
    sizes(w, &[]);
    let hog = w.process();
    map(&hog, AT, 16384, RW);
    let none = (0..16384).find_map(|n| w.store(0, &hog, page(n), 1).err());
    assert_eq!(none, Some(Resolution::NoMem));
    let part = |k| s.dont_need(page(TABLE * k + 3), PAGE_SIZE);
    let one = s.protect(page(3), PAGE_SIZE, Prot::READ);
    assert_eq!(one, Err(Error::NoMem));
    // Most of the quarter is gone already.
    let min = w.mm.allocator().zones()[0].marks().min;
    let taken = w.mm.counts().free - (min - min / 4) - leaves / 2;
    let kernels: Vec<_> = (0..taken)
        .filter_map(|_| w.mm.alloc_kernel(Order(0)))
        .collect();
    refused(w, Leaves::Most, leaves, part);
    kernels
        .into_iter()
        .for_each(|pfn| w.mm.free_kernel(pfn, Order(0)));
    w.check(&[&s, &hog], &[]);
    // What is not mapped any more can be given back without another table, and that is memory for
    // the next ones.
    assert!(s.split_deferred() > 0);
    assert_eq!(part(leaves - 1), Ok(()));
}
