//! Lab 8: an answer.

use super::{Batch, CAPACITY, Memory};
use core::ops::Range;

/// So many pages are dropped one by one; of more all that a TLB holds of the space goes.
const SINGLY: u64 = 33;

/// One range covers all that is owed: what lies between was not changed, and is looked up again.
pub fn gather(batch: &mut dyn Batch, pages: Range<u64>, memory: Option<Memory>) {
    let owed = batch.owed();
    if owed.is_empty() {
        batch.owe(pages);
    } else if !pages.is_empty() {
        batch.owe(owed.start.min(pages.start)..owed.end.max(pages.end));
    }
    let Some(memory) = memory else { return };
    batch.keep(memory);
    if batch.kept() == CAPACITY {
        finish(batch);
    }
}

/// Flush, then free. Who holds anything is asked last: until the entries were changed a CPU may
/// have come to the space, and read them.
pub fn finish(batch: &mut dyn Batch) {
    let owed = batch.owed();
    if !owed.is_empty() {
        let cpus = batch.ran();
        match owed.end - owed.start <= SINGLY {
            true => batch.flush(cpus, owed),
            false => batch.flush_all(cpus),
        }
        batch.owe(0..0);
    }
    if batch.kept() > 0 {
        batch.free();
    }
}
