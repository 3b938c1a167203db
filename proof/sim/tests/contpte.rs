//! The contiguous bit through the user's verbs: what folds, what unfolds, what stays folded.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::Advice;
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::{Attrs, PteFormat};
use mm::fault::Access;
use mm::switch::{ForkBy, Switch};
use mm::thp::controls::SizeEnabled;
use mm::vma::Prot;

type Arm = arch_aarch64::pte::Format;

/// Pages of a block.
const BLOCK: u64 = 16;

/// A machine whose folios have this order.
fn world<F: PteFormat>(order: u8, hardware_ad: bool) -> World<F> {
    let world = World::<F>::new(Options {
        frames: 4096,
        hardware_ad,
        ..Options::default()
    });
    world.mm.thp().controls.change(|settings| {
        settings.sizes.fill(SizeEnabled::Never);
        settings.sizes[order as usize] = SizeEnabled::Always;
    });
    world
}

/// Runs the test with and without bits that the hardware sets and with either fork, and compares
/// frames before and after.
fn both(order: u8, test: impl Fn(&World<Arm>)) {
    let settings = [true, false].map(|ad| [ForkBy::Batch, ForkBy::Share].map(|fork| (ad, fork)));
    for (hardware_ad, fork) in settings.concat() {
        let world = world(order, hardware_ad);
        world.mm.switches().set(Switch::Fork, fork as u32);
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
    }
}

fn events(w: &World<Arm>) -> (u64, u64) {
    let event = |name| w.mm.event(name).expect("a counter");
    (event("contpte_folded"), event("contpte_unfolded"))
}

/// How many folios of 64 KiB the area at the start has in contiguous blocks.
fn folded(p: &Process<Arm>, n: u64) -> u64 {
    let smaps = p.smaps(page(n)).expect("it is mapped");
    smaps.folios.iter().map(|folios| folios.contpte).sum()
}

/// An area of pages that were all written.
fn area(w: &World<Arm>, pages: u64) -> Process<Arm> {
    let p = w.process();
    map(&p, AT, pages, RW);
    (0..pages).for_each(|n| w.store((n & 1) as usize, &p, page(n), n as u8).unwrap());
    w.check(&[&p], &[]);
    p
}

#[test]
fn a_folio_is_installed_folded() {
    both(4, |w| {
        let p = area(w, 3 * BLOCK);
        assert_eq!((folded(&p, 0), events(w)), (3, (0, 0)));
    });
    both(6, |w| {
        let p = area(w, 64);
        assert_eq!((folded(&p, 0), events(w)), (1, (0, 0)));
    });
    both(3, |w| {
        let p = area(w, 3 * BLOCK);
        assert_eq!((folded(&p, 0), events(w)), (0, (0, 0)));
    });
}

#[test]
fn nothing_folds_with_the_switch_off() {
    both(4, |w| {
        w.mm.switches().set(Switch::Contpte, 0);
        let p = area(w, BLOCK);
        p.protect(page(3), PAGE_SIZE, Prot::READ).unwrap();
        p.protect(page(3), PAGE_SIZE, RW).unwrap();
        assert_eq!((folded(&p, 0), events(w)), (0, (0, 0)));
        w.mm.switches().set(Switch::Contpte, 1);
        p.protect(page(3), PAGE_SIZE, Prot::READ).unwrap();
        p.protect(page(3), PAGE_SIZE, RW).unwrap();
        assert_eq!((folded(&p, 0), events(w)), (1, (1, 0)));
        // What is folded stays so, and is unfolded as ever.
        w.mm.switches().set(Switch::Contpte, 0);
        p.unmap(page(5), PAGE_SIZE).unwrap();
        assert_eq!((folded(&p, 0), events(w)), (0, (1, 1)));
        w.check(&[&p], &[]);
    });
}

