//! Faults of several CPUs in one space that its threads share: each with the lock of its table
//! only. While one of them makes its folio, another one does something else.

mod common;

use arch_sim::{At, Options, Process, World};
use common::*;
use mm::Advice;
use mm::Place;
use mm::addr::{PAGE_SIZE, Pfn};
use mm::arch::{PhysMem, PteFormat, TABLE_ENTRIES};
use mm::fault::Resolution;
use mm::frame::Kind;
use mm::switch::Switch;
use mm::vma::{Prot, VmaFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The area, the page that faults, and one that was written before in the same table.
const PAGES: u64 = 1024;
const HERE: u64 = 600;
const WRITTEN: u64 = 900;
/// A page of the same 64 KiB.
const NEAR: u64 = HERE + 1;
/// A page of another table.
const FAR: u64 = 100;

/// What another CPU does meanwhile.
type Other<F> = fn(&World<F>, &Process<F>);

/// A page whose table is not there yet.
const ALONE: u64 = 1500;

/// `other` on a CPU of its own, while this one zeroes memory.
fn while_zeroing<F: PteFormat>(w: &World<F>, p: &Arc<Process<F>>, other: Other<F>) {
    let (w, p) = (w.clone(), p.clone());
    let sim = w.sim.clone();
    sim.meanwhile(At::Zero, (1, 1), move || {
        let there = std::thread::spawn(move || {
            w.sim.run_on(1);
            other(&w, &p);
        });
        there.join().expect("the other CPU has failed");
    });
}

/// A store to page `at`, with one size of folios, in a space whose pages `written` have been
/// written before; `other` is at work on a CPU of its own meanwhile. The byte is there then,
/// `after` holds, and the space has `pages` private pages. Returns how often the fault has looked
/// again.
fn store<F: PteFormat>(
    orders: &[u8],
    (written, at): (&[u64], u64),
    other: Other<F>,
    pages: u64,
    after: Other<F>,
) -> u64 {
    let w = World::<F>::new(Options {
        frames: 4096,
        ..Options::default()
    });
    sizes(&w, &[]);
    let before = w.mm.counts();
    let p = Arc::new(w.process());
    p.share().unwrap();
    map(&p, AT, 2 * PAGES, RW);
    for n in written {
        w.store(0, &p, page(*n), 1).unwrap();
    }
    sizes(&w, orders);
    while_zeroing(&w, &p, other);
    let looked = w.mm.event("fault_retried").unwrap();
    w.store(0, &p, page(at), 7).unwrap();
    assert!(!w.sim.forget(), "nothing was zeroed as a reader");
    let looked = w.mm.event("fault_retried").unwrap() - looked;
    for cpu in 0..2 {
        assert_eq!(w.load(cpu, &p, page(at)), Ok(7));
    }
    after(&w, &p);
    assert_eq!(p.usage().rss.anon, pages);
    w.check(&[&p], &[]);
    drop(p);
    w.check(&[], &[]);
    assert_eq!(before, w.mm.counts(), "{orders:?}");
    looked
}

/// Where the table is there already.
fn beside<F: PteFormat>(orders: &[u8], other: Other<F>, retried: u64, pages: u64) {
    let looked = store(orders, (&[WRITTEN, FAR], HERE), other, pages, |_, _| ());
    assert_eq!(looked, retried, "{orders:?}");
}

fn the_same_page_is_written<F: PteFormat>() {
    let write: Other<F> = |w, p| w.store(1, p, page(HERE), 3).unwrap();
    beside(&[], write, 1, 3);
    beside(&[4], write, 1, 2 + 16);
}

/// The hole is too small then for the folio that was made, but not for a page.
fn a_neighbour_is_written<F: PteFormat>() {
    let write: Other<F> = |w, p| {
        sizes(w, &[]);
        w.store(1, p, page(NEAR), 4).unwrap();
    };
    beside(&[], write, 0, 4);
    beside(&[4], write, 1, 4);
}

/// The page of zeros that comes in between is replaced.
fn the_same_page_is_read<F: PteFormat>() {
    let read: Other<F> = |w, p| assert_eq!(w.load(1, p, page(HERE)), Ok(0));
    beside(&[], read, 1, 3);
    beside(&[4], read, 1, 3);
}

/// Elsewhere in the table, and in another one: the fault does not notice.
fn other_pages_are_written<F: PteFormat>() {
    let write: Other<F> = |w, p| {
        w.store(1, p, page(WRITTEN + 40), 3).unwrap();
        w.store(1, p, page(FAR + 40), 3).unwrap();
    };
    beside(&[], write, 0, 5);
    beside(&[4], write, 0, 2 + 3 * 16);
}

/// Two CPUs make the first table, or the first PMD leaf, of 2 MiB.
fn the_same_table<F: PteFormat>(orders: &[u8], other: Other<F>, pages: u64) {
    store(orders, (&[FAR], ALONE), other, pages, |w, p| {
        assert_eq!(w.load(0, p, page(ALONE + 1)), Ok(4));
    });
}

fn two_first_tables<F: PteFormat>() {
    let write: Other<F> = |w, p| w.store(1, p, page(ALONE + 1), 4).unwrap();
    the_same_table(&[], write, 3);
    the_same_table(&[4], write, 1 + 16);
    the_same_table(&[9], write, 1 + 512);
    let small: Other<F> = |w, p| {
        sizes(w, &[]);
        w.store(1, p, page(ALONE + 1), 4).unwrap();
    };
    the_same_table(&[9], small, 3);
}

/// Others drop pages and populate as readers: as writers they would wait for the fault for ever.
fn pages_are_dropped<F: PteFormat>() {
    let drop: Other<F> = |_, p| {
        p.advise(page(FAR), (HERE - FAR) * PAGE_SIZE, Advice::DontNeed)
            .unwrap();
        p.dont_need(page(WRITTEN), PAGE_SIZE).unwrap();
    };
    beside(&[], drop, 0, 1);
    beside(&[4], drop, 0, 16);
}

/// A process with two threads and one written page, in a table for whose 2 MiB folios of the
/// orders are allowed afterwards.
fn with_a_table<F: PteFormat>(orders: &[u8], then: impl FnOnce(&World<F>, &Arc<Process<F>>)) {
    let w = World::<F>::new(Options {
        frames: 4096,
        ..Options::default()
    });
    sizes(&w, &[]);
    let before = w.mm.counts();
    let p = Arc::new(w.process());
    p.share().unwrap();
    map(&p, AT, 2 * PAGES, RW);
    w.store(0, &p, page(WRITTEN), 1).unwrap();
    sizes(&w, orders);
    then(&w, &p);
    w.check(&[&p], &[]);
    drop(p);
    w.check(&[], &[]);
    assert_eq!(before, w.mm.counts(), "{orders:?}");
}

/// A store to a page of the table, which another CPU empties before the `n`th load of an entry.
/// Returns whether there is such a load.
fn written_while_emptied<F: PteFormat>(n: usize, orders: &[u8]) -> bool {
    let mut reached = false;
    with_a_table::<F>(orders, |w, p| {
        let (v, q) = (w.clone(), p.clone());
        w.sim.meanwhile(At::Load, (1, n), move || {
            let there = std::thread::spawn(move || {
                v.sim.run_on(1);
                q.dont_need(page(512), 512 * PAGE_SIZE).unwrap();
            });
            there.join().expect("the other CPU has failed");
        });
        w.store(0, p, page(HERE), 7).unwrap();
        reached = !w.sim.forget();
        assert_eq!(w.load(1, p, page(HERE)), Ok(7));
    });
    reached
}

/// A table that becomes empty during a fault stays, whatever may come in its place.
fn a_table_becomes_empty<F: PteFormat>() {
    for orders in [&[][..], &[4], &[9], &[4, 9]] {
        let loads = (1..).take_while(|n| written_while_emptied::<F>(*n, orders));
        // The walk, and the page's own entry.
        assert!(loads.count() >= 4, "{orders:?}");
        with_a_table::<F>(orders, |w, p| {
            let all = (page(512), 512);
            let _alone = race::alone();
            assert_eq!(race::read_while_emptied(w, p, page(HERE), all), Ok(0));
            w.store(1, p, page(HERE), 7).unwrap();
            assert_eq!(w.load(0, p, page(HERE)), Ok(7));
        });
    }
}

/// Memory of another area needs a table where that of an unmapped one was, in the same 2 MiB.
fn a_table_goes_and_comes<F: PteFormat>() {
    with_a_table::<F>(&[], |w, p| {
        let end = WRITTEN + 10;
        // The table above stays.
        w.store(0, p, page(ALONE), 1).unwrap();
        p.protect(page(end), 10 * PAGE_SIZE, Prot::READ).unwrap();
        let _alone = race::alone();
        race::write_at_the_flush(w, p, page(end + 10), (page(0), end));
        assert_eq!(w.load(0, p, page(end + 10)), Ok(5));
        assert_eq!(w.load(0, p, page(WRITTEN)), Err(Resolution::NotMapped));
        assert_eq!(p.usage().rss.anon, 2);
    });
}

fn others_populate<F: PteFormat>() {
    let populate: Other<F> = |w, p| {
        sizes(w, &[]);
        let all = (2 * PAGES - FAR) * PAGE_SIZE;
        p.advise(page(FAR), all, Advice::PopulateWrite).unwrap();
    };
    let all = 2 * PAGES - FAR;
    beside(&[], populate, 1, all);
    beside(&[4], populate, 1, all);
}

/// The same advice in a space with one thread and in one with several.
fn advice_is_the_same<F: PteFormat>() {
    let outcome = |shared: bool, orders: &[u8]| {
        let w = World::<F>::new(Options {
            frames: 4096,
            ..Options::default()
        });
        sizes(&w, orders);
        let before = w.mm.counts();
        let p = w.process();
        if shared {
            p.share().unwrap();
        }
        map(&p, AT, 2 * PAGES, RW);
        for n in (0..PAGES).step_by(7) {
            w.store((n & 1) as usize, &p, page(n), 1).unwrap();
        }
        p.protect(page(300), 10 * PAGE_SIZE, Prot::READ).unwrap();
        p.mlock(page(800), PAGE_SIZE, true, false).unwrap();
        let mut seen = Vec::new();
        for (first, pages) in [(3, 1), (16, 100), (200, 512), (790, 20), (1000, 2000)] {
            let result = p.advise(page(first), pages * PAGE_SIZE, Advice::DontNeed);
            let resident = (0..PAGES).filter(|n| p.page_info(page(*n)).present);
            seen.push((result, p.usage().rss.anon, resident.collect::<Vec<_>>()));
            w.check(&[&p], &[]);
        }
        drop(p);
        w.check(&[], &[]);
        assert_eq!(before, w.mm.counts());
        seen
    };
    for orders in [&[][..], &[4], &[9]] {
        assert_eq!(outcome(false, orders), outcome(true, orders), "{orders:?}");
    }
}

/// 64 MiB, not aligned to tables, of which each table has some pages, in folios of an order.
fn many_tables<F: PteFormat>(order: u8, flushes: u64) {
    let w = World::<F>::new(Options {
        frames: 20480,
        ..Options::default()
    });
    sizes(&w, &[order]);
    let before = w.mm.counts();
    let p = w.process();
    p.share().unwrap();
    let (first, pages) = (100, 32 * 512);
    map(&p, page(first), pages, RW);
    // Another area has its last table, too.
    map(&p, page(first + pages + 10), 1, RW);
    for n in (0..pages).step_by(256).chain([pages + 10]) {
        w.store((n & 1) as usize, &p, page(first + n), 3).unwrap();
    }
    let count = |event| w.mm.event(event).unwrap();
    let (tables, flushed) = (count("page_tables_freed"), count("tlb_flush_range"));
    let unlinked = count("page_tables_unlinked");
    // All of them are in limbo at the flush, and none afterwards.
    let (limbo, v) = (Arc::new(AtomicU64::new(0)), w.clone());
    let seen = limbo.clone();
    w.sim.meanwhile(At::Flush, (1, 1), move || {
        seen.store(v.mm.event("page_tables_in_limbo").unwrap(), SeqCst);
    });
    p.unmap(page(first), pages * PAGE_SIZE).unwrap();
    assert!(!w.sim.forget(), "nothing was flushed as a reader");
    assert_eq!(limbo.load(SeqCst), 32);
    assert_eq!(count("page_tables_in_limbo"), 0);
    assert_eq!(count("page_tables_unlinked") - unlinked, 32);
    assert_eq!(count("page_tables_freed") - tables, 32);
    assert_eq!(count("tlb_flush_range") - flushed, flushes, "order {order}");
    assert_eq!(p.usage().rss.anon, 1);
    assert_eq!(w.load(1, &p, page(first)), Err(Resolution::NotMapped));
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts());
}

