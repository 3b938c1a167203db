//! Lab 5: an answer.

use super::{Entry, Folio, NoMemory, Tables};
use core::ops::Range;

/// Run by run: each is done as a whole before the next, so that a failure leaves nothing half done.
pub fn fork(tables: &mut dyn Tables, range: Range<usize>) -> Result<(), NoMemory> {
    let mut index = range.start;
    while index < range.end {
        let Some(entry) = tables.read(index) else {
            index += 1;
            continue;
        };
        let folio = tables.folio(entry.frame);
        let end = range
            .end
            .min(index + (folio.frames.end - entry.frame) as usize);
        let n = run(tables, entry, index..end);
        give(tables, &folio, index..index + n)?;
        index += n;
    }
    Ok(())
}

/// How many entries map the pages of one folio that follow each other.
fn run(tables: &dyn Tables, first: Entry, most: Range<usize>) -> usize {
    let follows = |n: &usize| {
        let next = tables.read(most.start + n);
        next.is_some_and(|next| next.frame == first.frame + *n as u64)
    };
    1 + (1..most.len()).take_while(follows).count()
}

/// References before entries; no right to write before they are copied.
fn give(tables: &mut dyn Tables, folio: &Folio, entries: Range<usize>) -> Result<(), NoMemory> {
    if folio.pinned {
        return entries
            .into_iter()
            .try_for_each(|index| tables.duplicate(index));
    }
    tables.refer(entries.start, entries.len());
    tables.protect(entries.start, entries.len());
    tables.copy(entries.start, entries.len());
    Ok(())
}
