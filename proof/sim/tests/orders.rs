//! The orders that a process permits itself (`/proc/PID/thp_orders`): whatever it does, no folio of
//! another order is made for it.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::Advice;
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::PteFormat;
use mm::thp::{CollapseLimits, Disable, ORDERS, Orders, PMD_ORDER, Permit, Stat};
use proptest::prelude::*;

/// Pages of the area that is written to: two PMD entries.
const PAGES: u64 = 1024;

/// What a process does, or another does to it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sets the orders.
    Set(Orders),
    /// prctl(PR_SET_THP_DISABLE).
    Attribute(Disable),
    /// Gives the process MADV_HUGEPAGE for its area.
    Huge,
    Write(u64),
    Read(u64),
    DontNeed(u64, u64),
    /// A child has it all for a while; one of the two writes a page.
    Fork(u64, bool),
    /// The child takes the place of the parent.
    Become,
    /// MADV_COLLAPSE of the block of this page.
    Collapse(u64),
    /// khugepaged's step.
    Khugepaged(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    let page = 0..PAGES;
    let orders = (0..1u32 << ORDERS.count()).prop_map(|set| Orders(set << ORDERS.start()));
    let disable = prop::sample::select(vec![
        Disable::No,
        Disable::No,
        Disable::ExceptAdvised,
        Disable::Yes,
    ]);
    let step = prop_oneof![
        2 => orders.prop_map(Set),
        1 => disable.prop_map(Attribute),
        1 => Just(Huge),
        8 => page.clone().prop_map(Write),
        2 => page.clone().prop_map(Read),
        3 => (page.clone(), 1..PAGES).prop_map(|(at, pages)| DontNeed(at, pages)),
        2 => (page.clone(), any::<bool>()).prop_map(|(at, child)| Fork(at, child)),
        1 => Just(Become),
        1 => page.clone().prop_map(Collapse),
        1 => page.prop_map(Khugepaged),
    ];
    prop::collection::vec(step, 1..60)
}

/// Folios made so far, by order: at faults, by copying (which has no counter of Linux's for a size)
/// and by collapsing.
fn made<F: PteFormat>(w: &World<F>) -> Vec<u64> {
    let stats = &w.mm.thp().stats;
    let count = |order, stat| stats.get(Order(order), stat);
    ORDERS
        .map(|order| count(order, Stat::AnonFaultAlloc) + count(order, Stat::CollapseAlloc))
        .collect()
}

/// Folios of each order that there are.
fn there<F: PteFormat>(w: &World<F>) -> Vec<u64> {
    let stats = &w.mm.thp().stats;
    ORDERS
        .map(|order| stats.get(Order(order), Stat::NrAnon))
        .collect()
}

fn take<F: PteFormat>(w: &World<F>, s: &mut Process<F>, step: Step) {
    let whole = |at: u64| page(at / 512 * 512);
    match step {
        Step::Set(orders) => s.change_thp_permit(|p| Permit::new(p.disable(), orders)),
        Step::Attribute(disable) => s.change_thp_permit(|p| Permit::new(disable, p.orders())),
        Step::Huge => s.advise(AT, PAGES * PAGE_SIZE, Advice::HugePage).unwrap(),
        Step::Write(at) => w.store(0, s, page(at), 1).unwrap(),
        Step::Read(at) => drop(w.load(0, s, page(at)).unwrap()),
        Step::DontNeed(at, pages) => s
            .advise(
                page(at),
                pages.min(PAGES - at) * PAGE_SIZE,
                Advice::DontNeed,
            )
            .unwrap(),
        Step::Fork(at, by_child) => {
            let child = w.adopt(s.fork().unwrap());
            assert_eq!(child.thp_permit(), s.thp_permit());
            let writer: &Space<F> = if by_child { &child } else { s };
            w.store(1, writer, page(at), 2).unwrap();
            w.check(&[s, &child], &[]);
        }
        Step::Become => *s = w.adopt(s.fork().unwrap()),
        // It may be that nothing is mapped there.
        Step::Collapse(at) => drop(s.advise(whole(at), 512 * PAGE_SIZE, Advice::Collapse)),
        Step::Khugepaged(at) => drop(s.collapse(whole(at), CollapseLimits::ANY)),
    }
}

