//! Faults and calls among 1, 1,000 and 60,000 mappings: the cost must not grow with their number.
use userland::sys::mem::{ANON, PAGE, RW, mmap, mprotect, munmap, store};
use userland::sys::{Result, time};

/// Pages of the region.
const PAGES: usize = 60_000;
/// Faults in one measurement.
const FAULTS: usize = 64;
/// What the page tables under one entry of the next level map, in pages.
const TABLE: usize = 512;
/// Bytes of the mapping that is looked for a place: no gap in the region is as large.
const NEW: usize = 2 * PAGE;

/// What is measured among so many mappings, per fault or call.
struct Costs {
    fault: u64,
    mmap: u64,
    protect: u64,
}

/// The `n`th page that is touched: each in another mapping, far from the one before.
fn spot(n: usize) -> usize {
    (n * 7919 + 1) * 2 % PAGES
}

/// Where the region is mapped, cut into `count` mappings: every second of the first pages is
/// read-only.
fn region(count: usize) -> Result<usize> {
    let at = mmap(0, PAGES * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    // Large folios would fault the neighbours in.
    let _ = userland::sys::mem::madvise(at, PAGES * PAGE, libc::MADV_NOHUGEPAGE);
    let cuts = count / 2;
    for n in 0..cuts {
        // Spread over the region, so that faults meet them whatever their number.
        let page = (n * (PAGES / 2) / cuts) * 2 + 1;
        mprotect(at + page * PAGE, PAGE, libc::PROT_READ)?;
    }
    // Page tables are there before anything is measured.
    for page in (0..PAGES).step_by(TABLE) {
        store(at + page * PAGE, 1);
    }
    Ok(at)
}

fn among(count: usize) -> Result<Costs> {
    let at = region(count)?;
    let mut costs = Costs {
        fault: u64::MAX,
        mmap: u64::MAX,
        protect: u64::MAX,
    };
    for round in 0..5 {
        let start = time::now();
        for n in 0..FAULTS {
            let page = spot(round * FAULTS + n);
            store(at + page * PAGE, 1);
        }
        costs.fault = costs.fault.min((time::now() - start) / FAULTS as u64);
        let start = time::now();
        for n in 0..FAULTS {
            // Cut off and joined again.
            let page = at + (spot(n) & !1) * PAGE;
            mprotect(page, PAGE, RW | libc::PROT_EXEC)?;
            mprotect(page, PAGE, RW)?;
        }
        costs.protect = costs
            .protect
            .min((time::now() - start) / (2 * FAULTS as u64));
        let start = time::now();
        for _ in 0..FAULTS {
            let new = mmap(0, NEW, libc::PROT_NONE, ANON, -1, 0)?;
            munmap(new, NEW)?;
        }
        costs.mmap = costs.mmap.min((time::now() - start) / FAULTS as u64);
    }
    munmap(at, PAGES * PAGE)?;
    Ok(costs)
}

/// Prints the figures; whether a fault among 60,000 mappings costs at most twice one among a few.
pub fn run(unit: &str) -> Result<bool> {
    let mut first = None;
    let mut good = true;
    for count in [1, 1_000, PAGES] {
        let costs = among(count)?;
        let least = *first.get_or_insert(costs.fault);
        println!(
            "vmas {count}: fault {} {unit} (budget {}), mmap+munmap {}, mprotect {}",
            costs.fault,
            2 * least,
            costs.mmap,
            costs.protect
        );
        good &= costs.fault <= 2 * least;
    }
    Ok(good)
}
