//! The entries of page tables as /proc shows them: all of them, in order, however many are asked
//! for at a time, and as the pages themselves say.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::{Attrs, Level, PteFormat};
use mm::switch::{ForkBy, Switch};
use mm::{Advice, EntryRun, EntryTo};
use std::collections::BTreeSet;

const HUGE: u64 = 512;

/// All runs, so many at a time, those put together again that the end of a call cut.
fn runs<F: PteFormat>(p: &Process<F>, at_a_time: usize) -> Vec<EntryRun> {
    let mut all: Vec<EntryRun> = Vec::new();
    let mut from = Some(0);
    while let Some(position) = from {
        let mut some = Vec::with_capacity(at_a_time);
        let most = some.capacity();
        from = p.entries_from(position, &mut some);
        assert!(from.is_none_or(|next| next > position) && some.len() <= most);
        all.extend(some);
    }
    all
}

/// Single entries: with the run that each was in taken apart.
fn singles(runs: &[EntryRun]) -> Vec<EntryRun> {
    let single = |run: &EntryRun, n: u64| EntryRun {
        va: run.va + n * run.level.bytes(),
        entries: 1,
        pfn: mm::addr::Pfn(run.pfn.0 + n * run.level.order().pages()),
        ..*run
    };
    let all = runs
        .iter()
        .flat_map(|run| (0..run.entries).map(move |n| single(run, n)));
    all.collect()
}

/// Large and small folios, zeros, a PMD leaf, and holes between them.
fn fill<F: PteFormat>(w: &World<F>) -> Process<F> {
    let p = w.process();
    sizes(w, &[4]);
    map(&p, AT, 3 * HUGE, RW);
    for n in [0, 16, 40, HUGE - 1, HUGE + 7] {
        w.store(0, &p, page(n), 1).unwrap();
    }
    sizes(w, &[]);
    map(&p, page(3 * HUGE), 20, RW);
    (0..5).for_each(|n| assert_eq!(w.load(0, &p, page(3 * HUGE + n)), Ok(0)));
    (7..12).for_each(|n| w.store(0, &p, page(3 * HUGE + n), 1).unwrap());
    sizes(w, &[9]);
    map(&p, page(8 * HUGE), 2 * HUGE, RW);
    w.store(0, &p, page(8 * HUGE), 1).unwrap();
    p
}

fn agree<F: PteFormat>(p: &Process<F>) {
    let all = singles(&runs(p, 1000));
    for at_a_time in [1, 2, 3, 7] {
        assert_eq!(singles(&runs(p, at_a_time)), all, "{at_a_time} at a time");
    }
    let place = |run: &EntryRun| (run.va, 3 - run.level as u8);
    assert!(all.is_sorted_by(|a, b| place(a) < place(b)), "{all:?}");
    let mut pages = BTreeSet::new();
    let mut tables = 1;
    for run in &all {
        let EntryTo::Memory { attrs, .. } = run.to else {
            assert!(run.level > Level::Pte);
            tables += u64::from(run.to == EntryTo::Table);
            continue;
        };
        for n in 0..run.level.order().pages() {
            let va = run.va + n * PAGE_SIZE;
            let info = p.page_info(va);
            assert!(info.present && pages.insert(va), "{run:?}");
            assert_eq!(info.pfn, run.pfn.0 + n);
            assert!(attrs.contains(Attrs::USER) && attrs.contains(Attrs::ACCESSED));
        }
    }
    let usage = p.usage();
    assert_eq!(tables, usage.page_tables, "{all:?}");
    let zeros = |va: &&VirtAddr| !p.page_info(**va).zero_page;
    assert_eq!(pages.iter().filter(zeros).count() as u64, usage.rss.total());
}

fn all_entries_in_order<F: PteFormat>(w: &World<F>) {
    agree(&fill(w));
    let p = w.process();
    assert_eq!(runs(&p, 8), []);
}

