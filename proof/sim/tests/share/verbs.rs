//! What a verb of one space does to a table that another has, too, and with memory that runs out.

use super::*;

on_both! {
    a_part_goes_in_each
    all_of_it_goes_in_each
    protection
    what_moves_stays_shared_or_not
    a_collapse_takes_its_own
    out_of_memory
}

fn each<F: PteFormat>(w: &World<F>, verb: impl Fn(&Process<F>, &Process<F>)) {
    families(w, |parent, child| {
        verb(&parent, &child);
        w.check(&[&parent, &child], &[]);
    });
    families(w, |parent, child| {
        verb(&child, &parent);
        w.check(&[&child, &parent], &[]);
    });
}

fn a_part_goes_in_each<F: PteFormat>(w: &World<F>) {
    each(w, |s, other| {
        s.unmap(page(10), 10 * PAGE_SIZE).unwrap();
        assert_eq!(w.load(0, s, page(15)), Err(Resolution::NotMapped));
        holds(w, other, None);
    });
    each(w, |s, other| {
        s.advise(page(15), PAGE_SIZE, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, s, page(15)), Ok(0));
        holds(w, other, None);
    });
}

fn all_of_it_goes_in_each<F: PteFormat>(w: &World<F>) {
    each(w, |s, other| {
        s.unmap(AT, LEN).unwrap();
        assert_eq!(s.usage().rss.anon, 0);
        holds(w, other, None);
        w.store(0, other, page(1), 3).unwrap();
    });
    each(w, |s, other| {
        s.advise(AT, LEN, Advice::DontNeed).unwrap();
        assert_eq!(w.load(0, s, page(15)), Ok(0));
        w.store(0, s, page(15), 4).unwrap();
        holds(w, other, None);
    });
    assert_eq!(event(w, "page_tables_unshared"), 0);
}

fn protection<F: PteFormat>(w: &World<F>) {
    for (first, pages) in [(0, PAGES), (10, 10)] {
        each(w, |s, other| {
            for prot in [Prot::READ, Prot::empty(), RW] {
                s.protect(page(first), pages * PAGE_SIZE, prot).unwrap();
                w.check(&[s, other], &[]);
            }
            w.store(0, s, page(15), 4).unwrap();
            w.store(1, other, page(16), 5).unwrap();
            holds(w, s, Some((15, 4)));
            holds(w, other, Some((16, 5)));
        });
    }
}

fn what_moves_stays_shared_or_not<F: PteFormat>(w: &World<F>) {
    for (first, pages, to) in [
        (0, PAGES, 4 * PAGES),
        (0, PAGES, 4 * PAGES + 3),
        (10, 10, 4 * PAGES),
    ] {
        each(w, |s, other| {
            let (from, len) = (page(first), pages * PAGE_SIZE);
            let to = page(to);
            assert_eq!(
                s.remap(from, len, len, FIXED, to, &mut Default::default()),
                Ok(to)
            );
            w.check(&[s, other], &[]);
            let moved = |n: u64| VirtAddr(to.0 + (n - first) * PAGE_SIZE);
            assert_eq!(w.load(0, s, moved(15)), Ok(15));
            w.store(0, s, moved(15), 4).unwrap();
            holds(w, other, None);
            w.store(1, other, page(15), 5).unwrap();
            assert_eq!(w.load(1, s, moved(15)), Ok(4));
        });
    }
}

fn a_collapse_takes_its_own<F: PteFormat>(w: &World<F>) {
    let w = &World::<F>::new(Options {
        frames: 4096,
        ..w.sim.options()
    });
    each(w, |s, other| {
        sizes(w, &[9]);
        s.advise(AT, LEN, Advice::Collapse).unwrap();
        w.check(&[s, other], &[]);
        w.store(0, s, page(15), 4).unwrap();
        holds(w, s, Some((15, 4)));
        holds(w, other, None);
    });
}

/// Every allocation of a verb fails once.
fn each_fails<F: PteFormat>(
    w: &World<F>,
    all: &[&Space<F>],
    verb: impl Fn() -> Result<(), Error>,
) -> u64 {
    for k in 0..10 {
        let before = w.mm.counts().anon;
        w.mm.allocator().fail_after(Some(k));
        let result = verb();
        w.mm.allocator().fail_after(None);
        match result {
            Ok(()) => return k,
            Err(error) => assert_eq!((error, w.mm.counts().anon), (Error::NoMem, before)),
        }
        w.check(all, &[]);
    }
    panic!("the verb never succeeds");
}

type Verb<'a, F> = &'a dyn Fn(&Process<F>) -> Result<(), Error>;

fn out_of_memory<F: PteFormat>(w: &World<F>) {
    let fault = |s: &Process<F>| match s.fault(page(15), Access::Write) {
        Resolution::Done => Ok(()),
        _ => Err(Error::NoMem),
    };
    let verbs: [Verb<F>; 6] = [
        &fault,
        &|s| s.unmap(page(10), 10 * PAGE_SIZE),
        &|s| s.protect(AT, LEN, Prot::READ),
        &|s| s.advise(page(10), PAGE_SIZE, Advice::DontNeed),
        &|s| {
            s.remap(
                page(10),
                PAGE_SIZE,
                PAGE_SIZE,
                FIXED,
                page(20 * PAGES),
                &mut Default::default(),
            )
            .map(drop)
        },
        &|s| s.clear_soft_dirty(),
    ];
    for verb in verbs {
        each(w, |s, other| {
            assert!(each_fails(w, &[s, other], || verb(s)) > 0);
            holds(w, other, None);
        });
    }
    families(w, |parent, child| {
        let fork = || child.fork().map(drop);
        // Its root, PUD and PMD.
        assert_eq!(each_fails(w, &[&parent, &child], fork), 3);
    });
}
