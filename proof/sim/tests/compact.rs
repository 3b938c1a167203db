//! Compaction: pageblocks are emptied by moving what is in them, whoever maps it.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::Advice;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::frame::meta::ORDERS;
use mm::frame::pageblock::PAGEBLOCK;
use mm::object::Object;
use mm::switch::{ForkBy, Switch};
use mm::thp::controls::Defrag;
use mm::vma::VmaFlags;

/// Frames of the machine: 16 pageblocks.
const FRAMES: usize = 8192;
/// Pages that are written at first.
const PAGES: u64 = 7000;

fn small<F: PteFormat>() -> World<F> {
    World::<F>::new(Options {
        frames: FRAMES,
        ..Options::default()
    })
}

fn event<F: PteFormat>(w: &World<F>, name: &str) -> u64 {
    w.mm.event(name).expect("a counter")
}

/// Free pageblocks.
fn pageblocks<F: PteFormat>(w: &World<F>) -> u64 {
    w.mm.drain_pcp();
    let zones = w.mm.allocator().zones().iter();
    let lists = zones.flat_map(|zone| zone.look(|buddy| buddy.blocks()));
    let blocks = |list: [u64; ORDERS]| -> u64 {
        let least = PAGEBLOCK.0 as usize;
        (least..)
            .zip(&list[least..])
            .map(|(order, n)| n << order >> least)
            .sum()
    };
    lists.map(blocks).sum()
}

/// Free pageblocks once all are emptied that can be.
fn compacted<F: PteFormat>(w: &World<F>) -> u64 {
    w.mm.drain_pcp();
    w.mm.compact_all();
    pageblocks(w)
}

/// A process that has single pages all over memory, one of `step`.
fn scattered<F: PteFormat>(w: &World<F>, step: u64) -> Process<F> {
    sizes(w, &[]);
    let p = w.process();
    map(&p, AT, PAGES, RW);
    (0..PAGES).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
    let gone = (0..PAGES).filter(|n| n % step != 0);
    gone.for_each(|n| p.dont_need(page(n), PAGE_SIZE).unwrap());
    p
}

fn reads<F: PteFormat>(w: &World<F>, p: &Process<F>, step: u64) {
    for n in (0..PAGES).step_by(step as usize) {
        assert_eq!(w.load(1, p, page(n)), Ok(n as u8), "page {n}");
    }
}

/// All frames that are free are free in whole pageblocks but for two.
fn what_is_free_is_side_by_side<F: PteFormat>() {
    for step in [2, 7] {
        let w = small::<F>();
        let p = scattered(&w, step);
        let most = w.mm.free_frames() >> PAGEBLOCK.0;
        assert!(pageblocks(&w) <= most / 2, "memory is in pieces");
        assert!(compacted(&w) >= most - 2, "{} of {most}", pageblocks(&w));
        w.check(&[&p], &[]);
        assert_eq!(event(&w, "pgmigrate_fail"), 0);
        // Nobody lost anything, and nobody has to fault.
        let faults = event(&w, "pgfault");
        reads(&w, &p, step);
        for n in (0..PAGES).step_by(step as usize) {
            w.store(1, &p, page(n), n as u8).unwrap();
        }
        assert_eq!(event(&w, "pgfault"), faults);
        assert_eq!(p.usage().rss.swapped, 0);
        w.check(&[&p], &[]);
    }
}

/// What a child has, too, stays that of both, by whatever fork shares it.
fn what_is_shared_stays_shared<F: PteFormat>() {
    for by in [ForkBy::Pte, ForkBy::Batch, ForkBy::Share] {
        let w = small::<F>();
        w.mm.switches().set(Switch::Fork, by as u32);
        let p = scattered(&w, 7);
        let child = w.adopt(p.fork().unwrap());
        // A part is the child's alone.
        p.unmap(page(0), 2000 * PAGE_SIZE).unwrap();
        let (both, anon) = ([&*p, &*child], w.mm.counts().anon);
        let most = w.mm.free_frames() >> PAGEBLOCK.0;
        assert!(compacted(&w) >= most - 2, "{} of {most}", pageblocks(&w));
        w.check(&both, &[]);
        assert_eq!(w.mm.counts().anon, anon);
        assert_eq!(event(&w, "pgmigrate_fail"), 0);
        assert_eq!(w.mm.slots().used(), 0);
        reads(&w, &child, 7);
        (2002..PAGES)
            .step_by(7)
            .for_each(|n| w.store(0, &p, page(n), 99).unwrap());
        reads(&w, &child, 7);
        w.check(&both, &[]);
    }
}

