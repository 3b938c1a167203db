//! The longest stretch of each long verb: entries loaded between two pauses. What the tables hold,
//! and who shares them, does not make a stretch longer than the step that the machine asks for.

mod common;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::Advice;
use mm::addr::{Order, PAGE_SIZE, VirtRange};
use mm::arch::PteFormat;
use mm::object::Object;
use mm::switch::Switch;
use mm::vma::{Prot, VmaFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Full tables, many steps' worth.
const TABLES: u64 = 8;
const PAGES: u64 = TABLES * 512;
const LEN: u64 = PAGES * PAGE_SIZE;
/// Entries of a step: half a table.
const STEP: u32 = 256;
/// A stretch has a step, and goes beyond it by what the table has left: no more than three tables.
const MOST: u64 = 3;
/// Loads that are short anyway: of tables that are only let go, each step may have many.
const SHORT: u64 = 1024;
/// Loads that are long anyway, though a verb may load each entry many times (most are assertions).
const LONG: u64 = 16 * (STEP as u64 + 512);

/// What the tables hold.
#[derive(Clone, Copy, Debug)]
enum Full {
    /// The page of zeros.
    Zeros,
    /// Private pages.
    Pages,
    /// Private folios of 64 kB.
    Folios,
    /// The same without every second page: runs of one page.
    Torn,
    /// Pages of an object.
    Object,
    /// The same, with a private copy of every second page.
    Copied,
}

/// Who shares the tables.
#[derive(Clone, Copy, Debug)]
enum Shared {
    /// The process alone.
    No,
    /// The process was the first of two, and is the last.
    Last,
    /// The process is the first of two.
    First,
    /// The process is the second of two.
    Second,
    /// Each entry was copied at the fork, and the child is there.
    Copied,
}

const FULL: [Full; 6] = [
    Full::Zeros,
    Full::Pages,
    Full::Folios,
    Full::Torn,
    Full::Object,
    Full::Copied,
];
const SHARED: [Shared; 5] = [
    Shared::No,
    Shared::Last,
    Shared::First,
    Shared::Second,
    Shared::Copied,
];

/// A long verb on all of the memory.
type Verb<F> = fn(&mut Process<F>, &Arc<Object<Sim<F>>>);

fn verbs<F: PteFormat>() -> Vec<(&'static str, Verb<F>)> {
    vec![
        ("munmap", |p, _| p.unmap(AT, LEN).unwrap()),
        ("end", |p, _| p.end()),
        ("fork and end", |p, _| drop(p.fork().unwrap())),
        ("mmap over", |p, _| map(p, AT, PAGES, RW)),
        ("dontneed", |p, _| p.dont_need(AT, LEN).unwrap()),
        ("free", |p, _| {
            let _ = p.advise(AT, LEN, Advice::Free);
        }),
        ("cold", |p, _| {
            let _ = p.advise(AT, LEN, Advice::Cold);
        }),
        ("collapse", |p, _| {
            let _ = p.advise(AT, LEN, Advice::Collapse);
        }),
        ("populate_read", |p, _| {
            p.advise(AT, LEN, Advice::PopulateRead).unwrap();
        }),
        ("populate_write", |p, _| {
            p.advise(AT, LEN, Advice::PopulateWrite).unwrap();
        }),
        ("protect", |p, _| p.protect(AT, LEN, Prot::READ).unwrap()),
        ("mlock", |p, _| p.mlock(AT, LEN, true, false).unwrap()),
        ("clear_referenced", |p, _| p.clear_referenced(None)),
        ("clear_soft_dirty", |p, _| p.clear_soft_dirty().unwrap()),
        ("split", |p, _| {
            let _ = p.split_range(VirtRange::new(AT, AT + LEN), Order(0));
        }),
        ("truncate", |_, object| object.truncate(0)),
        ("punch", |_, object| object.punch(0, LEN)),
    ]
}

/// A process whose memory is full.
fn fill<F: PteFormat>(w: &World<F>, full: Full, object: &Arc<Object<Sim<F>>>) -> Process<F> {
    let p = w.process();
    let orders: &[u8] = match full {
        Full::Folios | Full::Torn => &[4],
        _ => &[],
    };
    sizes(w, orders);
    match full {
        Full::Object | Full::Copied => {
            let request = of_object(object, 0, AT, PAGES, RW, VmaFlags::empty());
            p.map(request).unwrap();
        }
        _ => map(&p, AT, PAGES, RW),
    }
    let advice = match full {
        Full::Zeros | Full::Object | Full::Copied => Advice::PopulateRead,
        _ => Advice::PopulateWrite,
    };
    p.advise(AT, LEN, advice).unwrap();
    // Memory without a private page is not copied by fork.
    w.store(0, &p, page(1), 1).unwrap();
    for n in (0..PAGES).step_by(2) {
        match full {
            Full::Torn => p.dont_need(page(n), PAGE_SIZE).unwrap(),
            Full::Copied => w.store(0, &p, page(n), 1).unwrap(),
            _ => {}
        }
    }
    p
}

/// Runs the verb; returns the loads of its longest stretch, and of all.
fn loads<F: PteFormat>(full: Full, shared: Shared, verb: Verb<F>) -> (u64, u64) {
    let w = World::<F>::new(Options {
        frames: 1 << 14,
        cpus: 1,
        prefetch: 0,
        step: STEP,
        ..Options::default()
    });
    let before = w.mm.counts();
    let object = Object::new(&w.mm);
    object.set_len(LEN);
    let fork = if matches!(shared, Shared::Copied) {
        1
    } else {
        2
    };
    w.mm.switches().set(Switch::Fork, fork);
    let first = fill(&w, full, &object);
    let fork = || w.adopt(first.fork().unwrap());
    let (mut process, other) = match shared {
        Shared::No => (first, None),
        Shared::Last => {
            drop(fork());
            (first, None)
        }
        Shared::Second => (fork(), Some(first)),
        Shared::First | Shared::Copied => {
            let second = fork();
            (first, Some(second))
        }
    };
    let start = w.sim.loads();
    let (last, longest) = (Arc::new(AtomicU64::new(start)), Arc::new(AtomicU64::new(0)));
    let stretch = {
        let (sim, longest) = (w.sim.clone(), longest.clone());
        move || {
            let now = sim.loads();
            longest.fetch_max(now - last.swap(now, Relaxed), Relaxed);
            false
        }
    };
    w.sim.in_pauses(Some(Box::new(stretch.clone())));
    verb(&mut process, &object);
    w.sim.in_pauses(None);
    stretch();
    let all = w.sim.loads() - start;
    drop((process, other, object));
    assert_eq!(before, w.mm.counts());
    (longest.load(Relaxed), all)
}

fn no_stretch_is_long<F: PteFormat>() {
    let mut long = Vec::new();
    for (name, verb) in verbs::<F>() {
        for full in FULL {
            for shared in SHARED {
                let (longest, all) = loads(full, shared, verb);
                if longest > LONG.min(SHORT.max(all * MOST / TABLES)) {
                    long.push((name, full, shared, longest, all));
                }
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

on_both_formats! { no_stretch_is_long }
