//! Lab 3: an answer.

use super::{Entry, Folio, MAX_ORDER, NoMemory, Page};

/// What is read under the lock is true until the lock is opened. So a folio is made with the lock
/// open, and then everything is looked at once more.
pub fn fault(page: &mut dyn Page, write: bool) -> Result<(), NoMemory> {
    if !write {
        return match page.entry() {
            Entry::Absent => page.map_zeros(),
            _ => Ok(()),
        };
    }
    let (mut kept, mut most) = (None, MAX_ORDER);
    loop {
        let entry = page.entry();
        let order = match entry {
            Entry::Absent => page.order(most),
            Entry::Zeros => 0,
            // Another thread was faster.
            Entry::Own | Entry::Gone => {
                discard(page, kept);
                return Ok(());
            }
        };
        match kept.take_if(|folio: &mut Folio| folio.order == order) {
            Some(folio) => return install(page, entry, folio),
            None => discard(page, kept.take()),
        }
        kept = fresh(page, order);
        if kept.is_none() {
            most = order.checked_sub(1).ok_or(NoMemory)?;
        }
    }
}

/// Allocated and cleared with the lock open.
fn fresh(page: &mut dyn Page, order: u8) -> Option<Folio> {
    let mut folio = None;
    page.open(&mut |memory| {
        folio = memory.allocate(order);
        folio.into_iter().for_each(|folio| memory.clear(folio));
    });
    folio
}

fn install(page: &mut dyn Page, entry: Entry, folio: Folio) -> Result<(), NoMemory> {
    if entry == Entry::Zeros {
        page.unmap();
        page.flush();
    }
    let result = page.map(folio);
    match result {
        Ok(()) => page.count(folio.pages()),
        Err(NoMemory) => page.free(folio),
    }
    result
}

fn discard(page: &mut dyn Page, folio: Option<Folio>) {
    folio.into_iter().for_each(|folio| page.free(folio));
}
