//! Pages that go to the store and come back, beside those who use them.

use crate::common::{AT, RW, map, page, sizes};
use crate::scene::{machine, scene, share_tables, shared_pages, together, write, write_and_read};
use arch_sim::{Process, World};
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::switch::{SwapIn, Switch};
use mm::{Advice, Handle};
use std::sync::Mutex;

const HERE: u64 = 5;
const NEAR: u64 = 9;
const PAGES: u64 = 16;
const ALL: u64 = PAGES * PAGE_SIZE;

fn page_out<F: PteFormat>(p: &Process<F>) {
    p.advise(page(0), ALL, Advice::PageOut).unwrap();
}

/// Stores again what is still parked, and looks at everything.
fn settle<F: PteFormat>(w: &World<F>, spaces: &[&Process<F>]) {
    for p in spaces {
        page_out(p);
        w.forget_accesses(p);
    }
    let spaces: Vec<_> = spaces.iter().map(|p| &***p).collect();
    w.check(&spaces, &[]);
}

/// What is written while the page is parked, compressed or away is there afterwards.
pub fn a_write_beside_page_out<F: PteFormat>() {
    scene::<F>((512, &[4]), PAGES, |w, p| {
        write(w, p, &[HERE, NEAR], 1);
        together(w, 3, |cpu| match cpu {
            0 => page_out(p),
            _ => {
                let at = page(HERE) + cpu as u64;
                for value in 2..4 {
                    w.store(cpu, p, at, value).unwrap();
                    assert_eq!(w.load(cpu, p, at), Ok(value));
                    assert_eq!(w.load(cpu, p, page(NEAR)), Ok(1));
                }
            }
        });
        settle(w, &[p]);
        assert_eq!(w.load(0, p, page(HERE)), Ok(1));
        for cpu in 1..3 {
            assert_eq!(w.load(0, p, page(HERE) + cpu), Ok(3));
        }
    });
}

/// A page is used and parked again while its former contents are compressed.
pub fn a_page_is_parked_again<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 1);
        together(w, 3, |cpu| {
            for value in 2..5 {
                w.store(cpu, p, page(HERE) + cpu as u64, value).unwrap();
                page_out(p);
            }
        });
        settle(w, &[p]);
        for cpu in 0..3 {
            assert_eq!(w.load(0, p, page(HERE) + cpu), Ok(4));
        }
    });
}

/// CPUs wait for a page that another one brings back, and its slot is freed meanwhile.
pub fn a_slot_is_freed_beside_a_load<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 1);
        page_out(p);
        together(w, 3, |cpu| {
            for _ in 0..4 {
                if cpu == 0 {
                    page_out(p);
                    p.dont_need(page(0), ALL).unwrap();
                    w.store(cpu, p, page(HERE), 1).unwrap();
                }
                let byte = w.load(cpu, p, page(HERE)).unwrap();
                assert!([0, 1].contains(&byte), "{byte}");
            }
        });
        w.forget_accesses(p);
    });
}

/// A child has what its parent had, wherever it was.
pub fn a_fork_beside_page_out<F: PteFormat>() {
    scene::<F>((512, &[4]), PAGES, |w, p| {
        write(w, p, &[HERE], 1);
        let child = Mutex::new(None);
        together(w, 2, |cpu| match cpu {
            0 => page_out(p),
            _ => *child.lock().unwrap() = Some(w.adopt(p.fork().unwrap())),
        });
        let child = child.into_inner().unwrap().unwrap();
        settle(w, &[p, &child]);
        w.store(0, p, page(HERE), 2).unwrap();
        assert_eq!(w.load(2, &child, page(HERE)), Ok(1));
        settle(w, &[p, &child]);
    });
}

/// Both sharers of a table with swap entries end at once. Without a [`Process`], which ends on all
/// CPUs one after the other.
pub fn the_last_sharers_leave<F: PteFormat>() {
    let w = machine::<F>(512, 8, &[]);
    share_tables(&w);
    let before = w.mm.counts();
    let p = Handle::new(&w.mm).unwrap();
    map(&p, AT, 512, RW);
    w.store(0, &p, page(HERE), 1).unwrap();
    p.advise(page(0), ALL, Advice::PageOut).unwrap();
    let child = p.fork().unwrap();
    let both = Mutex::new(vec![p, child]);
    together(&w, 2, |_| {
        let one = both.lock().unwrap().pop();
        drop(one);
    });
    w.check(&[], &[]);
    assert_eq!(w.mm.slots().free(), w.mm.slots().total());
    assert_eq!(before, w.mm.counts(), "frames are left");
}

/// What a pipe has of the process stays where it is.
pub fn a_pin_beside_page_out<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 1);
        let pinned = Mutex::new(None);
        together(w, 2, |cpu| match cpu {
            0 => page_out(p),
            _ => *pinned.lock().unwrap() = Some(p.pin(page(HERE)).unwrap()),
        });
        settle(w, &[p]);
        let mut byte = [0];
        pinned.lock().unwrap().as_ref().unwrap().read(0, &mut byte);
        assert_eq!((byte, w.load(0, p, page(HERE))), ([1], Ok(1)));
    });
}

