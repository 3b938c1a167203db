//! Copies a sharer's pages out of a partly mapped folio. When one sharer is left it splits the
//! folio, and unmapped pages become free: no space needs to know another (docs/decisions/0009).

use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, Queued, SpaceId};
use crate::space::{Locked, gathered, user_pages};
use crate::table::{Cursor, Leaf};

/// Copy-out limit: at most one in this many pages is mapped, as each costs a copy.
const FEW: u64 = 2;

impl<M: Machine> Locked<'_, M> {
    /// Copies this space's pages of a shared private folio to pages of its own, if few are mapped,
    /// at its last known address. Stops when out of memory: each page is independent. Writable
    /// pages, and all pages while its family has pins, stay: they may be exclusive or pinned.
    pub(super) fn leave_folio(&mut self, head: Pfn, folio: &Queued) {
        let (mm, id, pages) = (self.mm(), self.id(), folio.order.pages());
        if id.family.pins() != 0 || folio.references * FEW > pages {
            return;
        }
        let Some(range) = user_pages::<M>(folio.start, folio.order.bytes()) else {
            return;
        };
        for page in 0..pages {
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

/// Replaces a read-only page by a copy with the same attributes; `false` when out of memory.
fn leave_page<M: Machine>(
    mm: &Mm<M>,
    id: &SpaceId,
    cursor: &mut Cursor<'_, M>,
    leaf: &Leaf,
) -> bool {
    let Ok(copy) = Folio::copy_from(mm, leaf.pfn, Reserve::GivingBack) else {
        return false;
    };
    gathered(mm, id, |gather| {
        cursor.edit(gather).take();
        gather.flush();
        cursor.install_copy(copy, Order(0), leaf.attrs, &id.owner);
    });
    true
}