fn play<F: PteFormat>(steps: &[Step]) {
    let world = World::<F>::new(Options {
        frames: 8192,
        prefetch: 8,
        ..Options::default()
    });
    sizes(&world, &ORDERS.collect::<Vec<_>>());
    let mut space = world.process();
    map(&space, AT, PAGES, RW);
    for (n, &step) in steps.iter().enumerate() {
        let (made_before, there_before) = (made(&world), there(&world));
        take(&world, &mut space, step);
        let permit = space.thp_permit();
        for (i, order) in ORDERS.map(Order).enumerate() {
            if !permit.orders_of(true).contains(order) {
                let more = made(&world)[i] - made_before[i];
                assert_eq!(more, 0, "step {n}, {step:?}: {permit:?} and {order:?}");
                let more = there(&world)[i].saturating_sub(there_before[i]);
                assert_eq!(more, 0, "step {n}, {step:?}: {permit:?} and {order:?}");
            }
        }
        world.check(&[&space], &[]);
    }
}

#[test]
fn no_folio_of_a_forbidden_order_is_made_x86_64() {
    let run = |seed| {
        seeds::run(60, seed, &steps(), |steps| {
            play::<arch_x86_64::pte::Format>(&steps)
        })
    };
    seeds::each(1, run);
}

#[test]
fn no_folio_of_a_forbidden_order_is_made_aarch64() {
    let run = |seed| {
        seeds::run(60, seed, &steps(), |steps| {
            play::<arch_aarch64::pte::Format>(&steps)
        })
    };
    seeds::each(2, run);
}

/// The largest order that is both enabled and permitted, and the attribute is not lost when the
/// orders change.
fn orders_of_a_process<F: PteFormat>() {
    let w = World::<F>::new(Options {
        frames: 8192,
        ..Options::default()
    });
    sizes(&w, &[2, 4, 9]);
    let s = w.process();
    map(&s, AT, PAGES, RW);
    let folio = |s: &Space<F>, at: u64, order: u8| {
        w.store(0, s, page(at), 1).unwrap();
        let used = s.smaps(AT).unwrap().folios[usize::from(order)].whole;
        s.advise(AT, PAGES * PAGE_SIZE, Advice::DontNeed).unwrap();
        used == 1
    };
    assert!(folio(&s, 0, 9));
    for (set, order) in [
        (0, 0),
        (1 << 2, 2),
        (1 << 2 | 1 << 3, 2),
        (0x3fc, 9),
        (0x1fc, 4),
    ] {
        s.change_thp_permit(|p| Permit::new(p.disable(), Orders(set)));
        assert!(folio(&s, 0, order), "{set:#x} {order}");
        let child = w.adopt(s.fork().unwrap());
        assert!(folio(&child, 512, order), "a child, {set:#x} {order}");
    }
    s.change_thp_permit(|p| Permit::new(Disable::Yes, p.orders()));
    assert!(folio(&s, 0, 0));
    s.change_thp_permit(|p| Permit::new(Disable::No, p.orders()));
    assert!(folio(&s, 0, 4));
    // Neither the call nor khugepaged makes what the process forbids.
    w.store(0, &s, page(0), 1).unwrap();
    assert!(s.advise(AT, 512 * PAGE_SIZE, Advice::Collapse).is_err());
    let limits = CollapseLimits::ANY;
    assert_eq!(s.collapse(AT, limits), mm::Collapse::NotEligible);
    s.change_thp_permit(|p| Permit::new(p.disable(), Orders(1 << PMD_ORDER.0)));
    assert_eq!(s.collapse(AT, limits), mm::Collapse::Done);
    // What is there stays.
    s.change_thp_permit(|p| Permit::new(p.disable(), Orders::NONE));
    assert_eq!(s.smaps(AT).unwrap().folios[9].whole, 1);
    w.check(&[&s], &[]);
}

#[test]
fn orders_of_a_process_x86_64() {
    orders_of_a_process::<arch_x86_64::pte::Format>();
}

#[test]
fn orders_of_a_process_aarch64() {
    orders_of_a_process::<arch_aarch64::pte::Format>();
}
