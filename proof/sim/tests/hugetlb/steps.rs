//! Long verbs in steps: none ends in a huge page, whatever the number of its leaves.

use super::{Huge, left, pool, private, shared};
use crate::common::{AT, RW, on_both_by_run};
use arch_sim::{Options, Process, World};
use mm::addr::VirtRange;
use mm::arch::PteFormat;
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Registration};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

on_both_by_run! {
    no_step_ends_in_a_page
}

/// Pages of the mapping.
const N: u64 = 3;

/// Whether all of each huge page is in one state. Its leaves may differ in WRITE: a write that
/// needs no copy makes its own writable.
fn are_whole<F: PteFormat>(w: &Huge<F>, s: &Process<F>) -> bool {
    let state = |at| {
        let info = s.page_info(at);
        (info.present, info.write_protected, info.huge)
    };
    // As many as the page has leaves, or more.
    let step = w.size() / 16;
    let is_whole = |n: u64| (1..16).all(|part| state(w.huge(n)) == state(w.huge(n) + part * step));
    (0..N).all(is_whole)
}

fn no_step_ends_in_a_page<F: PteFormat>(big: &Huge<F>) {
    let world = Arc::new(World::<F>::new(Options {
        frames: 10240.max(9 * big.pages() as usize),
        step: 2,
        ..Options::default()
    }));
    let (order, before) = (big.order, world.mm.counts());
    let w = Huge {
        world: &world,
        order,
    };
    for of_file in [false, true] {
        pool(&w, 2 * N);
        let (object, s) = (super::file(&w, N), Arc::new(w.process()));
        match of_file {
            true => shared(&s, &object, AT, N),
            false => private(&w, &s, AT, N),
        }
        let (all, pauses) = (VirtRange::new(AT, w.huge(N)), Arc::new(AtomicU64::new(0)));
        let (seen, v, q) = (pauses.clone(), world.clone(), s.clone());
        w.sim.in_pauses(Some(Box::new(move || {
            let v = Huge { world: &v, order };
            assert!(are_whole(&v, &q), "a page is changed in parts");
            seen.fetch_add(1, Relaxed);
            false
        })));
        let fill = || (0..N).for_each(|n| w.store(0, &s, w.huge(n), 1).unwrap());
        let flags = VmaFlags::UFFD_WP;
        fill();
        s.userfault_register(all, Registration { monitor: 7, flags })
            .unwrap();
        for on in [true, false] {
            s.userfault_protect(all, on).unwrap();
            assert!(are_whole(&w, &s));
        }
        s.protect(AT, N * w.size(), Prot::READ).unwrap();
        s.protect(AT, N * w.size(), RW).unwrap();
        let child = w.adopt(s.fork().unwrap());
        assert!(are_whole(&w, &child) && are_whole(&w, &s));
        w.check(&[&s, &child], &[&object]);
        drop(child);
        fill();
        s.userfault_protect(all, true).unwrap();
        // Of what is not there its marks.
        s.advise(AT, N * w.size(), Advice::DontNeed).unwrap();
        s.userfault_protect(all, true).unwrap();
        s.userfault_protect(all, false).unwrap();
        w.check(&[&s], &[&object]);
        fill();
        if of_file {
            object.punch(0, N * w.size());
        }
        assert!(are_whole(&w, &s) && pauses.load(Relaxed) > 4);
        w.check(&[&s], &[&object]);
        w.sim.in_pauses(None);
        drop((s, object));
        assert_eq!(left(&w), (2 * N, 0));
        pool(&w, 0);
    }
    assert_eq!(before, w.mm.counts());
    w.check(&[], &[]);
}