#[test]
fn a_part_unfolds_and_the_whole_folds_again() {
    both(4, |w| {
        let p = area(w, 3 * BLOCK);
        // From the middle of the first block to the middle of the third: the second stays as it is.
        p.protect(page(7), 2 * BLOCK * PAGE_SIZE, Prot::READ)
            .unwrap();
        w.check(&[&p], &[]);
        assert_eq!((folded(&p, 7), events(w)), (1, (0, 2)));
        p.protect(page(7), 2 * BLOCK * PAGE_SIZE, RW).unwrap();
        w.check(&[&p], &[]);
        assert_eq!((folded(&p, 0), events(w)), (3, (2, 2)));
        (0..3 * BLOCK).for_each(|n| assert_eq!(w.load(1, &p, page(n)), Ok(n as u8)));
        w.check(&[&p], &[]);
    });
}

#[test]
fn whole_blocks_stay_folded() {
    both(4, |w| {
        let p = area(w, 4 * BLOCK);
        p.protect(page(BLOCK), BLOCK * PAGE_SIZE, Prot::READ)
            .unwrap();
        w.check(&[&p], &[]);
        let child = w.adopt(p.fork().unwrap());
        w.check(&[&p, &child], &[]);
        assert_eq!((folded(&p, BLOCK), folded(&child, 0)), (1, 1));
        child.unmap(page(2 * BLOCK), BLOCK * PAGE_SIZE).unwrap();
        w.check(&[&p, &child], &[]);
        drop(child);
        p.advise(AT, BLOCK * PAGE_SIZE, Advice::DontNeed).unwrap();
        w.check(&[&p], &[]);
        assert_eq!(events(w), (0, 0));
        assert_eq!(w.load(0, &p, page(3)), Ok(0));
    });
}

#[test]
fn no_access_takes_a_block_away() {
    both(4, |w| {
        let p = area(w, BLOCK);
        p.protect(AT, BLOCK * PAGE_SIZE, Prot::empty()).unwrap();
        w.check(&[&p], &[]);
        assert_eq!(folded(&p, 0), 0);
        p.protect(AT, BLOCK * PAGE_SIZE, RW).unwrap();
        w.check(&[&p], &[]);
        assert_eq!(folded(&p, 0), 1);
        (0..BLOCK).for_each(|n| assert_eq!(w.load(1, &p, page(n)), Ok(n as u8)));
    });
}

/// A process with a folded block that was written at page 3 and nowhere else: the walker has said
/// so in any one of its entries. And its parent.
fn dirty_in_one(seed: u64) -> (World<Arm>, Process<Arm>, Process<Arm>) {
    let w = World::<Arm>::new(Options {
        frames: 4096,
        seed,
        prefetch: 0,
        ..Options::default()
    });
    w.mm.thp().controls.set_size(Order(4), SizeEnabled::Always);
    // The block is copied as a whole.
    w.mm.switches().set(Switch::Cow, 1);
    let parent = area(&w, BLOCK);
    let p = w.adopt(parent.fork().unwrap());
    w.store(0, &p, page(3), 1).unwrap();
    w.check(&[&parent, &p], &[]);
    assert_eq!((folded(&p, 0), p.page_info(page(3)).dirty), (1, true));
    (w, parent, p)
}

/// What comes apart without a fault says all the same how the block was used.
#[test]
fn bits_in_any_entry_outlive_the_block() {
    for seed in 1..32 {
        let (w, parent, p) = dirty_in_one(seed);
        let dirty = |p: &Process<Arm>| p.smaps(AT).unwrap().private_dirty;
        assert_eq!(dirty(&p), BLOCK * PAGE_SIZE);
        // A child of who has a pinned page gets copies of the pages, used as they were.
        let pin = p.pin_long_term(page(9), Access::Write).unwrap();
        let child = w.adopt(p.fork().unwrap());
        w.check(&[&parent, &p, &child], &[]);
        assert!((0..BLOCK).all(|n| child.page_info(page(n)).dirty), "{seed}");
        drop((pin, child));
        p.protect(AT, BLOCK * PAGE_SIZE, Prot::empty()).unwrap();
        w.check(&[&parent, &p], &[]);
        assert_eq!(dirty(&p), BLOCK * PAGE_SIZE, "{seed}");
    }
}

