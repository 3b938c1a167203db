//! What the tests share: addresses, requests, and a run on both formats.
#![allow(dead_code, reason = "each test uses its part")]

pub mod race;
pub mod seeds;

use arch_sim::{Options, Sim, World};
use mm::addr::{Order, PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::object::Object;
use mm::thp::ORDERS;
use mm::thp::controls::SizeEnabled;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{AddressSpace, FrameCounts, MapRequest, Place, RemapFlags};
use std::sync::Arc;

/// PROT_READ | PROT_WRITE.
pub const RW: Prot = Prot::READ.union(Prot::WRITE);
/// MREMAP_MAYMOVE.
pub const MAYMOVE: RemapFlags = RemapFlags::MAYMOVE;
/// MREMAP_MAYMOVE | MREMAP_FIXED.
pub const FIXED: RemapFlags = MAYMOVE.union(RemapFlags::FIXED);
/// Where tests map.
pub const AT: VirtAddr = VirtAddr(0x4000_0000);
pub type Space<F> = AddressSpace<Sim<F>>;

/// The address of page `n` after [`AT`].
pub fn page(n: u64) -> VirtAddr {
    AT + n * PAGE_SIZE
}

/// A request for private memory.
pub fn anon<F: PteFormat>(place: Place, pages: u64, prot: Prot) -> MapRequest<Sim<F>> {
    let (flags, backing) = (VmaFlags::empty(), Backing::Anon);
    MapRequest {
        place,
        len: pages * PAGE_SIZE,
        prot,
        flags,
        backing,
        populate: false,
    }
}

/// A request for an object's pages.
pub fn of_object<F: PteFormat>(
    object: &Arc<Object<Sim<F>>>,
    offset: u64,
    at: VirtAddr,
    pages: u64,
    prot: Prot,
    flags: VmaFlags,
) -> MapRequest<Sim<F>> {
    let backing = Backing::Object {
        object: object.clone().into(),
        offset,
        file: None,
    };
    MapRequest {
        backing,
        flags,
        ..anon(Place::Fixed(at), pages, prot)
    }
}

/// Maps private memory at a fixed address.
pub fn map<F: PteFormat>(space: &Space<F>, at: VirtAddr, pages: u64, prot: Prot) {
    assert_eq!(space.map(anon(Place::Fixed(at), pages, prot)), Ok(at));
}

/// Enables these orders for everybody and no others.
pub fn sizes<F: PteFormat>(w: &World<F>, orders: &[u8]) {
    for order in ORDERS {
        let to = if orders.contains(&order) {
            SizeEnabled::Always
        } else {
            SizeEnabled::Never
        };
        w.mm.thp().controls.set_size(Order(order), to);
    }
}

/// Runs each test on both formats.
#[allow(unused_macros, reason = "as above")]
macro_rules! on_both {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { crate::common::run::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { crate::common::run::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use on_both;

/// Runs each test on both formats, by the function `run` of the program.
#[allow(unused_macros, reason = "as above")]
macro_rules! on_both_by_run {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { crate::run::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { crate::run::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use on_both_by_run;

/// Runs each test on both formats; it makes its own machines.
#[allow(unused_macros, reason = "as above")]
macro_rules! on_both_formats {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::$name::<arch_x86_64::pte::Format>() })* }
        mod aarch64 { $(#[test] fn $name() { super::$name::<arch_aarch64::pte::Format>() })* }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use on_both_formats;

/// Runs the test on machines with room for some folios of 2 MiB; `counts` of the frames afterwards
/// are those of before.
pub fn run_on<F: PteFormat>(
    frames: usize,
    test: impl Fn(&World<F>),
    counts: impl Fn(&World<F>) -> FrameCounts,
) {
    for (asids, hardware_ad) in [(1, true), (8, false)] {
        let world = World::<F>::new(Options {
            frames,
            asids,
            hardware_ad,
            ..Options::default()
        });
        let before = world.mm.counts();
        test(&world);
        world.check(&[], &[]);
        assert_eq!(before, counts(&world));
    }
}

/// Counts of frames, those whose memory has failed as if they were free.
pub fn with_hwpoison<F: PteFormat>(world: &World<F>) -> FrameCounts {
    let mut counts = world.mm.counts();
    assert_eq!(counts.hwpoison, world.mm.hwpoisoned());
    counts.free += counts.hwpoison;
    counts.hwpoison = 0;
    counts
}

/// Runs the test with and without tags and hardware bits, and compares frames before and after.
pub fn run<F: PteFormat>(test: fn(&World<F>)) {
    for (asids, hardware_ad) in [(1, true), (8, true), (8, false)] {
        let world = World::<F>::new(Options {
            asids,
            hardware_ad,
            ..Options::default()
        });
        let before = world.mm.counts();
        test(&world);
        assert_eq!(before, world.mm.counts());
        world.check(&[], &[]);
    }
}
