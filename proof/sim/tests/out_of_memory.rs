//! Every allocation fails once: the verb says so, and every count is as it was.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::OutOfMemory;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::object::Object;
use mm::vma::{Prot, VmaFlags};
use mm::{Error, RemapFlags};

on_both! {
    a_new_space
    fork
    first_write
    first_read
    copy_on_write
    a_file_page
    a_private_copy_of_a_file_page
    object_write
    object_reserve
    remap
    remap_of_several
    remap_in_steps
    kernel_memory
    the_reserve_is_the_kernels
}

/// Lets allocation 0, 1, 2 .. of `verb` fail until it gets by without; returns how many failed.
fn each_fails<F: PteFormat, T>(
    w: &World<F>,
    spaces: &[&Space<F>],
    verb: impl Fn() -> Result<T, OutOfMemory>,
) -> (u64, T) {
    let state = || {
        (
            w.mm.counts(),
            spaces
                .iter()
                .map(|s| format!("{:?}", s.usage()))
                .collect::<Vec<_>>(),
        )
    };
    for k in 0..100 {
        let before = state();
        w.mm.allocator().fail_after(Some(k));
        let result = verb();
        w.mm.allocator().fail_after(None);
        match result {
            Ok(value) => return (k, value),
            Err(OutOfMemory) => {
                assert_eq!(before, state(), "after allocation {k} failed");
                w.check(spaces, &[]);
            }
        }
    }
    panic!("the verb never succeeds");
}

fn fault<F: PteFormat>(p: &Process<F>, n: u64, access: Access) -> Result<(), OutOfMemory> {
    match p.fault(page(n), access) {
        Resolution::Done => Ok(()),
        Resolution::NoMem => Err(OutOfMemory),
        other => panic!("{other:?}"),
    }
}

fn a_new_space<F: PteFormat>(w: &World<F>) {
    let (failed, _space) = each_fails(w, &[], || {
        mm::Handle::new(&w.mm).map_err(|error| {
            assert_eq!(error, Error::NoMem);
            OutOfMemory
        })
    });
    assert_eq!(failed, 1);
}

fn fork<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    map(&p, AT, 3, RW);
    map(&p, page(5000), 3, RW);
    w.store(0, &p, page(1), 1).unwrap();
    w.store(0, &p, page(5001), 2).unwrap();
    let (failed, child) = each_fails(w, &[&p], || {
        p.fork().map_err(|error| {
            assert_eq!(error, Error::NoMem);
            OutOfMemory
        })
    });
    // Root, PUD, PMD, two PTE tables.
    assert_eq!(failed, 5);
    let child = w.adopt(child);
    assert_eq!(
        (w.load(0, &child, page(1)), w.load(1, &child, page(5001))),
        (Ok(1), Ok(2))
    );
}

fn first_write<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    map(&p, AT, 3, RW);
    assert_eq!(each_fails(w, &[&p], || fault(&p, 1, Access::Write)).0, 4);
    assert_eq!(each_fails(w, &[&p], || fault(&p, 2, Access::Write)).0, 1);
}

fn first_read<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    map(&p, AT, 3, RW);
    assert_eq!(each_fails(w, &[&p], || fault(&p, 1, Access::Read)).0, 3);
}

fn copy_on_write<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    map(&p, AT, 3, RW);
    w.store(0, &p, page(1), 1).unwrap();
    let child = w.adopt(p.fork().unwrap());
    assert_eq!(
        each_fails(w, &[&p, &child], || fault(&child, 1, Access::Write)).0,
        1
    );
}

fn a_file_page<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.write_at(0, &[1; PAGE_SIZE as usize]).unwrap();
    let p = w.process();
    p.map(of_object(&object, 0, AT, 2, Prot::READ, VmaFlags::empty()))
        .unwrap();
    assert_eq!(each_fails(w, &[&p], || fault(&p, 0, Access::Read)).0, 3);
}

fn a_private_copy_of_a_file_page<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    object.write_at(0, &[1; PAGE_SIZE as usize]).unwrap();
    let p = w.process();
    p.map(of_object(&object, 0, AT, 2, RW, VmaFlags::empty()))
        .unwrap();
    assert_eq!(each_fails(w, &[&p], || fault(&p, 0, Access::Write)).0, 4);
}

fn object_write<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    let p = w.process();
    p.map(of_object(&object, 0, AT, 2, RW, VmaFlags::SHARED))
        .unwrap();
    assert_eq!(each_fails(w, &[&p], || object.write_at(100, &[1; 9])).0, 1);
    assert_eq!(object.len(), 109);
}

fn object_reserve<F: PteFormat>(w: &World<F>) {
    let object = Object::new(&w.mm);
    let p = w.process();
    p.map(of_object(&object, 0, AT, 2, RW, VmaFlags::SHARED))
        .unwrap();
    object.write_at(PAGE_SIZE, &[1; 9]).unwrap();
    assert_eq!(
        each_fails(w, &[&p], || object.reserve(0, 5 * PAGE_SIZE)).0,
        4
    );
    assert_eq!(object.pages(), 5);
}

