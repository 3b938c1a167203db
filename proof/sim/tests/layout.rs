//! What a user sees of the layout: stack, heap, mremap, /proc figures, errors.

mod common;

use arch_sim::World;
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::object::Object;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{Advice, Error, Limits, MapRequest, Place, RemapFlags};

on_both! {
    a_stack_grows_to_its_limit
    above_the_top_the_lowest_gap_is_taken
    the_heap_grows_and_shrinks
    remap_moves_the_pages
    vmas_in_batches
    vmas_split_and_merge
    errors_are_the_manuals
    figures_are_right
    locks_are_counted
    what_is_not_locked_is_not_populated
    a_second_mapping_leaves_the_first
    too_many_mappings
}

fn a_stack_grows_to_its_limit<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    s.set_limits(Limits {
        stack: 16 * PAGE_SIZE,
        ..Limits::NONE
    });
    s.map(MapRequest {
        flags: VmaFlags::GROWSDOWN | VmaFlags::STACK,
        ..anon(Place::Fixed(page(600)), 2, RW)
    })
    .unwrap();
    w.store(0, &s, page(590), 1).unwrap();
    assert_eq!(s.usage().mapped.stack, 12);
    w.store(0, &s, page(586), 1).unwrap();
    assert_eq!(w.store(0, &s, page(585), 1), Err(Resolution::NotMapped));
    // A neighbour below stops it at the guard gap, and a new mapping keeps away from it.
    s.set_limits(Limits::NONE);
    map(&s, page(300), 10, RW);
    w.store(0, &s, page(566), 1).unwrap();
    assert_eq!(w.store(0, &s, page(565), 1), Err(Resolution::NotMapped));
    s.set_mmap_top(page(566));
    assert_eq!(s.map(anon(Place::Hint(VirtAddr(0)), 1, RW)), Ok(page(299)));
    w.check(&[&s], &[]);
}

fn above_the_top_the_lowest_gap_is_taken<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    s.set_mmap_top(page(100));
    let lowest = VirtAddr(64 << 10);
    s.map(MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(
            Place::Fixed(lowest),
            (page(100) - lowest) / PAGE_SIZE,
            Prot::empty(),
        )
    })
    .unwrap();
    // One page is free before each of the first two, and two are before the third.
    for n in [101, 103, 106] {
        map(&s, page(n), 1, Prot::READ);
    }
    for (pages, at) in [(1, 100), (2, 104), (3, 107), (1, 102), (1, 110)] {
        let found = s.map(anon(Place::Hint(VirtAddr(0)), pages, RW));
        assert_eq!(found, Ok(page(at)), "{pages}");
    }
    w.check(&[&s], &[]);
}

fn the_heap_grows_and_shrinks<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    s.set_brk(page(0) + 100);
    assert_eq!(s.brk(VirtAddr(0)), page(0) + 100);
    assert_eq!(s.brk(page(4) + 1), page(4) + 1);
    w.store(0, &s, page(4), 1).unwrap();
    assert_eq!(w.store(0, &s, page(5), 1), Err(Resolution::NotMapped));
    assert_eq!(w.store(0, &s, page(0), 1), Err(Resolution::NotMapped));
    assert_eq!(s.brk(page(2)), page(2));
    assert_eq!(w.load(0, &s, page(4)), Err(Resolution::NotMapped));
    map(&s, page(8), 1, RW);
    assert_eq!(
        s.brk(page(8)),
        page(2),
        "no page left between heap and mapping"
    );
    assert_eq!(s.brk(page(7)), page(7));
    s.set_limits(Limits {
        data: 3 * PAGE_SIZE,
        ..Limits::NONE
    });
    assert_eq!(s.brk(page(7) + 1), page(7));
    w.check(&[&s], &[]);
}

