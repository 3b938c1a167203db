//! Pages of objects get other frames, once nobody maps or pins them.

use super::Object;
use super::shelf::LOOKED_AT;
use crate::addr::{Order, Pfn, PfnRange};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::manager::Result;
use crate::stat::Event;
use alloc::sync::Arc;
use core::ops::Range;

impl<M: Machine> Object<M> {
    /// The object, unless it ends.
    pub(crate) fn to_keep(&self) -> Option<Arc<Object<M>>> {
        self.me.upgrade()
    }

    /// The first page at these indices whose frame is one of those, and its index. One step, which
    /// leaves the rest of the range.
    pub(crate) fn next_in(&self, frames: &PfnRange, range: &mut Range<u64>) -> Option<(u64, Pfn)> {
        let inner = self.inner.lock();
        let mut left = LOOKED_AT;
        for (index, held) in inner.pages.range(range.clone()).take(LOOKED_AT) {
            (range.start, left) = (index + 1, left - 1);
            if let Some(frame) = held.frame().filter(|frame| frames.contains(*frame)) {
                return Some((*index, frame));
            }
        }
        if left != 0 {
            range.start = range.end;
        }
        None
    }

    /// Moves the page at the single page `index`, which nothing maps, to a frame of its own;
    /// returns the reference to the old one. `Ok(None)`: it is not `frame` any more, or somebody
    /// uses it.
    pub(crate) fn migrate(&self, index: u64, frame: Pfn) -> Result<Option<Folio>> {
        let new = match self.order() {
            Order(0) => Folio::object(&self.mm, true)?,
            order => Folio::from_pfn(self.mm.take_huge(order, Kind::Object, false)?),
        };
        Ok(match self.migrate_to(index, frame, new) {
            Ok(old) => Some(old),
            Err(new) => {
                new.free(&self.mm);
                None
            }
        })
    }
    /// The same to this one, which comes back as an error if it does not move.
    pub(crate) fn migrate_to(&self, index: u64, frame: Pfn, new: Folio) -> Result<Folio, Folio> {
        let order = self.order();
        let (whole, part) = (index >> order.0, index & (order.pages() - 1));
        let mut inner = self.inner.lock();
        let found = inner.pages.get(&whole).and_then(|held| held.frame());
        let Some(page) = found.filter(|page| {
            // Whoever maps or pins it comes through this lock.
            *page + part == frame && self.mm.frames().get(*page).refs() == 1
        }) else {
            return Err(new);
        };
        self.mm.count(Event::Copied, order.pages());
        self.mm.machine().mem().copy(page, new.pfn(), order);
        inner.pages.insert(whole, new.into_pfn().into());
        Ok(Folio::from_pfn(page))
    }
}
