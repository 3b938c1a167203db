//! Faults beside each other, and beside advice.

use crate::common::{page, sizes};
use crate::scene::{scene, together, write};
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;

/// A page, and one of the same 64 KiB.
const HERE: u64 = 5;
const NEAR: u64 = 9;
/// One that was written before, of another 64 KiB: the first private write of an area has the space
/// as the writer.
const WRITTEN: u64 = 40;
const PAGES: u64 = 64;

/// Each CPU writes its own byte of a page; both bytes are there afterwards, in one page.
fn two_faults<F: PteFormat>(orders: &[u8], pages: [u64; 2], resident: u64) {
    scene::<F>((512, orders), PAGES, |w, p| {
        write(w, p, &[WRITTEN], 9);
        let before = p.usage().rss.anon;
        together(w, 2, |cpu| {
            let at = page(pages[cpu]) + cpu as u64;
            w.store(cpu, p, at, 1 + cpu as u8).unwrap();
            assert_eq!(w.load(cpu, p, at), Ok(1 + cpu as u8));
        });
        for (cpu, n) in pages.into_iter().enumerate() {
            assert_eq!(w.load(2, p, page(n) + cpu as u64), Ok(1 + cpu as u8));
        }
        assert_eq!(p.usage().rss.anon, before + resident);
    });
}

pub fn two_faults_on_a_page<F: PteFormat>() {
    two_faults::<F>(&[], [HERE, HERE], 1);
}

pub fn two_faults_on_a_block<F: PteFormat>() {
    two_faults::<F>(&[4], [HERE, NEAR], 16);
}

/// A table becomes empty beside faults there, which would make a PMD leaf if there were none.
pub fn a_leaf_beside_a_table<F: PteFormat>() {
    scene::<F>((2048, &[]), 512, |w, p| {
        write(w, p, &[WRITTEN], 9);
        sizes(w, &[9]);
        together(w, 3, |cpu| match cpu {
            2 => p.dont_need(page(WRITTEN), PAGE_SIZE).unwrap(),
            0 => assert_eq!(w.load(0, p, page(HERE + 1)), Ok(0)),
            _ => w.store(1, p, page(HERE), 7).unwrap(),
        });
        assert_eq!(w.load(2, p, page(HERE)), Ok(7));
    });
}

/// Two CPUs write to a page that a child has, too, while a third one reads it.
pub fn two_copies_of_a_page<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE], 9);
        let child = w.adopt(p.fork().unwrap());
        together(w, 3, |cpu| {
            let byte = page(HERE) + 1 + cpu as u64;
            match cpu {
                2 => {
                    for _ in 0..4 {
                        assert_eq!(w.load(2, p, page(HERE)), Ok(9));
                    }
                }
                _ => w.store(cpu, p, byte, 1 + cpu as u8).unwrap(),
            }
        });
        for cpu in 0..2 {
            let byte = page(HERE) + 1 + cpu;
            assert_eq!(w.load(0, p, byte), Ok(1 + cpu as u8));
            assert_eq!(w.load(0, &child, byte), Ok(0));
        }
        w.check(&[p, &child], &[]);
    });
}

/// MADV_DONTNEED beside accesses: each sees the page as it was, or zeros.
pub fn a_fault_beside_advice<F: PteFormat>() {
    scene::<F>((512, &[]), PAGES, |w, p| {
        write(w, p, &[HERE, NEAR], 9);
        together(w, 2, |cpu| match cpu {
            0 => p.dont_need(page(0), PAGES * PAGE_SIZE).unwrap(),
            _ => {
                for n in [HERE, NEAR, HERE] {
                    let byte = w.load(1, p, page(n)).unwrap();
                    assert!([0, 9].contains(&byte), "{byte}");
                }
                w.store(1, p, page(HERE) + 1, 3).unwrap();
            }
        });
        let byte = w.load(2, p, page(HERE) + 1).unwrap();
        assert!([0, 3].contains(&byte), "{byte}");
    });
}