fn remap_moves_the_pages<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 4, RW);
    (0..4).for_each(|n| w.store(0, &s, page(n), n as u8 + 1).unwrap());
    let to = page(1000);
    assert_eq!(
        s.remap(
            AT,
            4 * PAGE_SIZE,
            6 * PAGE_SIZE,
            FIXED,
            to,
            &mut Default::default()
        ),
        Ok(to)
    );
    assert_eq!(w.load(0, &s, page(0)), Err(Resolution::NotMapped));
    (0..4).for_each(|n| assert_eq!(w.load(1, &s, page(1000 + n)), Ok(n as u8 + 1)));
    assert_eq!(w.load(0, &s, page(1005)), Ok(0));
    w.check(&[&s], &[]);
    // Shrink, grow in place, be blocked, move.
    let resize = |at, from: u64, to: u64, flags| {
        s.remap(
            at,
            from * PAGE_SIZE,
            to * PAGE_SIZE,
            flags,
            VirtAddr(0),
            &mut Default::default(),
        )
    };
    let stays = RemapFlags::empty();
    assert_eq!(resize(to, 6, 2, stays), Ok(to));
    assert_eq!(resize(to, 2, 3, stays), Ok(to));
    map(&s, page(1003), 1, Prot::READ);
    assert_eq!(resize(to, 3, 4, stays), Err(Error::NoMem));
    let moved = resize(to, 3, 4, MAYMOVE).unwrap();
    assert_eq!(
        (w.load(0, &s, moved), w.load(0, &s, moved + PAGE_SIZE)),
        (Ok(1), Ok(2))
    );
    w.check(&[&s], &[]);
    // DONTUNMAP leaves an empty mapping behind.
    let again = resize(moved, 4, 4, MAYMOVE | RemapFlags::DONTUNMAP).unwrap();
    assert_eq!((w.load(0, &s, moved), w.load(0, &s, again)), (Ok(0), Ok(1)));
    w.check(&[&s], &[]);
    assert_eq!(resize(again, 1, 0, MAYMOVE), Err(Error::Inval));
    assert_eq!(resize(page(5000), 1, 1, MAYMOVE), Err(Error::Fault));
    assert_eq!(
        s.remap(
            again,
            2 * PAGE_SIZE,
            PAGE_SIZE,
            FIXED,
            again + PAGE_SIZE,
            &mut Default::default()
        ),
        Err(Error::Inval)
    );
}

fn maps<F: PteFormat>(s: &Space<F>) -> Vec<(u64, u64, Prot)> {
    let mut out = Vec::new();
    let number = |va: VirtAddr| (va.0 - AT.0) / PAGE_SIZE;
    s.for_each_vma(&mut |v| out.push((number(v.range.start), number(v.range.end), v.prot)));
    out
}

/// Many areas are in many nodes, of which as much is copied as there is room for.
fn vmas_in_batches<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    for n in 0..300 {
        map(&s, page(2 * n), 1, RW);
    }
    for room in [1, 7, 32, 301] {
        let (mut at, mut seen) = (AT, Vec::new());
        loop {
            let mut batch = Vec::with_capacity(room);
            s.vmas_from(at, &mut batch);
            let Some(last) = batch.last() else { break };
            at = last.range.end;
            assert!(batch.len() == room || s.vma_from(at).is_none());
            seen.extend(batch.iter().map(|vma| vma.range.start));
        }
        assert_eq!(seen, Vec::from_iter((0..300).map(|n| page(2 * n))));
    }
    let mut inside = Vec::with_capacity(1);
    s.vmas_from(page(20) + 1, &mut inside);
    assert_eq!(inside[0].range.start, page(20));
}

fn vmas_split_and_merge<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 10, RW);
    map(&s, page(10), 10, RW);
    assert_eq!(maps(&s), [(0, 20, RW)]);
    s.protect(page(5), 5 * PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(maps(&s), [(0, 5, RW), (5, 10, Prot::READ), (10, 20, RW)]);
    s.protect(page(5), 5 * PAGE_SIZE, RW).unwrap();
    assert_eq!(maps(&s), [(0, 20, RW)]);
    s.unmap(page(19), PAGE_SIZE).unwrap();
    s.unmap(page(3), PAGE_SIZE).unwrap();
    assert_eq!(maps(&s), [(0, 3, RW), (4, 19, RW)]);
    map(&s, page(3), 1, RW);
    assert_eq!(maps(&s), [(0, 19, RW)]);
    s.advise(page(0), 2 * PAGE_SIZE, Advice::DontFork).unwrap();
    assert_eq!(maps(&s), [(0, 2, RW), (2, 19, RW)]);
    s.advise(page(0), 2 * PAGE_SIZE, Advice::DoFork).unwrap();
    s.mlock(page(1), 100, true, true).unwrap();
    assert_eq!(maps(&s), [(0, 1, RW), (1, 2, RW), (2, 19, RW)]);
    s.mlock(page(1), 100, false, false).unwrap();
    assert_eq!(maps(&s), [(0, 19, RW)]);
}