/// 1 TiB of which each GiB has a page, taken away in steps.
fn a_sparse_area<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 4096,
        ..Options::default()
    });
    sizes(&w, &[]);
    let before = w.mm.counts();
    let p = w.process();
    p.share().unwrap();
    let (each, len) = (1 << 30, 1 << 40);
    let request = mm::MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(Place::Fixed(AT), len / PAGE_SIZE, RW)
    };
    p.map(request).unwrap();
    for at in (0..len).step_by(each) {
        w.store(0, &p, AT + at, 1).unwrap();
    }
    p.unmap(AT, len).unwrap();
    assert_eq!(p.usage().rss.anon, 0);
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts());
}

fn one_flush_for_many_tables<F: PteFormat>() {
    many_tables::<F>(0, 1);
    many_tables::<F>(4, 1);
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// What there is of tables and of metadata, by line.
type Lines = BTreeMap<Line, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    /// Entries of a table, eight to a line.
    Entries(Pfn, usize),
    /// The metadata of frames, by the address of the line on the host.
    Metadata(usize),
}

fn metadata<F: PteFormat>(w: &World<F>, pfn: Pfn) -> Line {
    Line::Metadata((&raw const *w.mm.frames().get(pfn)).addr() / LINE)
}

fn lines<F: PteFormat>(w: &World<F>) -> Lines {
    let mut lines = Lines::new();
    for (pfn, meta) in w.mm.frames().iter() {
        *lines.entry(metadata(w, pfn)).or_default() += &format!("{meta:?} ");
        if meta.kind() == Kind::Table {
            for index in 0..TABLE_ENTRIES {
                let line = Line::Entries(pfn, index * size_of::<u64>() / LINE);
                *lines.entry(line).or_default() += &format!("{:x} ", w.sim.load(pfn, index));
            }
        }
    }
    lines
}

