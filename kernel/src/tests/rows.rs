//! Rows of page-table entries on the machine, which goes over many at once: the result is that of
//! one by one.

use crate::arch::pte::Format;
use crate::base::machine::mm;
use mm::addr::{Order, Pfn};
use mm::arch::{Attrs, Level, Machine, PhysMem, PteFormat, Row, Series, Settled, TABLE_ENTRIES};

/// Two frames as tables.
struct Tables(Pfn, Pfn);

impl Tables {
    fn new() -> Option<Tables> {
        let from = mm().alloc_kernel(Order(0))?;
        match mm().alloc_kernel(Order(0)) {
            Some(to) => Some(Tables(from, to)),
            None => {
                mm().free_kernel(from, Order(0));
                None
            }
        }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        mm().free_kernel(self.0, Order(0));
        mm().free_kernel(self.1, Order(0));
    }
}

/// A row: where it begins, its length, and how many of its entries are as the first promises.
const ROWS: [(usize, usize, usize); 12] = [
    (0, 0, 0),
    (0, 1, 1),
    (3, 1, 0),
    (1, 7, 7),
    (0, 8, 8),
    (5, 8, 7),
    (0, 16, 16),
    (16, 16, 8),
    (7, 20, 13),
    (9, 37, 37),
    (0, TABLE_ENTRIES, TABLE_ENTRIES),
    (0, TABLE_ENTRIES, 300),
];

/// Writes the row, with a hole behind what is as promised; its entries are those of `like`.
fn fill(table: Pfn, (index, n, alike): (usize, usize, usize), like: Series) {
    let mem = mm().machine().mem();
    for at in 0..TABLE_ENTRIES {
        let inside = at >= index && at < index + n && at != index + alike;
        mem.store(table, at, if inside { like.at(at - index) } else { 0 });
    }
}

ktest::ktest! {
    /// Copied and compared up to the first entry that is different, and not one further.
    fn rows_end_where_they_differ(ctx) {
        let Some(tables) = Tables::new() else { return Err(ktest::Failure::Skipped("no memory")) };
        let mem = mm().machine().mem();
        let used = Attrs::USER | Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY;
        let raw = Format::leaf(Pfn(0x12345), used, Level::Pte);
        let steps = ROWS.iter().flat_map(|row| [(*row, Format::NEXT_FRAME), (*row, 0)]);
        for (row, step, new) in steps.flat_map(|(row, step)| [(row, step, raw), (row, step, Format::read_only(raw))]) {
            let (index, n, alike) = row;
            let series = |raw| Series { raw, step };
            fill(tables.0, row, series(raw));
            fill(tables.1, (0, 0, 0), series(raw));
            ktest::check_eq!(ctx, mem.agree(Row { table: tables.0, index, n }, series(raw), u64::MAX), alike);
            ktest::check_eq!(ctx, mem.copy_run(Settled(Row { table: tables.0, index, n }), tables.1, series(raw), new), alike);
            for at in 0..TABLE_ENTRIES {
                let place = (at as u64).wrapping_sub(index as u64).wrapping_mul(step);
                let done = at >= index && at < index + alike;
                let left = at > index + alike && at < index + n;
                let copy = if done { new.wrapping_add(place) } else { 0 };
                let original = if left { raw.wrapping_add(place) } else { copy };
                ktest::check_eq!(ctx, (at, mem.load(tables.0, at)), (at, original));
                ktest::check_eq!(ctx, (at, mem.load(tables.1, at)), (at, copy));
            }
        }
    }
}
