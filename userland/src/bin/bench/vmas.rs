//! What a fault costs among few and among many VMAs.
use crate::meter::{Meter, Sample};
use crate::region::Region;
use userland::measuring::wrong;
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::{Result, file};

/// Pages of the region: as many as there may be VMAs.
const PAGES: usize = 60_000;
/// Every so many pages one is touched, the same ones each time.
const STEP: usize = 15;
/// How many VMAs the region is cut into.
const COUNTS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 60_000];
/// The touched pages are visited in an order without neighbours; without a common factor with their
/// number.
const STRIDE: usize = 1_999;

/// One sample for each number of VMAs.
pub fn run(meter: &mut Meter) -> Result<Vec<Sample>> {
    COUNTS.iter().map(|&count| among(meter, count)).collect()
}

fn among(meter: &mut Meter, count: usize) -> Result<Sample> {
    meter.cell.variant = Some(count);
    let region = Region::map(PAGES)?;
    cut(&region, count)?;
    let touched = PAGES / STEP;
    let order = || (0..touched).map(|n| n * STRIDE % touched * STEP);
    let sample = meter.timed(touched, || {
        order().for_each(|n| mem::store(region.page(n), region.mark(n)));
        Ok(())
    })?;
    if let Some(n) = order().find(|&n| !mem::page_is(region.page(n), region.mark(n), 0)) {
        return Err(wrong(&format!("page {n} does not hold what was written")));
    }
    Ok(sample)
}

/// Reads a file of /proc that shows VMAs, each of one page that is there.
pub fn shown(meter: &mut Meter, path: &str) -> Result<Sample> {
    let count = meter.pages;
    let region = Region::map(count)?;
    region.touch()?;
    cut(&region, count)?;
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    let sample = meter.timed(count, || {
        let fd = file::open(path, libc::O_RDONLY, 0)?;
        loop {
            match file::read(fd, &mut buffer)? {
                0 => return file::close(fd),
                n => bytes += n,
            }
        }
    })?;
    // A line has an address range, rights, offset, device and inode at the least.
    if bytes < count * 40 {
        return Err(wrong(&format!("{bytes} bytes of {count} areas")));
    }
    Ok(sample)
}

/// Cuts the region into `count` VMAs: every second piece may be executed, too, so none merges with
/// its neighbours.
fn cut(region: &Region, count: usize) -> Result<()> {
    let pages = region.pages / count;
    (1..count)
        .step_by(2)
        .try_for_each(|n| mem::mprotect(region.page(n * pages), pages * PAGE, RW | libc::PROT_EXEC))
}
