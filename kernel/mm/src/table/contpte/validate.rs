//! Invariants of the blocks of a table at rest.

use super::{USED, block, span};
use crate::addr::Pfn;
use crate::arch::{Attrs, Machine, PteFormat};
use crate::table::node::{Present, PteTable};

/// Checks that folded blocks are aligned, complete, uniform and of one folio; panics otherwise.
pub(crate) fn validate<M: Machine>(table: PteTable<'_, M>) {
    let Some(order) = M::Pte::CONTIG_ORDER else {
        return;
    };
    let (mm, frame) = (table.mm, table.frame);
    for start in (0..crate::arch::TABLE_ENTRIES).step_by(span::<M>()) {
        let leaf = |i: usize| table.present(i);
        let Some(one) = block::<M>(start)
            .find(|i| leaf(*i).is_some_and(|leaf| leaf.attrs.contains(Attrs::CONTIG)))
        else {
            continue;
        };
        let Present { pfn, attrs, .. } = leaf(one).expect("it was found");
        let first = Pfn(pfn.0.wrapping_sub((one - start) as u64));
        assert!(
            first.0 & (order.pages() - 1) == 0,
            "misaligned block: entry {one} of {frame:?} is folded and maps {pfn:?}"
        );
        for i in block::<M>(start) {
            let Some(Present {
                pfn: page,
                attrs: other,
                ..
            }) = leaf(i)
            else {
                panic!("non-uniform block: entry {one} of {frame:?} is folded, {i} is absent");
            };
            assert!(
                page == first + (i - start) as u64 && other - USED == attrs - USED,
                "non-uniform block: entry {one} of {frame:?} maps {pfn:?} {attrs:?}, entry {i} {page:?} {other:?}"
            );
        }
        let head = mm.frames().head(first);
        assert!(
            mm.frames().get(head).order() >= order,
            "folded block of several folios: entry {one} of {frame:?} maps {first:?} in {head:?} of order {}",
            mm.frames().get(head).order().0
        );
    }
}
