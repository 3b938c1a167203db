//! Every allocation fails in turn, with large folios about: a verb does all that it should, or says
//! that there is no memory and has lost nothing; afterwards it works.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::thp::controls::SizeEnabled;
use mm::thp::{CollapseLimits, PMD_ORDER};
use mm::vma::Prot;
use mm::{Advice, Collapse, Error};

const HUGE: u64 = 512;
/// Pages of the area: a PMD leaf, or PTEs of one table, and some more.
const PAGES: u64 = HUGE + 64;
/// More allocations than any verb here makes.
const MOST: u64 = 12;

/// What there was no memory for.
struct NoMemory;

macro_rules! on_both_sizes {
    ($($name:ident)*) => {
        mod x86_64 { $(#[test] fn $name() { super::each::<arch_x86_64::pte::Format>(super::$name) })* }
        mod aarch64 { $(#[test] fn $name() { super::each::<arch_aarch64::pte::Format>(super::$name) })* }
    };
}
on_both_sizes! {
    fault
    zeros
    zeros_become_a_page
    unmap_a_part
    drop_a_part
    protect_a_part
    move_where_it_does_not_fit
    move_where_it_fits
    fork
    copy_on_write
    collapse
    khugepaged
    split_deferred
    split_by_hand
}

type Verb<F> = fn(&World<F>, &Process<F>) -> Result<(), NoMemory>;

/// Allocation 0, 1, 2 .. and all after it fail, on a machine with folios of 2 MiB, 64 KiB, and all
/// sizes.
fn each<F: PteFormat>(verb: Verb<F>) {
    let cases = [1 << 9, 1 << 4, 0x3fc].into_iter();
    let cases = cases.flat_map(|orders| (0..MOST).map(move |k| (orders, k)));
    let failed = cases.filter(|(orders, k)| one(verb, *orders, *k).is_err());
    assert!(failed.count() > 0, "nothing ever failed");
}

fn one<F: PteFormat>(verb: Verb<F>, orders: u32, k: u64) -> Result<(), NoMemory> {
    let w = World::<F>::new(Options {
        frames: 4096,
        prefetch: 16,
        ..Options::default()
    });
    w.mm.thp().controls.change(|settings| {
        for (order, size) in settings.sizes.iter_mut().enumerate() {
            let on = orders & 1 << order != 0;
            *size = if on {
                SizeEnabled::Always
            } else {
                SizeEnabled::Never
            };
        }
    });
    let before = w.mm.counts();
    let p = w.process();
    map(&p, AT, PAGES, RW);
    (0..PAGES).for_each(|n| w.store((n & 1) as usize, &p, page(n), byte(n)).unwrap());
    w.mm.allocator().fail_after(Some(k));
    let result = verb(&w, &p);
    w.mm.allocator().fail_after(None);
    w.check(&[&p], &[]);
    let lost = || (0..PAGES).filter(|n| w.load(0, &p, page(*n)) != Ok(byte(*n)));
    if result.is_err() {
        assert_eq!(
            lost().collect::<Vec<_>>(),
            [],
            "no memory, and pages are gone"
        );
        assert!(verb(&w, &p).is_ok(), "there is memory now");
        w.check(&[&p], &[]);
    }
    drop(p);
    assert_eq!(before, w.mm.counts());
    w.check(&[], &[]);
    result
}

fn byte(n: u64) -> u8 {
    (n % 251) as u8 + 1
}

fn no_memory<T>(result: Result<T, Error>) -> Result<T, NoMemory> {
    match result {
        Ok(value) => Ok(value),
        Err(Error::NoMem) => Err(NoMemory),
        Err(other) => panic!("{other:?}"),
    }
}

fn fault_at<F: PteFormat>(p: &Process<F>, n: u64, access: Access) -> Result<(), NoMemory> {
    match p.fault(page(n), access) {
        Resolution::Done => Ok(()),
        Resolution::NoMem => Err(NoMemory),
        other => panic!("{other:?}"),
    }
}

/// A hole of 2 MiB further up, new each time.
fn hole<F: PteFormat>(p: &Process<F>) -> u64 {
    let n = (0..)
        .map(|i| 16 * HUGE + i * 4 * HUGE)
        .find(|n| p.vma_at(page(*n)).is_none());
    let n = n.expect("the address space is large");
    map(p, page(n), HUGE, RW);
    n
}

fn fault<F: PteFormat>(_: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    fault_at(p, hole(p) + 20, Access::Write)
}

fn zeros<F: PteFormat>(_: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    fault_at(p, hole(p) + 20, Access::Read)
}

fn zeros_become_a_page<F: PteFormat>(_: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    let n = hole(p);
    fault_at(p, n + 20, Access::Read)?;
    fault_at(p, n + 21, Access::Write)
}

fn unmap_a_part<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    no_memory(p.unmap(page(21), PAGE_SIZE))?;
    assert!(w.load(0, p, page(21)).is_err());
    Ok(())
}

fn drop_a_part<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    no_memory(p.advise(page(21), 40 * PAGE_SIZE, Advice::DontNeed))?;
    w.mm.allocator().fail_after(None);
    assert_eq!(
        (w.load(0, p, page(21)), w.load(0, p, page(20))),
        (Ok(0), Ok(byte(20)))
    );
    Ok(())
}

fn protect_a_part<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    no_memory(p.protect(page(21), 40 * PAGE_SIZE, Prot::READ))?;
    assert_eq!(w.store(0, p, page(30), 1), Err(Resolution::Denied));
    Ok(())
}

fn moves<F: PteFormat>(w: &World<F>, p: &Process<F>, to: u64) -> Result<(), NoMemory> {
    let len = HUGE * PAGE_SIZE;
    no_memory(p.remap(AT, len, len, FIXED, page(to), &mut Default::default()))?;
    assert_eq!(w.load(0, p, page(to + 300)), Ok(byte(300)));
    Ok(())
}

fn move_where_it_does_not_fit<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    moves(w, p, (1 << 27) + 3)
}

