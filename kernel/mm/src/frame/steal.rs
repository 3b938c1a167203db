//! Fallback to the lists of the other mobility, and stealing of pageblocks, when an allocation's
//! own lists are empty.

use super::buddy::Buddy;
use super::meta::{FrameMeta, Kind};
use super::pageblock::{Mobility, PAGEBLOCK};
use super::table::FrameTable;
use crate::addr::{Order, Pfn};

impl Buddy {
    /// Takes a block out of lists of the other mobility.
    pub(super) fn fall_back(
        &mut self,
        table: &FrameTable,
        least: Order,
        want: Mobility,
    ) -> Option<(Pfn, Order)> {
        let (from, found) = self.elsewhere(table, least, want)?;
        let (pfn, order) = found;
        self.unlink(table, pfn, order, from);
        Some(found)
    }

    /// The block to take where there is none of the wanted mobility, and in whose lists it is.
    pub(super) fn elsewhere(
        &mut self,
        table: &FrameTable,
        least: Order,
        want: Mobility,
    ) -> Option<(Mobility, (Pfn, Order))> {
        match want {
            // Filling a gap among the unmovable keeps the pageblock what it is.
            Mobility::Movable => {
                let gap = self.smallest(table, least, Mobility::Unmovable)?;
                Some((Mobility::Unmovable, gap))
            }
            Mobility::Unmovable => self.steal(table, least),
        }
    }

    /// Finds movable memory for an unmovable block: a whole pageblock if there is one, else the
    /// pageblock with the largest free block, if [`Self::claim`] makes it unmovable; else the
    /// smallest block that will do.
    fn steal(&mut self, table: &FrameTable, least: Order) -> Option<(Mobility, (Pfn, Order))> {
        let whole = self.smallest(table, least.max(PAGEBLOCK), Mobility::Movable);
        if let Some(found) = whole {
            return Some((Mobility::Movable, found));
        }
        let fits = self.lists[Mobility::Movable as usize].nonempty >> least.0 << least.0;
        let largest = Order(fits.checked_ilog2()? as u8);
        let pfn = self.head(table, largest, Mobility::Movable);
        if self.claim(table, pfn) {
            return Some((Mobility::Unmovable, (pfn, largest)));
        }
        let smallest = self.smallest(table, least, Mobility::Movable)?;
        Some((Mobility::Movable, smallest))
    }

    /// Makes a movable pageblock unmovable with all that is free in it, if at least half of it is
    /// free or unmovable.
    fn claim(&mut self, table: &FrameTable, pfn: Pfn) -> bool {
        let start = Pfn(pfn.0 & !(PAGEBLOCK.pages() - 1));
        let ours: u64 = blocks_in(table, start)
            .filter(|(_, m)| {
                m.is_free() || m.kind().in_use() && Mobility::of(m.kind()) == Mobility::Unmovable
            })
            .map(|(_, m)| m.order().pages())
            .sum();
        if ours < PAGEBLOCK.pages() / 2 {
            return false;
        }
        for (pfn, meta) in blocks_in(table, start).filter(|(_, m)| m.is_free()) {
            let order = meta.order();
            self.unlink(table, pfn, order, Mobility::Movable);
            self.push(table, pfn, order, Mobility::Unmovable);
        }
        self.pageblocks.set(start, PAGEBLOCK, Mobility::Unmovable);
        true
    }
}

/// The blocks that begin in the pageblock at `start`, which is not part of a larger block.
pub(super) fn blocks_in(table: &FrameTable, start: Pfn) -> impl Iterator<Item = (Pfn, &FrameMeta)> {
    let end = start + PAGEBLOCK.pages();
    let mut at = start;
    core::iter::from_fn(move || {
        while at < end {
            let pfn = at;
            let meta = table.near(pfn);
            let reserved = meta.is_none_or(|m| m.kind() == Kind::Reserved);
            at += if reserved { 1 } else { meta?.order().pages() };
            if !reserved {
                return meta.map(|meta| (pfn, meta));
            }
        }
        None
    })
}
