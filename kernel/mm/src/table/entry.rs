//! Raw entries: decoded on the way out, encoded on the way in. With [`super::contpte`] the only file that handles bits.

use crate::addr::Pfn;
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, Place, PteFormat};
use crate::frame::Mm;

/// Reads an entry.
#[inline]
pub fn read<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, level: Level) -> Entry {
    M::Pte::decode(mm.machine().mem().load(table, index), level)
}

/// Where an entry stands.
pub type At = (Pfn, usize, Level);

/// Reads a leaf and its bits, for [`exchange`]; `None` when the entry is absent or points to a table.
#[inline]
pub fn read_leaf_at<M: Machine>(
    mm: &Mm<M>,
    (table, index, level): At,
) -> Option<(Pfn, Attrs, u64)> {
    let raw = mm.machine().mem().load(table, index);
    // All-zero bits are an absent entry on every machine: most entries that are looked at are.
    if raw == 0 {
        return None;
    }
    match M::Pte::decode(raw, level) {
        Entry::Leaf { pfn, attrs } => Some((pfn, attrs, raw)),
        _ => None,
    }
}
/// [`read_leaf_at`] of a PTE.
#[inline]
pub fn read_leaf<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) -> Option<(Pfn, Attrs, u64)> {
    read_leaf_at(mm, (table, index, Level::Pte))
}

/// Whether nothing is mapped at an entry.
#[inline]
pub fn is_absent<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) -> bool {
    mm.machine().mem().load(table, index) == 0
}

/// How many PTEs from `index` on, at most `max`, map frames in a row and are alike but for use. The first, whose bits are
/// `raw`, counts.
#[inline]
pub fn alike<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, raw: u64, max: usize) -> usize {
    let (step, firm) = (M::Pte::NEXT_FRAME, !M::Pte::loose_bits(raw));
    let mem = mm.machine().mem();
    mem.agree(table, index, max, raw, step, firm)
}

/// Whether `n` PTEs from `index` on, of which the first is `raw`, map frames in a row, are alike but for use, and each of them
/// says that it was used.
#[inline]
pub fn all_used<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, raw: u64, n: usize) -> bool {
    let leaf = |attrs| M::Pte::leaf(Pfn(0), attrs, Level::Pte);
    let accessed = leaf(Attrs::ACCESSED) ^ leaf(Attrs::empty());
    let (step, firm) = (M::Pte::NEXT_FRAME, !M::Pte::loose_bits(raw) | accessed);
    let mem = mm.machine().mem();
    raw & accessed != 0 && mem.agree(table, index, n, raw, step, firm) == n
}

/// How many PTEs from `index` on, at most `max`, are absent.
#[inline]
pub fn absent<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, max: usize) -> usize {
    let all = u64::MAX;
    mm.machine().mem().agree(table, index, max, 0, 0, all)
}

/// Whether `n` entries of any level from `index` on are absent.
#[inline]
pub fn all_absent<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, n: usize) -> bool {
    mm.machine().mem().is_zero(table, index, n)
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

/// Makes `n` PTEs in a row, over absent ones, map the frames from `pfn` on.
#[inline]
pub fn write_run<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    index: usize,
    n: usize,
    pfn: Pfn,
    attrs: Attrs,
) {
    let raw = M::Pte::leaf(pfn, attrs, Level::Pte);
    mm.machine()
        .mem()
        .store_run(table, index, n, raw, M::Pte::NEXT_FRAME);
}

/// Makes `n` entries in a row absent; how they were used is lost.
#[inline]
pub fn clear_run<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, n: usize) {
    match n {
        1 => mm.machine().mem().store(table, index, 0),
        _ => mm.machine().mem().store_run(table, index, n, 0, 0),
    }
}

/// Replaces the leaf whose bits were `raw`; `false` when the walker set a bit in between and it must be read again.
#[inline]
pub fn exchange<M: Machine>(
    mm: &Mm<M>,
    (table, index, level): At,
    raw: u64,
    pfn: Pfn,
    attrs: Attrs,
) -> bool {
    mm.machine()
        .mem()
        .compare_exchange(table, index, raw, M::Pte::leaf(pfn, attrs, level))
        .is_ok()
}

