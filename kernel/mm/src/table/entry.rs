//! Raw entries: decoded on the way out, encoded on the way in. The only file that handles bits.

use crate::addr::Pfn;
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, PteFormat};
use crate::frame::Mm;

/// Reads an entry.
#[inline]
pub fn read<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, level: Level) -> Entry {
    M::Pte::decode(mm.machine().mem().load(table, index), level)
}

/// Reads an entry of a PTE table and its bits, for [`exchange`]; `None` when it is absent.
#[inline]
pub fn read_leaf<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) -> Option<(Pfn, Attrs, u64)> {
    let raw = mm.machine().mem().load(table, index);
    // All-zero bits are an absent entry on every machine: most entries that are looked at are.
    if raw == 0 {
        return None;
    }
    match M::Pte::decode(raw, Level::Pte) {
        Entry::Leaf { pfn, attrs } => Some((pfn, attrs, raw)),
        _ => None,
    }
}

/// Writes a leaf over an absent entry, or over one that only the caller can change (no CPU walks the table).
#[inline]
pub fn write_leaf<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    index: usize,
    level: Level,
    pfn: Pfn,
    attrs: Attrs,
) {
    mm.machine()
        .mem()
        .store(table, index, M::Pte::leaf(pfn, attrs, level));
}

/// Replaces the PTE whose bits were `raw`; `false` when the walker set a bit in between and it must be read again.
#[inline]
pub fn exchange<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    index: usize,
    raw: u64,
    pfn: Pfn,
    attrs: Attrs,
) -> bool {
    mm.machine()
        .mem()
        .compare_exchange(table, index, raw, M::Pte::leaf(pfn, attrs, Level::Pte))
        .is_ok()
}

/// Changes the attributes of a live PTE by `f`, keeping its frame and every bit the walker sets meanwhile; returns whether
/// the entry is different now. An absent entry stays absent.
#[inline]
pub fn modify<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    index: usize,
    mut f: impl FnMut(Pfn, Attrs) -> Attrs,
) -> bool {
    while let Some((pfn, attrs, raw)) = read_leaf(mm, table, index) {
        let new = f(pfn, attrs);
        if new == attrs {
            return false;
        }
        if exchange(mm, table, index, raw, pfn, new) {
            return true;
        }
    }
    false
}

/// Makes an entry absent and returns what the leaf was, walker's last bits included.
#[inline]
pub fn take_leaf<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) -> Option<(Pfn, Attrs)> {
    match M::Pte::decode(mm.machine().mem().swap(table, index, 0), Level::Pte) {
        Entry::Leaf { pfn, attrs } => Some((pfn, attrs)),
        _ => None,
    }
}

/// Hooks a table in.
pub fn write_table<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, child: Pfn) {
    mm.machine().mem().store(table, index, M::Pte::table(child));
}

/// Unhooks a table.
pub fn clear<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) {
    mm.machine().mem().store(table, index, 0);
}