/// Large folios stay so, and folded where the format folds; those of which a part is gone, too.
fn folios_stay_whole<F: PteFormat>() {
    let w = small::<F>();
    sizes(&w, &[2, 4]);
    let p = w.process();
    map(&p, AT, PAGES, RW);
    (0..PAGES).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
    for first in (0..PAGES - 64).step_by(64) {
        p.unmap(page(first + 16), 44 * PAGE_SIZE).unwrap();
    }
    let smaps = || p.smaps(AT).unwrap().folios;
    let (folios, most) = (smaps(), w.mm.free_frames() >> PAGEBLOCK.0);
    assert!(pageblocks(&w) <= most / 2, "memory is in pieces");
    assert!(compacted(&w) >= most - 3, "{} of {most}", pageblocks(&w));
    w.check(&[&p], &[]);
    assert_eq!(smaps(), folios);
    for n in (0..PAGES - 64).step_by(64) {
        assert_eq!(w.load(1, &p, page(n + 5)), Ok((n + 5) as u8));
        w.store(1, &p, page(n + 60), 1).unwrap();
    }
    w.check(&[&p], &[]);
}

/// A page with a long-term pin stays where it is, and its pageblock with it; all others move.
fn what_is_pinned_stays<F: PteFormat>() {
    let w = small::<F>();
    let p = scattered(&w, 7);
    let frame = |n| p.page_info(page(n)).pfn;
    let (pin, before) = (
        p.pin_long_term(page(700), Access::Write).unwrap(),
        frame(700),
    );
    let most = w.mm.free_frames() >> PAGEBLOCK.0;
    assert!(compacted(&w) >= most - 3, "{} of {most}", pageblocks(&w));
    assert_eq!(frame(700), before);
    reads(&w, &p, 7);
    w.check(&[&p], &[]);
    drop(pin);
    assert!(compacted(&w) >= most - 2, "{} of {most}", pageblocks(&w));
    reads(&w, &p, 7);
    w.check(&[&p], &[]);
}

/// Pages that were moved with their tables are found, and so are those that another process has
/// parked, and those of a machine without swap.
fn what_is_elsewhere_is_found<F: PteFormat>() {
    let w = small::<F>();
    let p = scattered(&w, 7);
    let to = VirtAddr(AT.0 * 2);
    p.remap(
        AT,
        PAGES * PAGE_SIZE,
        PAGES * PAGE_SIZE,
        FIXED,
        to,
        &mut Default::default(),
    )
    .unwrap();
    assert_eq!(w.mm.swap_off(|| false), Ok(()));
    let most = w.mm.free_frames() >> PAGEBLOCK.0;
    assert!(compacted(&w) >= most - 2, "{} of {most}", pageblocks(&w));
    assert_eq!((event(&w, "pgmigrate_fail"), w.mm.slots().used()), (0, 0));
    for n in (0..PAGES).step_by(7) {
        assert_eq!(w.load(1, &p, to + n * PAGE_SIZE), Ok(n as u8));
    }
    w.check(&[&p], &[]);
}

/// A table that many share is not copied for each of them: what it maps stays.
fn tables_of_many_stay_shared<F: PteFormat>() {
    let w = small::<F>();
    w.mm.switches().set(Switch::Fork, ForkBy::Share as u32);
    let p = scattered(&w, 2);
    let children: Vec<_> = (0..3).map(|_| w.adopt(p.fork().unwrap())).collect();
    let tables = w.mm.counts().page_tables;
    compacted(&w);
    assert_eq!(w.mm.counts().page_tables, tables);
    // The area ends in the last table, which is not shared.
    assert!(event(&w, "pgmigrate_success") <= PAGES % 512);
    let all: Vec<_> = [&p].into_iter().chain(&children).map(|p| &**p).collect();
    w.check(&all, &[]);
}

/// What a fault does that finds no folio of 2 MiB while memory is in pieces.
fn a_fault_waits_as_defrag_says<F: PteFormat>() {
    use Defrag::{Always, Defer, DeferMadvise, Madvise, Never};
    // By setting and advice: whether it waits, and whether memory is compacted later.
    let cases = [
        (Always, false, true, false),
        (Defer, true, false, true),
        (DeferMadvise, true, true, false),
        (DeferMadvise, false, false, true),
        (Madvise, true, true, false),
        (Madvise, false, false, false),
        (Never, true, false, false),
    ];
    for (defrag, advised, waits, later) in cases {
        let w = small::<F>();
        let (p, q) = (scattered(&w, 2), w.process());
        // What is free as a whole is used.
        sizes(&w, &[9]);
        let huge = PAGEBLOCK.pages();
        map(&q, AT, 16 * huge, RW);
        let free = pageblocks(&w);
        (0..free).for_each(|n| w.store(0, &q, page(n * huge), 1).unwrap());
        w.mm.thp()
            .controls
            .change(|settings| settings.defrag = defrag);
        let at = page(free * huge);
        if advised {
            q.advise(at, huge * PAGE_SIZE, Advice::HugePage).unwrap();
        }
        let result = match waits {
            true => Resolution::Short(PAGEBLOCK),
            false => Resolution::Done,
        };
        assert_eq!(q.fault(at, Access::Write), result, "{defrag:?}, {advised}");
        assert_eq!(w.mm.wants_compaction(), later, "{defrag:?}, {advised}");
        if waits {
            assert!(w.mm.compact_for(PAGEBLOCK));
            assert_eq!(q.fault_anyhow(at, Access::Write), Resolution::Done);
            let (area, huge) = if advised { (at, 1) } else { (AT, free + 1) };
            assert_eq!(q.smaps(area).unwrap().folios[9].whole, huge);
        }
        w.check(&[&p, &q], &[]);
    }
}