/// Changes the attributes of a live leaf by `f`, keeping its frame and every bit the walker sets meanwhile; returns whether
/// the entry is different now. What is no leaf stays as it is.
#[inline]
pub fn modify_at<M: Machine>(mm: &Mm<M>, at: At, mut f: impl FnMut(Pfn, Attrs) -> Attrs) -> bool {
    while let Some((pfn, attrs, raw)) = read_leaf_at(mm, at) {
        let new = f(pfn, attrs);
        if new == attrs {
            return false;
        }
        if exchange(mm, at, raw, pfn, new) {
            return true;
        }
    }
    false
}
/// [`modify_at`] of a PTE.
#[inline]
pub fn modify<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    index: usize,
    f: impl FnMut(Pfn, Attrs) -> Attrs,
) -> bool {
    modify_at(mm, (table, index, Level::Pte), f)
}

/// Adds to what a PTE says; returns whether it is different now.
// A row of them takes half as long in place.
#[inline(always)]
pub fn add<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, bits: Attrs) -> bool {
    let mem = mm.machine().mem();
    let mut raw = mem.load(table, index);
    loop {
        let new = M::Pte::add(raw, bits);
        if new == raw {
            return false;
        }
        match mem.compare_exchange(table, index, raw, new) {
            Ok(()) => return true,
            Err(now) => raw = now,
        }
    }
}

/// Makes an entry absent and returns what the leaf was, walker's last bits included.
#[inline]
pub fn take_leaf_at<M: Machine>(mm: &Mm<M>, (table, index, level): At) -> Option<(Pfn, Attrs)> {
    match M::Pte::decode(mm.machine().mem().swap(table, index, 0), level) {
        Entry::Leaf { pfn, attrs } => Some((pfn, attrs)),
        _ => None,
    }
}
/// [`take_leaf_at`] of a PTE.
#[inline]
pub fn take_leaf<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) -> Option<(Pfn, Attrs)> {
    take_leaf_at(mm, (table, index, Level::Pte))
}

/// Hides a row of entries, leaves or tables, from the walker; its last bits stay in them. Returns how many are not absent.
#[inline]
pub fn freeze_run<M: Machine>(mm: &Mm<M>, (table, index, level): At, n: usize) -> u32 {
    let memory = mm.machine().mem();
    memory.freeze_run(table, index, n, level, M::Pte::VALID)
}
/// Reads an entry that may have been frozen, as it was before.
#[inline]
pub fn read_frozen<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, level: Level) -> Entry {
    match mm.machine().mem().load(table, index) {
        0 => Entry::Absent,
        raw => M::Pte::decode(M::Pte::thaw(raw), level),
    }
}
/// Whether a table's entry is frozen, or a leaf that nobody may use.
#[inline]
pub fn is_frozen<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) -> bool {
    mm.machine().mem().load(table, index) & M::Pte::VALID == 0
}
/// Moves a row of entries that no CPU walks over absent ones, thawed when they were `frozen`; returns how many there were.
#[inline]
pub fn move_run<M: Machine>(mm: &Mm<M>, from: Place, to: Place, n: usize, frozen: bool) -> u32 {
    let memory = mm.machine().mem();
    if frozen {
        memory.move_run(from, to, n, M::Pte::thaw)
    } else {
        memory.move_run(from, to, n, |raw| raw)
    }
}
/// Takes a row of entries that no CPU walks, thawed when they were `frozen`.
#[inline]
pub fn take_run<M: Machine>(mm: &Mm<M>, (table, index): Place, into: &mut [u64], frozen: bool) {
    mm.machine().mem().take_run(table, index, into);
    if frozen {
        let thaw = |raw: &mut u64| *raw = M::Pte::thaw(*raw);
        into.iter_mut().filter(|raw| **raw != 0).for_each(thaw);
    }
}
/// Writes a row of entries that [`take_run`] took over absent ones.
#[inline]
pub fn put_run<M: Machine>(mm: &Mm<M>, (table, index): Place, from: &[u64]) {
    mm.machine().mem().put_run(table, index, from);
}

/// Hooks a table in.
pub fn write_table<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, child: Pfn) {
    mm.machine().mem().store(table, index, M::Pte::table(child));
}

/// Hooks a table of PTEs in that several spaces share.
#[inline]
pub fn write_shared<M: Machine>(mm: &Mm<M>, pmd: Pfn, index: usize, child: Pfn) {
    let raw = M::Pte::shared_table(child);
    mm.machine().mem().store(pmd, index, raw);
}

/// Unhooks a table.
pub fn clear<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize) {
    mm.machine().mem().store(table, index, 0);
}
