//! A space leaves a folio that it and others have in part: its pages are copied out. When all but
//! one have left, the last one splits the folio, and what nobody maps is free: no space need know
//! of another (docs/decisions/0009).

use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::manager::{Mm, SpaceId};
use crate::space::{Locked, user_pages};
use crate::table::{Cursor, Leaf};
use crate::tlb::Gather;

/// A folio is left when at most one in so many of its pages is mapped: it costs a copy each.
const FEW: u64 = 2;

impl<M: Machine> Locked<'_, M> {
    /// Copies what this space maps of a private folio that others have, too, to pages of its own,
    /// if little of it is mapped; where the folio was last known to be mapped. Stops where there is
    /// no memory: each page is left for itself. Pages that may be written, and all while there are
    /// pins, stay: they are not for others to see.
    pub(super) fn leave_folio(&mut self, head: Pfn) {
        let (mm, id) = (self.mm(), self.id());
        let meta = mm.frames().get(head);
        let order = meta.order();
        if mm.pins() != 0 || mm.references(head) * FEW > order.pages() {
            return;
        }
        let Some(range) = user_pages::<M>(meta.anon().index().start(), order.bytes()) else {
            return;
        };
        for page in 0..order.pages() {
            let mut cursor = Cursor::new(mm, &mut self.table, range.start + page * PAGE_SIZE);
            let here = cursor.leaf().filter(|leaf| {
                leaf.pfn == head + page
                    && leaf.level == Level::Pte
                    && !leaf.attrs.contains(Attrs::WRITE)
            });
            if let Some(leaf) = here
                && !leave_page(mm, id, &mut cursor, &leaf)
            {
                return;
            }
        }
    }
}

/// Replaces a page that may not be written by a copy, used as it was; `false` when there is no
/// memory.
fn leave_page<M: Machine>(
    mm: &Mm<M>,
    id: &SpaceId,
    cursor: &mut Cursor<'_, M>,
    leaf: &Leaf,
) -> bool {
    let Ok(copy) = Folio::copy_to_give_back(mm, leaf.pfn) else {
        return false;
    };
    let mut gather = Gather::new(mm, id);
    cursor.take(&mut gather);
    gather.flush();
    cursor.install_copy(copy, Order(0), leaf.attrs, &id.owner);
    gather.finish();
    true
}