fn errors_are_the_manuals<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    assert_eq!(s.map(anon(Place::Hint(AT), 0, RW)), Err(Error::Inval));
    assert_eq!(s.map(anon(Place::Fixed(AT + 1), 1, RW)), Err(Error::Inval));
    assert_eq!(
        s.map(anon(Place::Fixed(F::USER_END), 1, RW)),
        Err(Error::NoMem)
    );
    assert_eq!(s.map(anon(Place::Hint(AT), 1 << 40, RW)), Err(Error::NoMem));
    assert_eq!(
        s.map(anon(Place::Hint(AT), 1025 + w.mm.slots().total(), RW)),
        Err(Error::NoMem),
        "more than all memory"
    );
    let big = MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(Place::Hint(AT), 1 << 20, RW)
    };
    assert_eq!(s.map(big), Ok(AT));
    assert_eq!(
        s.map(anon(Place::FixedNoReplace(AT), 1, RW)),
        Err(Error::Exist)
    );
    assert_eq!(s.unmap(AT + 1, PAGE_SIZE), Err(Error::Inval));
    assert_eq!(s.unmap(AT, 0), Err(Error::Inval));
    assert_eq!(s.unmap(F::USER_END, PAGE_SIZE), Err(Error::Inval));
    assert_eq!(s.unmap(AT, PAGE_SIZE << 20), Ok(()));
    assert_eq!(s.unmap(AT, PAGE_SIZE), Ok(()), "nothing there");
    assert_eq!(s.protect(AT + 1, PAGE_SIZE, RW), Err(Error::Inval));
    assert_eq!(s.protect(AT, PAGE_SIZE, RW), Err(Error::NoMem));
    assert_eq!(s.protect(AT, 0, RW), Ok(()));
    assert_eq!(
        s.advise(AT + 1, PAGE_SIZE, Advice::DontNeed),
        Err(Error::Inval)
    );
    assert_eq!(s.advise(AT, PAGE_SIZE, Advice::Normal), Err(Error::NoMem));
    assert_eq!(s.mlock(AT, PAGE_SIZE, true, false), Err(Error::NoMem));
    assert_eq!(s.mincore(AT, &mut [0]), Err(Error::NoMem));
    assert_eq!(s.mincore(AT + 1, &mut [0]), Err(Error::Inval));
    s.set_limits(Limits {
        address_space: 4 * PAGE_SIZE,
        memlock: 2 * PAGE_SIZE,
        ..Limits::NONE
    });
    assert_eq!(s.map(anon(Place::Hint(AT), 5, RW)), Err(Error::NoMem));
    map(&s, AT, 4, RW);
    map(&s, AT, 4, Prot::READ);
    assert_eq!(s.mlock(AT, 3 * PAGE_SIZE, true, false), Err(Error::NoMem));
    assert_eq!(s.mlock(AT, 2 * PAGE_SIZE, true, false), Ok(()));
    let object = Object::new(&w.mm);
    object.set_len(PAGE_SIZE);
    s.set_limits(Limits::NONE);
    let backing = Backing::Object {
        object: object.into(),
        offset: 0,
        file: None,
    };
    let flags = VmaFlags::SHARED | VmaFlags::NO_MAYWRITE;
    s.map(MapRequest {
        backing,
        flags,
        ..anon(Place::Fixed(AT), 1, Prot::READ)
    })
    .unwrap();
    assert_eq!(s.protect(AT, PAGE_SIZE, RW), Err(Error::Acces));
    assert_eq!(s.advise(AT, PAGE_SIZE, Advice::Remove), Err(Error::Acces));
    assert_eq!(s.advise(AT, PAGE_SIZE, Advice::Free), Err(Error::Inval));
}

fn figures_are_right<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 8, RW);
    (0..3).for_each(|n| w.store(0, &s, page(n), 1).unwrap());
    w.load(0, &s, page(3)).unwrap();
    let usage = s.usage();
    assert_eq!(
        (
            usage.mapped.total,
            usage.rss.anon,
            usage.mapped.data,
            usage.page_tables
        ),
        (8, 3, 8, 4)
    );
    let smaps = s.smaps(AT).unwrap();
    assert_eq!(
        (smaps.rss, smaps.private_dirty, smaps.anonymous),
        (3 * PAGE_SIZE, 3 * PAGE_SIZE, 3 * PAGE_SIZE)
    );
    let child = w.adopt(s.fork().unwrap());
    let smaps = child.smaps(AT).unwrap();
    assert_eq!(
        (smaps.rss, smaps.pss, smaps.shared_dirty),
        (3 * PAGE_SIZE, 3 * PAGE_SIZE / 2, 3 * PAGE_SIZE)
    );
    assert!(s.smaps(page(1)).is_none());
    let mut seen = [9; 8];
    s.mincore(AT, &mut seen).unwrap();
    assert_eq!(seen, [1, 1, 1, 1, 0, 0, 0, 0]);
    let mut bytes = [0; 5000];
    assert_eq!(s.write(page(7), &[3; 5000], false), PAGE_SIZE as usize);
    assert_eq!(s.read(page(7), &mut bytes, false), PAGE_SIZE as usize);
    assert_eq!((bytes[0], bytes[4095]), (3, 3));
    assert_eq!(s.usage().rss.peak, 4);
}