/// The lines of tables and of metadata that a store to the page changes.
fn changed<F: PteFormat>(w: &World<F>, p: &Process<F>, cpu: usize, n: u64) -> BTreeSet<Line> {
    let before = lines(w);
    w.store(cpu, p, page(n), 7).unwrap();
    let after = lines(w).into_iter();
    let mut changed: BTreeSet<Line> = after
        .filter(|(line, now)| before.get(line) != Some(now))
        .map(|(line, _)| line)
        .collect();
    // A table's lock and the count of its entries are not told.
    for line in changed.clone() {
        if let Line::Entries(table, _) = line {
            changed.insert(metadata(w, table));
        }
    }
    changed
}

/// Of what all CPUs can reach, a fault writes the entry, the metadata of its table and that of its
/// page: none of these lines is also written by a fault in other 2 MiB.
fn two_faults_write_different_lines<F: PteFormat>() {
    for orders in [&[][..], &[2]] {
        let w = World::<F>::new(Options {
            frames: 8192,
            ..Options::default()
        });
        sizes(&w, orders);
        let p = w.process();
        p.share().unwrap();
        map(&p, AT, PAGES, RW);
        // Each CPU has its table, and free blocks for three faults in its list.
        let pages = |cpu: u64| (0..3).map(move |n| cpu * 512 + n * 16);
        (0..2).for_each(|cpu| w.store(cpu as usize, &p, page(cpu * 512 + 500), 1).unwrap());
        let of = |cpu: u64| -> Vec<_> {
            pages(cpu)
                .map(|n| changed(&w, &p, cpu as usize, n))
                .collect()
        };
        let (here, there) = (of(0), of(1));
        for lines in here.iter().chain(&there) {
            let entries = lines
                .iter()
                .filter(|line| matches!(line, Line::Entries(..)));
            assert_eq!((entries.count(), lines.len()), (1, 3), "{lines:x?}");
        }
        let all =
            |of: &[BTreeSet<Line>]| -> BTreeSet<Line> { of.iter().flatten().copied().collect() };
        assert!(all(&here).is_disjoint(&all(&there)), "{here:x?} {there:x?}");
    }
}

