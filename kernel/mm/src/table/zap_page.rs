//! Fast path: zaps one page, as allocators return memory by single pages (MADV_DONTNEED).

use super::PageTable;
use super::edit::Entries;
use super::node::{Node, PteTable};
use crate::addr::VirtAddr;
use crate::arch::{Level, Machine, PhysMem, PteFormat};
use crate::frame::{Block, Kind};
use crate::manager::{Mm, SpaceId};
use crate::stat::Event;
use crate::table::contpte;
use crate::tlb::{self, Gather};

/// Zaps the private page at `va`, if any: flushes and frees at once; tables stay. Returns the
/// number of pages, 0 or 1, or `None`, with no change, for other mappings, which need
/// [`super::Edit::zap_part`].
#[inline(always)]
pub fn zap_page<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    va: VirtAddr,
    id: &SpaceId,
) -> Option<u64> {
    let table = Node::root(mm, space).pte_table(va)?;
    let index = Level::Pte.index(va);
    let raw = table.mem().load(table.frame, index);
    if raw == 0 {
        return Some(0);
    }
    let page = M::Pte::frame(raw);
    let Block {
        head: folio,
        kind,
        order,
    } = mm.frames().folio(page);
    // The range path counts wasted copies.
    if kind != Kind::Anon || mm.frames().get(folio).copied_around() {
        return None;
    }
    if contpte::is_folded::<M>(raw) {
        unfold(table, va, id);
    }
    table.node().clear(index);
    let meta = table.node().meta();
    meta.set_live(meta.live() - 1);
    mm.count(Event::EntryWrites, 1);
    tlb::removed_alone(mm, id, va, (folio, order), page);
    Some(1)
}

/// Out of line: once per block.
#[inline(never)]
fn unfold<M: Machine>(table: PteTable<'_, M>, va: VirtAddr, id: &SpaceId) {
    let mut gather = Gather::new(table.mm, id);
    Entries {
        table,
        gather: &mut gather,
    }
    .unfold(va);
    gather.finish();
}