fn remap<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    map(&p, AT, 4, RW);
    (0..4).for_each(|n| w.store(0, &p, page(n), 1).unwrap());
    // The target crosses a table's end 512 GiB away: a PUD, a PMD and two PTE tables are needed.
    let to = page((1 << 27) + 510);
    let verb = || match p.remap(
        AT,
        4 * PAGE_SIZE,
        4 * PAGE_SIZE,
        FIXED,
        to,
        &mut Default::default(),
    ) {
        Ok(at) => Ok(at),
        Err(Error::NoMem) => Err(OutOfMemory),
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(each_fails(w, &[&p], verb), (4, to));
    assert_eq!(w.load(1, &p, to + 3 * PAGE_SIZE), Ok(1));
}

/// Several mappings are moved one by one. When memory runs out between them, the next attempt goes
/// on where that was.
fn remap_of_several<F: PteFormat>(w: &World<F>) {
    // Where each needs tables of its own.
    let to = page(512 * 512 - 12);
    let mut halves = 0;
    for k in 0..20 {
        let s = w.process();
        for (at, prot) in [(0, RW), (8, Prot::READ), (20, RW)] {
            map(&s, page(at), 4, prot);
        }
        for n in [1, 21] {
            w.store(0, &s, page(n), n as u8).unwrap();
        }
        w.load(0, &s, page(9)).unwrap();
        let mut moved = mm::Moved::default();
        let mut attempt = || s.remap(AT, 24 * PAGE_SIZE, 24 * PAGE_SIZE, FIXED, to, &mut moved);
        w.mm.allocator().fail_after(Some(k));
        let first = attempt();
        w.mm.allocator().fail_after(None);
        w.check(&[&s], &[]);
        if first.is_err() {
            assert_eq!(first, Err(Error::NoMem));
            halves += u64::from(s.vma_at(AT).is_none());
            assert_eq!(attempt(), Ok(to));
            w.check(&[&s], &[]);
        }
        assert_eq!(s.usage().mapped.total, 12);
        assert_eq!(s.vma_from(AT).unwrap().range.start, to);
        for (n, byte) in [(1, 1), (9, 0), (21, 21)] {
            assert_eq!(w.load(0, &s, to + n * PAGE_SIZE), Ok(byte), "{k}");
        }
        if first.is_ok() {
            break;
        }
    }
    assert!(halves > 0, "none stopped half-way");
}

/// One mapping that moves page by page, in steps; and grows with that.
fn remap_in_steps<F: PteFormat>(_: &World<F>) {
    let w = World::<F>::new(Options {
        step: 2,
        ..Options::default()
    });
    let (len, more) = (24 * PAGE_SIZE, 30 * PAGE_SIZE);
    // Where the parts need tables of their own.
    let to = page(512 * 512 - 17);
    for (flags, target) in [(FIXED, to), (RemapFlags::MAYMOVE, VirtAddr(0))] {
        let mut halves = 0;
        for k in 0..20 {
            let s = w.process();
            map(&s, AT, 24, RW);
            map(&s, AT + len, 1, Prot::READ);
            (0..24).for_each(|n| w.store(0, &s, page(n), n as u8 + 1).unwrap());
            let mut moved = mm::Moved::default();
            let mut attempt = || s.remap(AT, len, more, flags, target, &mut moved);
            w.mm.allocator().fail_after(Some(k));
            let first = attempt();
            w.mm.allocator().fail_after(None);
            w.check(&[&s], &[]);
            let at = match first {
                Ok(at) => at,
                Err(why) => {
                    assert_eq!(why, Error::NoMem);
                    halves += u64::from(s.vma_at(AT).is_none());
                    attempt().unwrap()
                }
            };
            w.check(&[&s], &[]);
            assert_eq!(s.usage().mapped.total, 31);
            assert_eq!(s.vma_at(at).unwrap().range, VirtRange::new(at, at + more));
            (0..24).for_each(|n| {
                assert_eq!(w.load(0, &s, at + n * PAGE_SIZE), Ok(n as u8 + 1), "{k}");
            });
            if first.is_ok() {
                break;
            }
        }
        assert!(halves > 0 || flags != FIXED, "none stopped half-way");
    }
}

fn kernel_memory<F: PteFormat>(w: &World<F>) {
    let order = mm::addr::Order(3);
    let (failed, block) = each_fails(w, &[], || w.mm.alloc_kernel(order).ok_or(OutOfMemory));
    assert_eq!((failed, w.mm.counts().kernel), (1, 9));
    w.mm.free_kernel(block, order);
}

/// When users have all they can get, the kernel still gets memory, and everything can be given
/// back.
fn the_reserve_is_the_kernels<F: PteFormat>(w: &World<F>) {
    let p = w.process();
    let all = w.mm.counts().total;
    map(&p, AT, all / 2, RW);
    map(&p, page(all / 2), all / 2, RW);
    let refused = (0..all).find_map(|n| fault(&p, n, Access::Write).err());
    assert_eq!(refused, Some(OutOfMemory));
    assert!(p.fork().is_err());
    let free = w.mm.counts().free;
    assert!(free > 0, "users took everything");
    let frames: Vec<_> = (0..free)
        .map(|_| w.mm.alloc_kernel(mm::addr::Order(0)).expect("the reserve"))
        .collect();
    assert_eq!(w.mm.alloc_kernel(mm::addr::Order(0)), None);
    w.check(&[&p], &[]);
    p.unmap(AT, all * PAGE_SIZE).unwrap();
    frames
        .into_iter()
        .for_each(|pfn| w.mm.free_kernel(pfn, mm::addr::Order(0)));
}
