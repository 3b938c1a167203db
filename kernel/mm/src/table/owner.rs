//! Whether a space has a folio for itself, by looking: when all of its references are entries of this space, nobody else
//! has it. Exact where it says yes; a folio of which this space maps parts at addresses that do not go on from each other
//! reads as shared.

use super::walk::leaf_tables;
use super::{Leaf, PageTable, batch, walk};
use crate::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, PteFormat};
use crate::frame::{Kind, Mm};
use core::convert::Infallible;

/// Whether all references of the private folio that `leaf` maps are entries of this space.
#[inline]
pub fn owns<M: Machine>(mm: &Mm<M>, space: &PageTable, leaf: &Leaf) -> bool {
    let (head, kind, order) = mm.frames().folio(leaf.pfn);
    let refs = mm.frames().get(head).refs();
    kind == Kind::Anon
        && match order {
            Order(0) => refs == 1,
            order => u64::from(refs) <= order.pages() && refs == mappings_around(mm, space, leaf),
        }
}

/// How many entries of this space map pages of the folio of `leaf` at the addresses that go on from it; a PMD leaf is 512.
fn mappings_around<M: Machine>(mm: &Mm<M>, space: &PageTable, leaf: &Leaf) -> u32 {
    let (head, _, order) = mm.frames().folio(leaf.pfn);
    let before = (leaf.pfn - head) * PAGE_SIZE;
    let range = VirtRange {
        start: VirtAddr(leaf.va.0.saturating_sub(before)),
        end: VirtAddr((leaf.va.0 - before.min(leaf.va.0) + order.bytes()).min(M::Pte::USER_END.0)),
    };
    // The frame that belongs at an address, whether or not it is the folio's.
    let wanted = |va: VirtAddr| {
        let pages = (va.0 as i64 - leaf.va.0 as i64) / PAGE_SIZE as i64;
        leaf.pfn.0.wrapping_add_signed(pages)
    };
    let mut found = 0;
    let Ok(()) = leaf_tables(mm, space, range, &mut |leaves| {
        if leaves.level != Level::Pte {
            let here = walk::leaf_at(mm, leaves.table, leaves.level, leaves.part.start, 1);
            if here.is_some_and(|l| l.pfn.0 == wanted(leaves.part.start)) {
                found += leaves.level.order().pages() as u32;
            }
            return Ok::<_, Infallible>(());
        }
        let span = walk::indices(Level::Pte, leaves.part);
        let mut index = span.start;
        while index < span.end {
            let va = leaves.part.start + (index - span.start) as u64 * PAGE_SIZE;
            match batch::run_at(mm, leaves.table, index, span.end) {
                Some(run) => {
                    if run.pfn.0 == wanted(va) && run.head == head {
                        found += run.n as u32;
                    }
                    index += run.n;
                }
                None => index += 1,
            }
        }
        Ok(())
    });
    found
}