fn move_where_it_fits<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    moves(w, p, (1 << 27) + 4 * HUGE)
}

fn fork<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    let child = w.adopt(p.fork().map_err(|_| NoMemory)?);
    w.check(&[p, &child], &[]);
    assert_eq!(w.load(1, &child, page(300)), Ok(byte(300)));
    Ok(())
}

fn copy_on_write<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    let child = w.adopt(p.fork().map_err(|_| NoMemory)?);
    let result = fault_at(&child, 30, Access::Write);
    w.check(&[p, &child], &[]);
    assert_eq!(w.load(0, &child, page(30)), Ok(byte(30)));
    result
}

fn collapse<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    no_memory(p.advise(AT, HUGE * PAGE_SIZE, Advice::Collapse))?;
    assert_eq!(w.load(0, p, page(300)), Ok(byte(300)));
    let used = p.smaps(AT).expect("an area").folios[9];
    assert_eq!((used.whole, used.part), (1, 0));
    Ok(())
}

fn khugepaged<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    w.mm.thp().controls.set_size(PMD_ORDER, SizeEnabled::Always);
    match p.collapse(AT, CollapseLimits::ANY) {
        Collapse::NoMem => Err(NoMemory),
        _ => Ok(()),
    }
}

fn split_deferred<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    unmap_a_part(w, p)?;
    // Takes no memory: it is there to get some.
    w.mm.allocator().fail_after(Some(0));
    let freed = p.split_deferred();
    w.mm.allocator().fail_after(None);
    assert!(freed >= 1, "{freed} pages");
    assert_eq!(w.load(0, p, page(22)), Ok(byte(22)));
    Ok(())
}

fn split_by_hand<F: PteFormat>(w: &World<F>, p: &Process<F>) -> Result<(), NoMemory> {
    let (split, failed) = p.split_range(VirtRange::new(AT, page(PAGES)), Order(0));
    w.check(&[p], &[]);
    assert_eq!(w.load(0, p, page(22)), Ok(byte(22)));
    if failed > 0 {
        return Err(NoMemory);
    }
    assert!(split > 0);
    Ok(())
}