fn locks_are_counted<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 2, RW);
    map(&s, page(5), 2, RW);
    s.mlock(page(0) + 100, 10, true, false).unwrap();
    assert_eq!((s.usage().mapped.locked, s.usage().rss.anon), (1, 1));
    assert_eq!(
        s.mlock(page(1), 5 * PAGE_SIZE, true, true),
        Err(Error::NoMem),
        "a hole"
    );
    assert_eq!(
        s.usage().mapped.locked,
        2,
        "what lies before the hole is locked"
    );
    s.lock_all(true, true, false).unwrap();
    assert_eq!((s.usage().mapped.locked, s.usage().rss.anon), (4, 4));
    map(&s, page(9), 1, RW);
    assert_eq!((s.usage().mapped.locked, s.usage().rss.anon), (5, 5));
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(child.usage().mapped.locked, 0, "locks are not inherited");
    s.lock_all(false, false, false).unwrap();
    assert_eq!(s.usage().mapped.locked, 0);
    s.set_limits(Limits {
        memlock: 0,
        ..Limits::NONE
    });
    assert_eq!(s.mlock(AT, PAGE_SIZE, true, false), Err(Error::Perm));
}

/// mprotect(2) that makes locked private memory writable populates it, and not what lies between.
fn what_is_not_locked_is_not_populated<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    map(&s, AT, 12, Prot::READ);
    for n in [0, 11] {
        s.mlock(page(n), PAGE_SIZE, true, false).unwrap();
    }
    s.mlock(page(5), PAGE_SIZE, true, true).unwrap();
    assert_eq!((s.usage().mapped.locked, s.usage().rss.anon), (3, 0));
    s.protect(AT, 12 * PAGE_SIZE, RW).unwrap();
    assert_eq!(s.usage().rss.anon, 2);
    w.check(&[&s], &[]);
}

/// An old length of 0 maps shared memory a second time (mremap(2)): not over the page that it would
/// be the second mapping of.
fn a_second_mapping_leaves_the_first<F: PteFormat>(w: &World<F>) {
    let s = w.process();
    let object = Object::new(&w.mm);
    object.set_len(4 * PAGE_SIZE);
    let shared = VmaFlags::SHARED;
    s.map(of_object(&object, 0, AT, 4, RW, shared)).unwrap();
    (0..4).for_each(|n| w.store(0, &s, page(n), n as u8).unwrap());
    for (to, pages) in [(2, 1), (2, 2), (1, 2), (0, 4)] {
        assert_eq!(
            s.remap(
                page(2),
                0,
                pages * PAGE_SIZE,
                FIXED,
                page(to),
                &mut Default::default()
            ),
            Err(Error::Inval)
        );
        assert_eq!(s.vma_at(AT).unwrap().range.pages(), 4);
    }
    (0..4).for_each(|n| assert_eq!(w.load(0, &s, page(n)), Ok(n as u8)));
    // Beside it there is room, whatever is mapped there.
    for (to, expected) in [(3, [0, 1, 2, 2]), (1, [0, 2, 2, 2])] {
        let second = s.remap(
            page(2),
            0,
            PAGE_SIZE,
            FIXED,
            page(to),
            &mut Default::default(),
        );
        assert_eq!(second, Ok(page(to)));
        (0..4).for_each(|n| assert_eq!(w.load(0, &s, page(n)), Ok(expected[n as usize])));
    }
    w.check(&[&s], &[&object]);
}

fn too_many_mappings<F: PteFormat>(w: &World<F>) {
    use mm::vma::tree::MAX_VMAS;
    let s = w.process();
    // One more than the limit, as in Linux.
    let count = MAX_VMAS as u64 + 1;
    // Every other page, so that nothing is joined.
    (0..count).for_each(|n| map(&s, page(2 * n), 1, Prot::READ));
    assert_eq!(
        s.map(anon(Place::Fixed(page(2 * count)), 1, RW)),
        Err(Error::NoMem)
    );
    s.unmap(page(0), PAGE_SIZE).unwrap();
    map(&s, page(2 * count), 2, Prot::READ);
    assert_eq!(
        s.protect(page(2 * count), PAGE_SIZE, RW),
        Err(Error::NoMem),
        "it would have to be cut"
    );
    s.unmap(page(2 * count), 2 * PAGE_SIZE).unwrap();
    s.unmap(AT, 2 * count * PAGE_SIZE).unwrap();
    assert_eq!(s.usage().mapped.total, 0);
}