/// A copy that was shared with a child, and one that only this space has.
fn copies<F: PteFormat>() {
    let w = World::<F>::new(Options::default());
    sizes(&w, &[]);
    // One by one.
    w.mm.switches().set(Switch::Cow, 0);
    let before = w.mm.counts();
    let p = w.process();
    p.share().unwrap();
    map(&p, AT, 8, RW);
    (0..8).for_each(|n| w.store(0, &p, page(n), n as u8).unwrap());
    let child = w.adopt(p.fork().unwrap());
    let event = |name| w.mm.event(name).unwrap();
    let (copied, reused) = (event("cow_copied"), event("cow_reused"));
    (0..4).for_each(|n| w.store(1, &p, page(n), 9).unwrap());
    assert_eq!(event("cow_copied") - copied, 4);
    drop(child);
    (4..8).for_each(|n| w.store(1, &p, page(n), 9).unwrap());
    assert_eq!(event("cow_reused") - reused, 4);
    (0..8).for_each(|n| assert_eq!(w.load(0, &p, page(n)), Ok(9)));
    assert_eq!(p.usage().rss.anon, 8);
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts());
}

/// What fails, fails as with the space's lock.
fn failures<F: PteFormat>() {
    let w = World::<F>::new(Options::default());
    sizes(&w, &[]);
    let p = w.process();
    p.share().unwrap();
    map(&p, AT, 8, RW);
    w.store(0, &p, page(0), 1).unwrap();
    w.mm.allocator().fail_after(Some(0));
    assert_eq!(w.store(1, &p, page(1), 1), Err(Resolution::NoMem));
    w.mm.allocator().fail_after(None);
    w.store(1, &p, page(1), 1).unwrap();
    p.protect(page(0), 8 * PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(w.store(1, &p, page(2), 1), Err(Resolution::Denied));
    assert_eq!(w.store(1, &p, page(8), 1), Err(Resolution::NotMapped));
    assert_eq!(p.usage().rss.anon, 2);
    w.check(&[&p], &[]);
}

on_both_formats! {
    the_same_page_is_written a_neighbour_is_written the_same_page_is_read other_pages_are_written
    two_first_tables pages_are_dropped a_table_becomes_empty a_table_goes_and_comes others_populate advice_is_the_same
    one_flush_for_many_tables a_sparse_area two_faults_write_different_lines copies failures
}