fn a_folio_is_one_run<F: PteFormat>(w: &World<F>) {
    let p = fill(w);
    let all = runs(&p, 1000);
    let at = |va: VirtAddr, level| {
        let found = all.iter().find(|run| (run.va, run.level) == (va, level));
        *found.unwrap_or_else(|| panic!("{va:?}: {all:?}"))
    };
    let folio = at(page(0), Level::Pte);
    let folded = F::CONTIG_ORDER.is_some() && w.mm.switches().contpte();
    let EntryTo::Memory {
        attrs,
        folio: block,
    } = folio.to
    else {
        panic!("{folio:?}")
    };
    assert_eq!((folio.entries, block.order.0), (16, 4));
    assert_eq!(attrs.contains(Attrs::CONTIG), folded);
    // Two folios, though they may lie side by side.
    assert_eq!(at(page(16), Level::Pte).entries, 16);
    assert_eq!(at(page(8 * HUGE), Level::Pmd).entries, 1);
}

fn shared_tables_are_shown_with_what_is_in_them<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, ForkBy::Share as u32);
    let p = fill(w);
    let child = w.adopt(p.fork().unwrap());
    for process in [&p, &child] {
        let all = singles(&runs(process, 1000));
        let shared = all.iter().filter(|run| run.to == EntryTo::Shared(2));
        let shared: Vec<VirtAddr> = shared.map(|run| run.va).collect();
        assert_eq!(shared, [page(0), page(HUGE)], "{all:?}");
        let below = |run: &&EntryRun| run.level == Level::Pte && run.va < page(2 * HUGE);
        assert_eq!(all.iter().filter(below).count(), 5 * 16);
        assert_eq!(singles(&runs(process, 1)), all);
    }
}

/// The runs of swap entries among these: pages, size of the block in pages, and whether parked.
fn slots(runs: &[EntryRun]) -> Vec<(u64, u64, bool)> {
    let slots = runs.iter().filter_map(|run| match run.to {
        EntryTo::Slots { block, parked } => {
            assert!(block.head <= run.pfn && run.level == Level::Pte);
            Some((run.entries, block.order.pages(), parked.is_some()))
        }
        _ => None,
    });
    slots.collect()
}

fn slots_are_shown_as_parked_or_stored<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Fork, ForkBy::Batch as u32);
    let p = w.process();
    sizes(w, &[4]);
    map(&p, AT, 32, RW);
    [0, 16]
        .into_iter()
        .for_each(|n| w.store(0, &p, page(n), 1).unwrap());
    let frame = p.page_info(page(0)).pfn;
    let child = w.adopt(p.fork().unwrap());
    w.store(0, &child, page(3), 1).unwrap();
    let out = |p: &Process<F>| p.advise(AT, 32 * PAGE_SIZE, Advice::PageOut).unwrap();
    out(&p);
    let all = runs(&p, 1000);
    assert_eq!(slots(&all), [(16, 16, true), (16, 16, true)], "{all:?}");
    let parked = all.iter().find_map(|run| match run.to {
        EntryTo::Slots { parked, .. } => parked,
        _ => None,
    });
    let (pfn, folio) = parked.unwrap();
    assert_eq!((pfn.0, folio.order.0), (frame, 4));
    assert_eq!(singles(&runs(&p, 1)).len(), singles(&all).len());
    // The page that the child has copied is nobody else's.
    out(&child);
    let stored = [
        (3, 16, false),
        (1, 1, false),
        (12, 16, false),
        (16, 16, false),
    ];
    assert_eq!(slots(&runs(&child, 1000)), stored);
}

/// Runs a test with and without the contiguous bit, and compares frames before and after.
fn on<F: PteFormat>(test: fn(&World<F>)) {
    for contpte in [0, 1] {
        let world = World::<F>::new(Options {
            frames: 8192,
            ..Options::default()
        });
        world.mm.switches().set(Switch::Contpte, contpte);
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::on::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::on::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
tests! {
    all_entries_in_order
    a_folio_is_one_run
    shared_tables_are_shown_with_what_is_in_them
    slots_are_shown_as_parked_or_stored
}
