//! Free frames in the lists of CPUs, and tags that are used again.

use crate::common::{AT, RW, map, page};
use crate::scene::{machine, scene, together};
use mm::Handle;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;

/// A CPU fills and empties its lists while another one asks for them.
pub fn lists_are_drained<F: PteFormat>() {
    scene::<F>((512, &[]), 64, |w, p| {
        together(w, 2, |cpu| match cpu {
            0 => {
                for _ in 0..4 {
                    (0..4).for_each(|n| w.store(0, p, page(n), 1).unwrap());
                    p.dont_need(page(0), 4 * PAGE_SIZE).unwrap();
                }
            }
            _ => {
                for n in 8..14 {
                    w.store(1, p, page(n), 1).unwrap();
                    w.mm.drain_pcp();
                }
            }
        });
        assert_eq!(w.load(2, p, page(8)), Ok(1));
    });
}

/// With one tag, spaces that end and begin on two CPUs: no space uses what a TLB has of the one
/// that had the tag before.
pub fn a_tag_is_used_again<F: PteFormat>() {
    let w = machine::<F>(512, 2, &[]);
    let before = w.mm.counts();
    let old = Handle::new(&w.mm).unwrap();
    map(&old, AT, 4, RW);
    (0..2).for_each(|n| w.store(0, &old, page(n), 9).unwrap());
    (0..3).for_each(|cpu| assert_eq!(w.load(cpu, &old, page(0)), Ok(9)));
    let old = std::sync::Mutex::new(Some(old));
    together(&w, 3, |cpu| {
        if cpu == 0 {
            drop(old.lock().unwrap().take());
        }
        for _ in 0..2 {
            let space = Handle::new(&w.mm).unwrap();
            map(&space, AT, 4, RW);
            assert_eq!(w.load(cpu, &space, page(0)), Ok(0));
            w.store(cpu, &space, page(1), cpu as u8).unwrap();
            assert_eq!(w.load(cpu, &space, page(1)), Ok(cpu as u8));
            drop(space);
            w.mm.answer();
        }
    });
    w.check(&[], &[]);
    assert_eq!(before, w.mm.counts(), "frames are left");
}