#[test]
fn a_copied_page_leaves_its_block() {
    both(4, |w| {
        w.mm.switches().set(Switch::Cow, 0);
        let p = area(w, BLOCK);
        let child = w.adopt(p.fork().unwrap());
        w.store(1, &child, page(9), 99).unwrap();
        w.check(&[&p, &child], &[]);
        assert_eq!(
            (folded(&p, 0), folded(&child, 0), events(w)),
            (1, 0, (0, 1))
        );
        assert_eq!(
            (w.load(0, &p, page(9)), w.load(0, &child, page(9))),
            (Ok(9), Ok(99))
        );
    });
}

/// With `cow=around` the child's copy is a folio, folded, and the parent's block is left alone.
#[test]
fn a_block_is_copied_whole() {
    both(4, |w| {
        w.mm.switches().set(Switch::Cow, 1);
        let p = area(w, BLOCK);
        let child = w.adopt(p.fork().unwrap());
        w.store(1, &child, page(9), 99).unwrap();
        w.check(&[&p, &child], &[]);
        assert_eq!((folded(&p, 0), folded(&child, 0)), (1, 1));
        let event = |name| w.mm.event(name).expect("a counter");
        assert_eq!(
            (event("cow_copied"), event("cow_around_pages")),
            (1, BLOCK - 1)
        );
        for n in 0..BLOCK {
            assert_eq!(w.load(0, &p, page(n)), Ok(n as u8));
            let of_child = if n == 9 { 99 } else { n as u8 };
            assert_eq!(w.load(1, &child, page(n)), Ok(of_child));
        }
        // The parent's folio is its own again: one fault takes all of it back.
        (0..BLOCK).for_each(|n| w.store(0, &p, page(n), 1).unwrap());
        w.check(&[&p, &child], &[]);
        assert_eq!((event("cow_copied"), event("cow_reused")), (1, 1));
        drop(child);
        // Where software marks a folded block dirty, it marks all of it.
        let wasted = event("cow_around_wasted");
        assert!(wasted == BLOCK - 1 || wasted == 0, "{wasted}");
    });
}

/// Of a parent, a child and a grandchild each in turn is the last that maps the folio: it copies
/// nothing.
#[test]
fn whoever_is_left_takes_the_folio_back() {
    for last in 0..3 {
        both(4, |w| {
            let p = area(w, BLOCK);
            let child = w.adopt(p.fork().unwrap());
            let grandchild = w.adopt(child.fork().unwrap());
            w.check(&[&p, &child, &grandchild], &[]);
            let mut all = vec![p, child, grandchild];
            let left = all.swap_remove(last);
            all.clear();
            (0..BLOCK).for_each(|n| w.store(1, &left, page(n), 5).unwrap());
            w.check(&[&left], &[]);
            let event = |name| w.mm.event(name).expect("a counter");
            assert_eq!((event("cow_copied"), event("cow_reused")), (0, 1));
            assert_eq!(folded(&left, 0), 1);
        });
    }
}

/// After fork the pages come back one by one, in any order, and with the last of them the block.
#[test]
fn completed_one_by_one_in_any_order() {
    for order in [[0, 1], [1, 0]] {
        both(4, |w| {
            let p = area(w, BLOCK);
            p.protect(page(3), PAGE_SIZE, Prot::READ).unwrap();
            p.protect(page(12), PAGE_SIZE, Prot::READ).unwrap();
            w.check(&[&p], &[]);
            for i in order {
                assert_eq!(folded(&p, 0), 0);
                p.protect(page([3, 12][i]), PAGE_SIZE, RW).unwrap();
                w.check(&[&p], &[]);
            }
            assert_eq!((folded(&p, 0), events(w)), (1, (1, 1)));
        });
        both(4, |w| {
            w.mm.switches().set(Switch::Reuse, 0);
            let p = area(w, BLOCK);
            w.mm.switches().set(Switch::Contpte, 0);
            p.protect(page(3), PAGE_SIZE, Prot::READ).unwrap();
            p.protect(page(3), PAGE_SIZE, RW).unwrap();
            drop(w.adopt(p.fork().unwrap()));
            w.mm.switches().set(Switch::Contpte, 1);
            // Every page is taken back alone, with WRITE again; the last one completes the block.
            for i in 0..BLOCK {
                assert_eq!(folded(&p, 0), 0);
                let n = if order == [0, 1] { i } else { BLOCK - 1 - i };
                w.store(0, &p, page(n), 7).unwrap();
                w.check(&[&p], &[]);
            }
            assert_eq!(folded(&p, 0), 1);
        });
    }
}

