//! What debug builds notice about frames that are free: the pattern they are filled with is checked
//! when they are handed out.

mod common;
use arch_sim::{Options, World};
use mm::addr::{Order, Pfn};
use mm::arch::{Machine, PhysMem};

type Format = arch_x86_64::pte::Format;

fn freed(order: Order) -> (World<Format>, Pfn) {
    let world = World::new(Options::default());
    let pfn = world.mm.alloc_kernel(order).expect("an empty machine");
    world.mm.free_kernel(pfn, order);
    (world, pfn)
}

#[test]
fn what_is_freed_is_handed_out_again() {
    let (world, pfn) = freed(Order(3));
    assert_eq!(world.mm.alloc_kernel(Order(3)), Some(pfn));
    world.mm.free_kernel(pfn, Order(3));
    world.check(&[], &[]);
}

#[test]
#[cfg_attr(
    debug_assertions,
    should_panic(expected = "was written to after it was freed")
)]
fn a_write_after_the_free_is_noticed() {
    let (world, pfn) = freed(Order(3));
    // The sixth page of the block, through a mapping that somebody kept.
    world
        .mm
        .machine()
        .mem()
        .write((pfn + 5).start() + 123, &[1]);
    world.mm.alloc_kernel(Order(3));
}

#[test]
#[should_panic(expected = "Cached, order 0, 0 references")]
fn a_second_free_is_noticed() {
    let (world, pfn) = freed(Order(0));
    world.mm.free_kernel(pfn, Order(0));
}

#[test]
#[should_panic(
    expected = "freed as Kernel of order 2, has another order: Kernel, order 3, 1 references"
)]
fn another_order_is_noticed() {
    let world = World::<Format>::new(Options::default());
    let pfn = world.mm.alloc_kernel(Order(3)).expect("an empty machine");
    world.mm.free_kernel(pfn, Order(2));
}

/// The hook for reclaim: nothing is left in the lists, and large blocks are whole again.
#[test]
fn draining_gives_everything_back() {
    let world = World::<Format>::new(Options::default());
    let taken: Vec<Pfn> = (0..100)
        .filter_map(|_| world.mm.alloc_kernel(Order(0)))
        .collect();
    taken
        .iter()
        .for_each(|pfn| world.mm.free_kernel(*pfn, Order(0)));
    let before = world.mm.counts();
    let lists = || {
        world
            .mm
            .allocator()
            .lists()
            .map(|(_, l)| l.len())
            .sum::<usize>()
    };
    let zones = world.mm.allocator().zones().iter();
    let in_zones: u64 = zones.map(|z| z.look(|b| b.free_frames())).sum();
    assert!(lists() > 0);
    assert_eq!(world.mm.drain_pcp(), before.free - in_zones);
    assert_eq!((lists(), world.mm.counts()), (0, before));
    world.check(&[], &[]);
}
