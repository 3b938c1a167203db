//! Changing the protection of what is mapped in a range.

use super::walk::{indices, leaf_tables};
use super::{PageTable, entry};
use crate::addr::{PAGE_SIZE, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Kind, Mm};
use crate::stat::Event;
use crate::tlb::Gather;

/// Gives every page in `range` the attributes `base`, and WRITE when the VMA is `writable` and no write needs to be seen:
/// always if `shared`, else only for a private page with one reference. Accessed and dirty stay.
pub fn protect_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    (base, writable, shared): (Attrs, bool, bool),
    gather: &mut Gather<'_, M>,
) {
    let Ok(()) = leaf_tables(mm, space, range, &mut |table, part| {
        let mut left = mm.frames().get(table).live();
        let mut written = 0;
        for (i, index) in indices(Level::Pte, part).enumerate() {
            if left == 0 {
                break;
            }
            let mut present = false;
            let changed = entry::modify(mm, table, index, |pfn, attrs| {
                present = true;
                let page = mm.frames().get(pfn);
                let write = writable && (shared || page.kind() == Kind::Anon && page.refs() == 1);
                base | attrs & (Attrs::ACCESSED | Attrs::DIRTY)
                    | if write { Attrs::WRITE } else { Attrs::empty() }
            });
            if changed {
                gather.changed(part.start + i as u64 * PAGE_SIZE);
                written += 1;
            }
            left -= u32::from(present);
        }
        mm.count(Event::EntryWrites, written);
        Ok::<_, core::convert::Infallible>(())
    });
}