/// What is used of a unit is told from the rest, and a child comes to have all of it meanwhile.
pub fn a_unit_is_cut_beside_its_use<F: PteFormat>() {
    scene::<F>((512, &[4]), PAGES, |w, p| {
        w.mm.switches().set(Switch::SwapIn, SwapIn::Page as u32);
        (0..PAGES).for_each(|n| w.store(0, p, page(n), n as u8).unwrap());
        page_out(p);
        let child = Mutex::new(None);
        together(w, 3, |cpu| match cpu {
            0 => drop(w.mm.reclaim(8)),
            1 => *child.lock().unwrap() = Some(w.adopt(p.fork().unwrap())),
            _ => {
                for n in [HERE, HERE, NEAR] {
                    assert_eq!(w.load(cpu, p, page(n)), Ok(n as u8));
                }
            }
        });
        let child = child.into_inner().unwrap().unwrap();
        w.mm.reclaim(8);
        settle(w, &[p, &child]);
        for n in 0..PAGES {
            assert_eq!(w.load(0, p, page(n)), Ok(n as u8));
            assert_eq!(w.load(2, &child, page(n)), Ok(n as u8));
        }
        settle(w, &[p, &child]);
    });
}

/// Single pages are stored as one unit, while some of them are written to and parked again.
pub fn single_pages_go_beside_their_use<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        (0..PAGES).for_each(|n| w.store(0, p, page(n), n as u8).unwrap());
        sizes(w, &[4]);
        together(w, 3, |cpu| match cpu {
            0 => page_out(p),
            1 => {
                w.store(cpu, p, page(HERE) + 1, 1).unwrap();
                page_out(p);
            }
            _ => w.store(cpu, p, page(NEAR) + 1, 1).unwrap(),
        });
        settle(w, &[p]);
        for n in 0..PAGES {
            let written = u8::from([HERE, NEAR].contains(&n));
            assert_eq!(w.load(0, p, page(n)), Ok(n as u8));
            assert_eq!(w.load(0, p, page(n) + 1), Ok(written));
        }
        settle(w, &[p]);
    });
}

/// A child has what its parent had, and nothing is swapped: who turns swap off finds both, and who
/// ends meanwhile.
pub fn swap_off_beside_fork<F: PteFormat>() {
    scene::<F>((512, &[4]), PAGES, |w, p| {
        write(w, p, &[HERE, NEAR], 1);
        page_out(p);
        let child = Mutex::new(None);
        together(w, 3, |cpu| match cpu {
            0 => assert_eq!(w.mm.swap_off(|| false), Ok(())),
            1 => *child.lock().unwrap() = Some(w.adopt(p.fork().unwrap())),
            _ => {
                w.store(cpu, p, page(HERE) + 1, 2).unwrap();
                page_out(p);
                drop(p.fork().unwrap());
            }
        });
        assert_eq!(w.mm.slots().used(), 0);
        let child = child.into_inner().unwrap().unwrap();
        settle(w, &[p, &child]);
        for at in [page(HERE), page(NEAR)] {
            assert_eq!((w.load(0, p, at), w.load(2, &child, at)), (Ok(1), Ok(1)));
        }
        assert_eq!(w.load(0, p, page(HERE) + 1), Ok(2));
    });
}

/// What is written to shared memory by a process or by a call is there afterwards, whoever has it
/// stored meanwhile, cuts it, or turns swap off.
pub fn an_object_beside_page_out<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        let at = page(1000);
        let object = shared_pages(w, p, at);
        together(w, 3, |cpu| match cpu {
            0 => {
                p.advise(at, 4 * PAGE_SIZE, Advice::PageOut).unwrap();
                for _ in 0..3 {
                    w.mm.reclaim(2);
                }
                object.punch(PAGE_SIZE, 1);
            }
            1 => write_and_read(w, p, cpu, at + 2),
            _ => {
                object.write_at(3, &[2]).unwrap();
                let mut bytes = [0; 4];
                object.read_at(0, &mut bytes);
                assert_eq!((bytes[0], bytes[3]), (1, 2));
                let result = w.mm.swap_off(|| false);
                assert!(result.is_ok() || w.mm.slots().total() != 0);
            }
        });
        w.forget_accesses(p);
        w.check(&[p], &[&object]);
        let mut bytes = [0; 4];
        object.read_at(0, &mut bytes);
        assert_eq!(bytes, [1, 0, 3, 2]);
        assert_eq!(w.load(0, p, at + PAGE_SIZE), Ok(0));
        assert_eq!(w.load(0, p, at + 2 * PAGE_SIZE), Ok(1));
        drop(object);
        p.unmap(at, 4 * PAGE_SIZE).unwrap();
    });
}
