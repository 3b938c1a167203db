//! Faults beside verbs that change what is mapped where.

use crate::common::{AT, FIXED, RW, anon, page};
use crate::scene::{scene, together, write};
use arch_sim::Sim;
use mm::MapRequest;
use mm::Place;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::vma::{Prot, VmaFlags};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const HERE: u64 = 5;
const PAGES: u64 = 16;
const LEN: u64 = PAGES * PAGE_SIZE;
/// Where memory is moved to: the same place of another table.
const TO: VirtAddr = VirtAddr(AT.0 + (2 << 20));

/// After munmap has returned no CPU accesses what was there.
pub fn a_fault_beside_munmap<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 9);
        let over = AtomicBool::new(false);
        together(w, 2, |cpu| match cpu {
            0 => {
                p.unmap(AT, LEN).unwrap();
                over.store(true, SeqCst);
            }
            _ => {
                for n in [HERE, HERE, HERE + 1] {
                    let was_over = over.load(SeqCst);
                    match w.store(1, p, page(n), 3) {
                        Ok(()) => assert!(!was_over, "page {n} is gone"),
                        Err(why) => assert_eq!(why, Resolution::NotMapped),
                    }
                }
            }
        });
        assert_eq!(p.usage().rss.anon, 0);
    });
}

/// munmap of the first half of a table, beside a write to the other half: the table goes, and
/// another one may come in its place as soon as the lock is open.
pub fn a_fault_beside_half_a_table<F: PteFormat>() {
    const HUGE: u64 = 512;
    scene::<F>((512, &[]), 0, |w, p| {
        p.map(sparse(Place::Fixed(AT), 4)).unwrap();
        write(w, p, &[HUGE, 3 * HUGE], 9);
        together(w, 2, |cpu| match cpu {
            0 => p.unmap(AT, 3 * HUGE / 2 * PAGE_SIZE).unwrap(),
            _ => {
                let at = page(2 * HUGE - 1);
                w.store(1, p, at, 3).unwrap();
                assert_eq!(w.load(1, p, at), Ok(3));
            }
        });
        assert_eq!(w.load(2, p, page(2 * HUGE - 1)), Ok(3));
    });
}

/// After mprotect has returned no CPU writes.
pub fn a_fault_beside_mprotect<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 9);
        let over = AtomicBool::new(false);
        together(w, 2, |cpu| match cpu {
            0 => {
                p.protect(AT, LEN, Prot::READ).unwrap();
                over.store(true, SeqCst);
            }
            _ => {
                for n in [HERE, HERE, HERE + 1] {
                    let was_over = over.load(SeqCst);
                    let written = w.store(1, p, page(n), 3).is_ok();
                    assert!(!(written && was_over), "page {n} is read-only");
                }
            }
        });
    });
}

/// A write to memory that is moved lands at its new place, or it is refused.
pub fn a_fault_beside_mremap<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 9);
        let written = AtomicBool::new(false);
        together(w, 2, |cpu| match cpu {
            0 => drop(
                p.remap(AT, LEN, LEN, FIXED, TO, &mut Default::default())
                    .unwrap(),
            ),
            _ => match w.store(1, p, page(HERE), 3) {
                Ok(()) => written.store(true, SeqCst),
                Err(why) => assert_eq!(why, Resolution::NotMapped),
            },
        });
        let byte = w.load(2, p, TO + HERE * PAGE_SIZE);
        assert_eq!(byte, Ok(if written.load(SeqCst) { 3 } else { 9 }));
        assert_eq!(w.load(2, p, page(HERE)), Err(Resolution::NotMapped));
    });
}

/// Tables' worth of memory, which takes more than the machine has.
const TABLES: u64 = 3;
const TABLE: u64 = 2 << 20;

fn sparse<F: PteFormat>(place: Place, tables: u64) -> MapRequest<Sim<F>> {
    MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(place, tables * TABLE / PAGE_SIZE, RW)
    }
}

/// A page of table `n`.
fn spot(n: u64) -> VirtAddr {
    AT + n * TABLE + n * PAGE_SIZE
}

/// munmap of whole tables in its three steps, beside accesses, and a map that uses the frames: not
/// before all have left them.
pub fn tables_are_detached<F: PteFormat>() {
    scene::<F>((512, &[]), 0, |w, p| {
        p.map(sparse(Place::Fixed(AT), TABLES)).unwrap();
        (0..TABLES).for_each(|n| w.store(0, p, spot(n), 9).unwrap());
        (0..TABLES).for_each(|n| assert_eq!(w.load(1, p, spot(n)), Ok(9)));
        let other = AT + 4 * TABLES * TABLE;
        together(w, 3, |cpu| match cpu {
            0 => p.unmap(AT, TABLES * TABLE).unwrap(),
            1 => {
                for n in 0..3 * TABLES {
                    match w.load(1, p, spot(n % TABLES)) {
                        Ok(byte) => assert_eq!(byte, 9),
                        Err(why) => assert_eq!(why, Resolution::NotMapped),
                    }
                }
            }
            _ => {
                p.map(sparse(Place::Fixed(other), TABLES)).unwrap();
                for n in 0..2 * TABLES {
                    w.store(2, p, other + n * PAGE_SIZE, 4).unwrap();
                }
            }
        });
    });
}

/// Memory in whose place another mapping comes: accesses wait for it, and see the one or the other.
pub fn a_place_is_taken_again<F: PteFormat>() {
    scene::<F>((512, &[]), 0, |w, p| {
        p.map(sparse(Place::Fixed(AT), TABLES)).unwrap();
        (0..TABLES).for_each(|n| w.store(0, p, spot(n), 9).unwrap());
        together(w, 2, |cpu| match cpu {
            0 => drop(p.map(sparse(Place::Fixed(AT), TABLES)).unwrap()),
            _ => {
                for n in 0..TABLES {
                    let byte = w.load(1, p, spot(n)).unwrap();
                    assert!([0, 9].contains(&byte), "{byte}");
                }
            }
        });
    });
}
