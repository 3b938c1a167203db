//! What a write fault does for the neighbours of a page (`cow=around`, `cow=grow`): which of them
//! it may look at, and which it takes along.

mod common;

use arch_sim::{Options, World};
use common::{AT, RW, Space, map, page, sizes};
use mm::Advice;
use mm::addr::{PAGE_SIZE, VirtRange};
use mm::arch::{Attrs, PteFormat};
use mm::switch::Switch;
use mm::vma::Prot;

macro_rules! tests {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::on::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::on::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
tests! {
    beside_the_end_of_memory
    what_was_not_used_is_not_copied
    a_folded_block_is_used_as_one
    writes_apart_copy_their_pages
    what_is_copied_grows_with_what_is_written
    a_whole_table_is_copied_where_memory_is_plenty
    what_was_copied_and_not_written_is_no_reason
    populate_copies_as_writes_in_order_do
    what_may_not_be_copied_leaves_smaller_blocks
}

const BLOCK: u64 = 16;
/// Words of the switch.
const AROUND: u32 = 1;
const GROW: u32 = 2;

/// Runs the test with so much memory that folios are copied whole.
fn on<F: PteFormat>(test: fn(&World<F>)) {
    for hardware_ad in [true, false] {
        let world = World::<F>::new(Options {
            frames: 4096,
            hardware_ad,
            // A prefetch uses pages that nothing else does.
            prefetch: 0,
            ..Options::default()
        });
        world.mm.switches().set(Switch::Cow, AROUND);
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
    }
}

/// A process with a folio of 16 pages, all of them written.
fn block<F: PteFormat>(w: &World<F>) -> arch_sim::Process<F> {
    sizes(w, &[4]);
    let s = w.process();
    map(&s, AT, BLOCK, RW);
    (0..BLOCK).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    s
}

/// How many pages a child of `s` copies when it writes to page `n`.
fn copied<F: PteFormat>(w: &World<F>, s: &Space<F>, n: u64) -> u64 {
    let child = w.adopt(s.fork().unwrap());
    let before = w.mm.event("pages_copied").unwrap();
    w.store(1, &child, page(n), 99).unwrap();
    w.check(&[s, &child], &[]);
    assert_eq!(w.load(0, s, page(n)), Ok(n as u8));
    w.mm.event("pages_copied").unwrap() - before
}

/// Says that pages are not used. The machine knows that this was on purpose.
fn cold<F: PteFormat>(w: &World<F>, s: &Space<F>, first: u64, pages: u64) {
    s.advise(page(first), pages * PAGE_SIZE, Advice::Cold)
        .unwrap();
    let range = VirtRange::new(page(first), page(first + pages));
    w.sim.forgive(s.root(), range, Attrs::ACCESSED);
}

/// A page of the folio is given back, and the one that comes in its place has no neighbours in
/// memory.
fn beside_the_end_of_memory<F: PteFormat>(w: &World<F>) {
    let s = block(w);
    sizes(w, &[]);
    let hog = w.process();
    let all = w.mm.counts().free;
    map(&hog, AT, all, RW);
    let had = (0..all).take_while(|n| w.store(0, &hog, page(*n), 0).is_ok());
    let had = had.count() as u64;
    let pfn = |n: &u64| hog.page_info(page(*n)).pfn;
    let (low, high) = (
        (0..had).min_by_key(pfn).unwrap(),
        (0..had).max_by_key(pfn).unwrap(),
    );
    let end = w.mm.frames().span().end;
    assert!(pfn(&high) + BLOCK > end.0);
    for (from, to) in [(low, BLOCK - 1), (high, 0)] {
        let wanted = pfn(&from);
        for (space, n) in [(&s, to), (&hog, from)] {
            space.dont_need(page(n), PAGE_SIZE).unwrap();
        }
        w.store(0, &s, page(to), to as u8).unwrap();
        assert_eq!(s.page_info(page(to)).pfn, wanted);
    }
    drop(hog);
    sizes(w, &[4]);
    for n in [0, 5, BLOCK - 1] {
        assert_eq!(copied(w, &s, n), 1);
    }
}

fn what_was_not_used_is_not_copied<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Contpte, 0);
    let s = block(w);
    assert_eq!(copied(w, &s, 3), BLOCK);
    for unused in 0..BLOCK {
        // None is left used by the one before.
        (0..BLOCK).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
        cold(w, &s, unused, 1);
        // A CPU that has the entry already need not say that it is used.
        assert_eq!(copied(w, &s, (unused + 1) % BLOCK), 1, "{unused}");
        (0..2).for_each(|cpu| assert!(w.load(cpu, &s, page(unused)).is_ok()));
    }
}

fn a_folded_block_is_used_as_one<F: PteFormat>(w: &World<F>) {
    let s = block(w);
    cold(w, &s, 0, BLOCK);
    let whole = if F::CONTIG_ORDER.is_some() { BLOCK } else { 1 };
    // Flushes, so that a CPU that uses one page has to say so.
    for prot in [Prot::READ, RW] {
        s.protect(AT, BLOCK * PAGE_SIZE, prot).unwrap();
    }
    w.load(0, &s, page(7)).unwrap();
    assert_eq!(copied(w, &s, 7), whole);
}