#[test]
fn moved_to_where_it_fits_and_where_it_does_not() {
    both(4, |w| {
        let p = area(w, 2 * BLOCK);
        let len = 2 * BLOCK * PAGE_SIZE;
        for (to, blocks) in [(page(1000), 0), (page(2003), 0), (page(3008), 2)] {
            let from = p
                .vma_at(AT)
                .map_or_else(|| page(to_before(to)), |v| v.range.start);
            assert_eq!(
                p.remap(from, len, len, FIXED, to, &mut Default::default()),
                Ok(to)
            );
            w.check(&[&p], &[]);
            let n = (to - AT) / PAGE_SIZE;
            let blocks = if n.is_multiple_of(BLOCK) {
                blocks.max(2)
            } else {
                blocks
            };
            assert_eq!(folded(&p, n), blocks);
            (0..2 * BLOCK).for_each(|i| assert_eq!(w.load(1, &p, page(n + i)), Ok(i as u8)));
            w.check(&[&p], &[]);
        }
    });
}

/// Where the test before has put the area before it goes to `to`.
fn to_before(to: mm::addr::VirtAddr) -> u64 {
    if to == page(2003) { 1000 } else { 2003 }
}

#[test]
fn bits_in_any_entry_are_seen_in_all() {
    let w = world::<Arm>(4, true);
    let p = w.process();
    map(&p, AT, BLOCK, RW);
    w.store(0, &p, AT, 1).unwrap();
    p.advise(AT, BLOCK * PAGE_SIZE, Advice::Cold).unwrap();
    let range = mm::addr::VirtRange::new(AT, page(BLOCK));
    w.sim.forgive(p.root(), range, Attrs::ACCESSED);
    w.check(&[&p], &[]);
    for n in 0..BLOCK {
        w.store(1, &p, page(n), 2).unwrap();
        assert!((0..BLOCK).all(|i| p.page_info(page(i)).dirty));
        w.check(&[&p], &[]);
    }
}

/// A block may lie in two areas, when their entries happen to say the same. What one may do is not
/// for the other.
#[test]
fn rights_stay_in_their_area() {
    both(4, |w| {
        let p = area(w, BLOCK);
        let half = BLOCK / 2 * PAGE_SIZE;
        p.protect(page(8), half, Prot::READ).unwrap();
        // Now nobody may write.
        let child = w.adopt(p.fork().unwrap());
        p.protect(page(8), half, Prot::READ | Prot::EXEC).unwrap();
        p.protect(page(8), half, Prot::READ).unwrap();
        w.check(&[&p, &child], &[]);
        drop(child);
        w.store(0, &p, page(2), 7).unwrap();
        w.check(&[&p], &[]);
        assert!(w.store(0, &p, page(9), 7).is_err());
        assert!(!p.page_info(page(9)).writable);
    });
}

#[test]
fn no_contiguous_bit_no_folding() {
    let w = world::<arch_x86_64::pte::Format>(4, true);
    let p = w.process();
    map(&p, AT, BLOCK, RW);
    w.store(0, &p, AT, 1).unwrap();
    p.protect(page(3), PAGE_SIZE, Prot::READ).unwrap();
    p.protect(page(3), PAGE_SIZE, RW).unwrap();
    assert_eq!(
        (w.mm.event("contpte_folded"), w.mm.event("contpte_unfolded")),
        (Some(0), Some(0))
    );
    assert_eq!(
        p.smaps(AT).expect("it is mapped").folios[Order(4).0 as usize].contpte,
        0
    );
    w.check(&[&p], &[]);
}
