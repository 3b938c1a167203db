//! Faults beside folios that change their size.

use crate::common::page;
use crate::scene::{scene, together, write};
use mm::Advice;
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;

const HERE: u64 = 5;
/// A page that the third CPU may take away.
const GOES: u64 = 10;
/// Writes of each CPU.
const ROUNDS: u8 = 6;
const HUGE: u64 = 512;

/// Writes on two CPUs, while a third one does something to pages that hold nothing else: all is
/// there afterwards. One of them uses such a page, which becomes zeros at some moment.
fn beside<F: PteFormat>(orders: &[u8], verb: fn(&arch_sim::Process<F>)) {
    scene::<F>((2048, orders), HUGE, |w, p| {
        write(w, p, &[HERE, GOES, 40], 9);
        together(w, 3, |cpu| match cpu {
            0 => verb(p),
            _ => {
                for round in 1..=ROUNDS {
                    let at = page(HERE) + cpu as u64;
                    w.store(cpu, p, at, round).unwrap();
                    assert_eq!(w.load(cpu, p, at), Ok(round));
                    let byte = w.load(cpu, p, page(GOES)).unwrap();
                    assert!([0, 9].contains(&byte), "{byte}");
                }
            }
        });
        assert_eq!(w.load(0, p, page(HERE)), Ok(9));
        assert_eq!(w.load(0, p, page(40)), Ok(9));
        for cpu in 1..3 {
            assert_eq!(w.load(0, p, page(HERE) + cpu), Ok(ROUNDS));
        }
    });
}

pub fn a_fault_beside_collapse<F: PteFormat>() {
    beside::<F>(&[], |p| {
        p.advise(page(0), HUGE * PAGE_SIZE, Advice::Collapse)
            .unwrap();
    });
}

/// A PMD leaf becomes PTEs, since a page of it goes; then that page is zeros for all.
pub fn a_fault_beside_a_split_leaf<F: PteFormat>() {
    beside::<F>(&[9], |p| {
        p.dont_need(page(GOES), PAGE_SIZE).unwrap();
    });
}

/// A folio of which a part is not mapped any more becomes single pages, and those of that part are
/// free.
pub fn a_fault_beside_a_split_folio<F: PteFormat>() {
    beside::<F>(&[4], |p| {
        p.dont_need(page(8), 8 * PAGE_SIZE).unwrap();
        p.split_deferred();
    });
}