/// A process with so many pages in folios of `order`, all written, and its child, which copies by
/// `cow=grow`.
fn with_child<F: PteFormat>(
    w: &World<F>,
    order: u8,
    pages: u64,
) -> (arch_sim::Process<F>, arch_sim::Process<F>) {
    sizes(w, &[order]);
    let s = w.process();
    map(&s, AT, pages, RW);
    (0..pages).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    sizes(w, &[2, 3, 4, 5, 6, 7, 8, 9]);
    w.mm.switches().set(Switch::Cow, GROW);
    let child = w.adopt(s.fork().unwrap());
    (s, child)
}

/// Writes to these pages of the child; how many pages each write copied.
fn copies<F: PteFormat>(
    w: &World<F>,
    (s, child): (&Space<F>, &Space<F>),
    pages: impl Iterator<Item = u64>,
) -> Vec<u64> {
    let copied = || w.mm.event("pages_copied").unwrap();
    let all = pages.map(|n| {
        let before = copied();
        w.store(1, child, page(n), 99).unwrap();
        assert_eq!(w.load(0, s, page(n)), Ok(n as u8));
        copied() - before
    });
    let all = all.collect();
    w.check(&[s, child], &[]);
    all
}

fn writes_apart_copy_their_pages<F: PteFormat>(w: &World<F>) {
    for order in [0, 2, 4, 9] {
        for step in [2, 16, 512] {
            let (s, child) = with_child(w, order, 1024);
            let each = copies(w, (&s, &child), (0..1024).step_by(step));
            assert!(each.iter().all(|n| *n == 1), "{order}, {step}: {each:?}");
        }
    }
}

/// How many pages the writes to each of 1024 pages copy, upwards or downwards: two single ones,
/// then as many as there were before, `most` at most.
fn grows<F: PteFormat>(w: &World<F>, order: u8, most: u64) {
    for down in [false, true] {
        let (s, child) = with_child(w, order, 1024);
        let at = |n: u64| if down { 1023 - n } else { n };
        let each = copies(w, (&s, &child), (0..1024).map(at));
        let copied: Vec<u64> = each.into_iter().filter(|n| *n > 0).collect();
        let mut expected = vec![1, 1];
        let mut sum = 2;
        while sum < 1024 {
            let next = most.min(sum);
            expected.push(next);
            sum += next;
        }
        assert_eq!(copied, expected, "down {down}, order {order}");
    }
}

fn what_is_copied_grows_with_what_is_written<F: PteFormat>(w: &World<F>) {
    // To single pages, up to 64 kB; to large folios.
    grows(w, 0, 16);
    grows(w, 4, 16);
    // Of 4096 frames 64 are more than 1 in 64 of the free ones.
    grows(w, 9, 32);
}

fn a_whole_table_is_copied_where_memory_is_plenty<F: PteFormat>(_: &World<F>) {
    let world = World::<F>::new(Options {
        frames: 1 << 16,
        prefetch: 0,
        ..Options::default()
    });
    grows(&world, 9, 512);
}

fn what_was_copied_and_not_written_is_no_reason<F: PteFormat>(w: &World<F>) {
    // A folded block has one dirty bit.
    w.mm.switches().set(Switch::Contpte, 0);
    let (s, child) = with_child(w, 9, 512);
    let each = copies(w, (&s, &child), [0, 1, 2, 3, 4, 8, 16, 32, 64].into_iter());
    assert_eq!(each, [1, 1, 2, 0, 4, 1, 1, 1, 1]);
}

fn populate_copies_as_writes_in_order_do<F: PteFormat>(w: &World<F>) {
    for order in [4, 5] {
        let (s, child) = with_child(w, order, 64);
        let copied = w.mm.event("cow_copied").unwrap();
        let len = 64 * PAGE_SIZE;
        child.advise(AT, len, Advice::PopulateWrite).unwrap();
        w.check(&[&s, &child], &[]);
        // 1, 1, 2, 4, 8, and what is left by 16 or 32.
        let expected = if order == 4 { 8 } else { 7 };
        assert_eq!(w.mm.event("cow_copied").unwrap() - copied, expected);
    }
}

fn what_may_not_be_copied_leaves_smaller_blocks<F: PteFormat>(w: &World<F>) {
    w.mm.switches().set(Switch::Contpte, 0);
    // The area ends within a block of 16, and page 14 of another is absent.
    let (s, child) = with_child(w, 0, 28);
    for space in [&s, &child] {
        space.unmap(page(28), PAGE_SIZE).unwrap();
        space.dont_need(page(14), PAGE_SIZE).unwrap();
    }
    let each = copies(w, (&s, &child), (0..28).filter(|n| *n != 14));
    let copied: Vec<u64> = each.into_iter().filter(|n| *n > 0).collect();
    assert_eq!(copied, [1, 1, 2, 4, 4, 2, 1, 2, 2, 4, 4]);
}
