//! What collapses to one folio, and what is too empty or too shared for it.

use super::*;

folio_tests! {
    collapsing_makes_one_folio
    collapsing_obeys_limits
}

fn collapsing_makes_one_folio<F: PteFormat>(w: &World<F>) {
    for orders in [&[][..], &[4], &[2, 6]] {
        sizes(w, orders);
        let s = w.process();
        map(&s, HUGE, 1024, RW);
        fill(w, &s, 0..300);
        assert_eq!(w.load(0, &s, at(400)), Ok(0));
        s.advise(HUGE, 1024 * PAGE_SIZE, Advice::Collapse)
            .unwrap_err();
        assert_eq!(
            folios(&s, HUGE, 9),
            FolioUse {
                whole: 1,
                part: 0,
                contpte: 1
            }
        );
        verify(w, &s, 0..300);
        assert_eq!(w.load(1, &s, at(400)), Ok(0));
        assert_eq!(s.usage().rss.anon, 512);
        w.check(&[&s], &[]);
        assert_eq!(s.advise(HUGE, 512 * PAGE_SIZE, Advice::Collapse), Ok(()));
    }
}

fn collapsing_obeys_limits<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    let s = w.process();
    map(&s, HUGE, 512, RW);
    fill(w, &s, 0..500);
    let limits = |none, shared| CollapseLimits {
        max_ptes_none: none,
        max_ptes_shared: shared,
    };
    assert_eq!(s.collapse(HUGE, limits(512, 512)), Collapse::NotEligible);
    sizes(w, &[9]);
    assert_eq!(s.collapse(HUGE, limits(11, 0)), Collapse::TooEmpty);
    let child = w.adopt(s.fork().unwrap());
    assert_eq!(s.collapse(HUGE, limits(12, 499)), Collapse::TooShared);
    assert_eq!(s.collapse(HUGE, limits(12, 500)), Collapse::Done);
    assert_eq!(s.collapse(HUGE, limits(12, 500)), Collapse::Already);
    verify(w, &s, 0..500);
    verify(w, &child, 0..500);
    w.check(&[&s, &child], &[]);
    s.advise(HUGE, 512 * PAGE_SIZE, Advice::NoHugePage).unwrap();
    assert_eq!(
        s.advise(HUGE, 512 * PAGE_SIZE, Advice::Collapse),
        Err(Error::Inval)
    );
}