/// Compaction that was in vain is not tried again before more was freed.
fn in_vain_is_not_tried_again<F: PteFormat>() {
    let w = small::<F>();
    let p = scattered(&w, 2);
    let pages = (0..PAGES).step_by(2);
    let pins: Vec<_> = pages
        .step_by(32)
        .map(|n| p.pin_long_term(page(n), Access::Write).unwrap())
        .collect();
    let huge: Vec<_> = (0..pageblocks(&w))
        .map(|_| w.mm.alloc_kernel(PAGEBLOCK))
        .collect();
    w.mm.drain_pcp();
    let stalls = || [event(&w, "compact_stall"), event(&w, "compact_fail")];
    assert!(!w.mm.compact_for(PAGEBLOCK));
    assert_eq!(stalls(), [1, 1]);
    assert!(!w.mm.compact_for(PAGEBLOCK));
    assert_eq!(stalls(), [1, 1], "it was not tried");
    drop(pins);
    let others = w.process();
    map(&others, AT, 2048, RW);
    (0..2048).for_each(|n| w.store(0, &others, page(n), 1).unwrap());
    drop(others);
    assert!(w.mm.compact_for(PAGEBLOCK));
    for block in huge.into_iter().flatten() {
        w.mm.free_kernel(block, PAGEBLOCK);
    }
    w.check(&[&p], &[]);
}

/// Pages of objects move, too, whoever maps them, and those that a call reads and writes.
fn pages_of_objects_move<F: PteFormat>() {
    let w = small::<F>();
    let (object, p) = (Object::new(&w.mm), w.process());
    object.set_len(PAGES * PAGE_SIZE);
    let shared = of_object(&object, 0, AT, PAGES, RW, VmaFlags::SHARED);
    p.map(shared).unwrap();
    (0..PAGES).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
    let child = w.adopt(p.fork().unwrap());
    let gone = (0..PAGES).filter(|n| n % 7 != 0);
    gone.for_each(|n| object.punch(n * PAGE_SIZE, PAGE_SIZE));
    let pin = p.pin_long_term(page(700), Access::Read).unwrap();
    let (most, pinned) = (
        w.mm.free_frames() >> PAGEBLOCK.0,
        p.page_info(page(700)).pfn,
    );
    assert!(pageblocks(&w) <= most / 2, "memory is in pieces");
    assert!(compacted(&w) >= most - 3, "{} of {most}", pageblocks(&w));
    assert_eq!(p.page_info(page(700)).pfn, pinned);
    w.check(&[&p, &child], &[&object]);
    for n in (0..PAGES).step_by(7) {
        let mut byte = [0];
        object.read_at(n * PAGE_SIZE, &mut byte);
        assert_eq!((byte, w.load(1, &p, page(n))), ([n as u8], Ok(n as u8)));
        w.store(1, &child, page(n), !n as u8).unwrap();
        assert_eq!(w.load(0, &p, page(n)), Ok(!n as u8));
    }
    drop(pin);
    w.check(&[&p, &child], &[&object]);
}

/// What one process has parked and another one uses, which may have locked it, is not stored while
/// it is moved.
fn nothing_is_stored_meanwhile<F: PteFormat>() {
    let w = small::<F>();
    let p = scattered(&w, 7);
    let child = w.adopt(p.fork().unwrap());
    child
        .advise(AT, PAGES * PAGE_SIZE, Advice::PageOut)
        .unwrap();
    let other = w.clone();
    w.sim.in_pauses(Some(Box::new(move || {
        other.mm.store_pages(4);
        false
    })));
    compacted(&w);
    w.sim.in_pauses(None);
    assert_ne!(event(&w, "pgmigrate_success"), 0);
    assert_eq!((event(&w, "pswpout"), p.usage().rss.swapped), (0, 0));
    w.check(&[&p, &child], &[]);
    // Then it can be, once it is parked.
    p.advise(AT, PAGES * PAGE_SIZE, Advice::PageOut).unwrap();
    child
        .advise(AT, PAGES * PAGE_SIZE, Advice::PageOut)
        .unwrap();
    assert_eq!(event(&w, "pswpout"), PAGES.div_ceil(7));
    reads(&w, &p, 7);
    reads(&w, &child, 7);
    w.check(&[&p, &child], &[]);
}

on_both_formats! {
    a_fault_waits_as_defrag_says
    folios_stay_whole
    in_vain_is_not_tried_again
    nothing_is_stored_meanwhile
    pages_of_objects_move
    tables_of_many_stay_shared
    what_is_elsewhere_is_found
    what_is_free_is_side_by_side
    what_is_pinned_stays
    what_is_shared_stays_shared
}
