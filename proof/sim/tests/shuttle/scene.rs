//! What the models begin with.

use crate::common::{AT, RW, map, of_object, page, sizes};
use arch_sim::{Options, Process, Sim, World};
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::object::Object;
use mm::switch::{ForkBy, Switch};
use mm::vma::VmaFlags;
use std::sync::Arc;

/// A machine with few frames: each schedule has its own.
pub fn machine<F: PteFormat>(frames: usize, asids: usize, orders: &[u8]) -> World<F> {
    let w = World::<F>::new(Options {
        frames,
        asids,
        cpus: 3,
        // Verbs pause often.
        step: 16,
        ..Options::default()
    });
    w.mm.switches().set(Switch::Fork, ForkBy::Batch as u32);
    sizes(&w, orders);
    w
}

/// A process whose threads run on all CPUs, with an area of so many pages.
pub fn threads<F: PteFormat>(w: &World<F>, pages: u64) -> Process<F> {
    let p = w.process();
    p.share().expect("there is memory");
    if pages != 0 {
        map(&p, AT, pages, RW);
    }
    p
}

/// Runs `test` on a process with threads, with folios of these orders, and looks for leaks.
pub fn scene<F: PteFormat>(
    (frames, orders): (usize, &[u8]),
    pages: u64,
    test: impl Fn(&World<F>, &Process<F>),
) {
    let w = machine::<F>(frames, 8, orders);
    let before = w.mm.counts();
    let p = threads(&w, pages);
    test(&w, &p);
    w.check(&[&p], &[]);
    drop(p);
    w.check(&[], &[]);
    assert_eq!(before, w.mm.counts(), "frames are left");
}

/// Runs `f` on CPUs `0..cpus`, which are idle afterwards.
pub fn together<F: PteFormat>(w: &World<F>, cpus: usize, f: impl Fn(usize) + Sync) {
    w.sim.together(cpus, |cpu| {
        f(cpu);
        w.mm.idle();
    });
}

/// Writes `value` to each page, in the byte of CPU 0.
pub fn write<F: PteFormat>(w: &World<F>, p: &Process<F>, pages: &[u64], value: u8) {
    for n in pages {
        w.store(0, p, page(*n), value).expect("it is mapped");
    }
}

/// Fork shares tables from now on.
pub fn share_tables<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, ForkBy::Share as u32);
}

/// An object of four pages that a process maps at `at`, each with the number 1.
pub fn shared_pages<F: PteFormat>(
    w: &World<F>,
    p: &Process<F>,
    at: VirtAddr,
) -> Arc<Object<Sim<F>>> {
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    let shared = of_object(&object, 0, at, 4, RW, VmaFlags::SHARED);
    p.map(shared).unwrap();
    (0..4).for_each(|n| w.store(0, p, at + n * PAGE_SIZE, 1).unwrap());
    object
}

/// Writes numbers to a byte, up to 3, each of which is read again.
pub fn write_and_read<F: PteFormat>(w: &World<F>, p: &Process<F>, cpu: usize, at: VirtAddr) {
    for value in 0..4 {
        w.store(cpu, p, at, value).unwrap();
        assert_eq!(w.load(cpu, p, at), Ok(value));
    }
}
