//! Fork beside writes, and tables that spaces share.

use crate::common::page;
use crate::scene::{machine, scene, share_tables, threads, together, write};
use mm::arch::PteFormat;
use mm::fault::Access;
use std::sync::Mutex;

const HERE: u64 = 5;
const PAGES: u64 = 16;

/// A child has the page as it was at one moment of the fork; what the parent writes later it does
/// not see.
pub fn a_fault_beside_fork<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 1);
        let child = Mutex::new(None);
        together(w, 2, |cpu| match cpu {
            0 => {
                let space = p.fork().unwrap();
                let seen = w.load(0, &space, page(HERE)).unwrap();
                *child.lock().unwrap() = Some((w.adopt(space), seen));
            }
            _ => {
                for value in 2..6 {
                    w.store(1, p, page(HERE), value).unwrap();
                    assert_eq!(w.load(1, p, page(HERE)), Ok(value));
                }
            }
        });
        let (child, seen) = child.into_inner().unwrap().unwrap();
        assert_eq!(w.load(2, &child, page(HERE)), Ok(seen));
        assert_eq!(w.load(2, p, page(HERE)), Ok(5));
        w.check(&[p, &child], &[]);
    });
}

/// A table that parent and child share, written by both at once.
pub fn a_shared_table_from_two_sides<F: PteFormat>() {
    let w = machine::<F>(512, 8, &[]);
    share_tables(&w);
    let before = w.mm.counts();
    let p = threads(&w, 512);
    write(&w, &p, &[HERE, HERE + 1], 1);
    let child = w.adopt(p.fork().unwrap());
    child.share().unwrap();
    together(&w, 3, |cpu| {
        let (space, value) = [(&p, 2), (&child, 3), (&child, 1)][cpu];
        match cpu {
            2 => assert_eq!(w.load(2, space, page(HERE + 1)), Ok(1)),
            _ => w.store(cpu, space, page(HERE), value).unwrap(),
        }
    });
    for (space, value) in [(&p, 2), (&child, 3)] {
        assert_eq!(w.load(2, space, page(HERE)), Ok(value));
        assert_eq!(w.load(2, space, page(HERE + 1)), Ok(1));
    }
    w.check(&[&p, &child], &[]);
    drop((p, child));
    assert_eq!(before, w.mm.counts(), "frames are left");
}

/// A child that ends while the parent writes to the table that they share.
pub fn a_shared_table_is_left<F: PteFormat>() {
    let w = machine::<F>(512, 8, &[]);
    share_tables(&w);
    let before = w.mm.counts();
    let p = threads(&w, 512);
    write(&w, &p, &[HERE, HERE + 1], 1);
    let child = Mutex::new(Some(p.fork().unwrap()));
    together(&w, 2, |cpu| match cpu {
        0 => w.store(0, &p, page(HERE), 2).unwrap(),
        _ => {
            let child = child.lock().unwrap().take().unwrap();
            assert_eq!(w.load(1, &child, page(HERE)), Ok(1));
            drop(child);
        }
    });
    assert_eq!(w.load(2, &p, page(HERE)), Ok(2));
    assert_eq!(w.load(2, &p, page(HERE + 1)), Ok(1));
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts(), "frames are left");
}

/// What a device writes by a long-term pin the parent sees, whatever fork does meanwhile.
pub fn a_pin_beside_fork<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 1);
        let (child, pinned) = (Mutex::new(None), Mutex::new(None));
        together(w, 2, |cpu| match cpu {
            0 => *child.lock().unwrap() = Some(w.adopt(p.fork().unwrap())),
            _ => {
                let pin = p.pin_long_term(page(HERE), Access::Write).unwrap();
                pin.write(1, &[7]);
                w.store(1, p, page(HERE), 2).unwrap();
                assert_eq!(w.load(1, p, page(HERE) + 1), Ok(7));
                pin.write(1, &[8]);
                assert_eq!(w.load(1, p, page(HERE) + 1), Ok(8));
                *pinned.lock().unwrap() = Some(pin);
            }
        });
        let child = child.into_inner().unwrap().unwrap();
        let seen = w.load(2, &child, page(HERE) + 1);
        pinned.lock().unwrap().as_ref().unwrap().write(1, &[9]);
        assert_eq!(w.load(2, &child, page(HERE) + 1), seen);
        w.check(&[p, &child], &[]);
    });
}
