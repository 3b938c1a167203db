//! Page tables that several spaces share (`fork=share`): a fork hands on a PTE table whole, and copies it on the first change in
//! its 2 MiB, whoever makes it. Source: K. Zhao, S. Gong, P. Fonseca, "On-demand-fork: a microsecond fork for memory-intensive
//! and latency-sensitive applications", EuroSys 2021.
//!
//! ```text
//!   parent's PMD entry --- nothing below may be written ---+--> PTE table: as it was before the fork, count 2
//!   child's PMD entry  --- nothing below may be written ---+
//! ```
//! # Rules
//! 1. A table is shared where one area of private anonymous memory covers all of its 2 MiB, and nobody has pins.
//! 2. The table's frame counts who shares it. Every PMD entry that points to it is an [`Entry::Shared`], and nobody writes the
//!    table's entries; hardware sets the accessed bit. A walk that wants to change one does not find the table, and calls
//!    [`unshare`] first: so who never forks this way pays nothing.
//! 3. The last one takes the table over as it stands. Before that, [`unshare`] copies: both copies are write-protected entry by
//!    entry, as by any fork. The old table's entries may be changed for that, because nobody may write through them anyway.
//! 4. Zapping all of it drops the share, and no entry is touched.
//!
//! # The account
//! The entries of a table are one owner's in the account of the folios, however many share the table: those of the space
//! that shared it first, its *accountant*, or plain. When the accountant goes, its references become plain, for its id will be
//! another's; so they do when it copies, and what was its own stands for the copy. Anybody else adds what it copies. Of a space that
//! shares its id ([`MmId::COMMON`]) the id does not say which one the accountant is: its references become plain at once.
//!
//! "Exclusive" is never wrong: a space asks only about pages that its own tables map. Others that have such a page have it by
//! tables of their own, or by a shared one that is accounted plainly or as another's: the asker's own shared tables map other
//! pages, as no space maps a page twice. So the entries of a table that the last one takes over may keep their WRITE: nobody
//! copied it (they would have lost it), nobody pinned a page of it (pins unshare), so nobody else has the pages.
//!
//! # Two spaces at once
//! Each holds its own lock only. The note is changed by the accountant alone while there are several, and dropping a share
//! releases what the next one acquires who reads the count. If all but one leave while that one copies, it drops the old table.

use super::batch::{Run, run_at};
use super::walk::{self, Leaf, Leaves, indices, leaf_tables, table_at};
use super::zap::zap_whole_part;
use super::{Budget, Cursor, PageTable, Zap, alloc_table, budget, copy, entry};
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat, TABLE_ENTRIES};
use crate::frame::zone::For;
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Meter, MmId, Owner};
use crate::stat::Event;
use crate::tlb::Gather;

/// A table's note ([`crate::frame::FrameMeta::note`]) has the accountant's id in its low 16 bits, 0 for plain, and private pages
/// that the entries map in its high half, both while it is shared.
const ACCOUNTANT: u64 = 0xffff;
const PAGES_AT: u32 = 32;
/// Entries may map the page of zeros, or did.
const ZEROS: u64 = 1 << 16;

/// Notes that an entry of the table maps the page of zeros.
#[inline]
pub(super) fn note_zeros<M: Machine>(mm: &Mm<M>, table: Pfn) {
    let meta = mm.frames().get(table);
    meta.set_note(meta.note() | ZEROS);
}
/// Notes that entries of one table are in another now.
#[inline]
pub(super) fn inherit_zeros<M: Machine>(mm: &Mm<M>, from: Pfn, to: Pfn) {
    if mm.frames().get(from).note() & ZEROS != 0 {
        note_zeros(mm, to);
    }
}

/// Whose the references of a shared table are in the account; of any other table plain.
pub(crate) fn accountant<M: Machine>(mm: &Mm<M>, table: Pfn) -> Owner {
    let id = mm.frames().get(table).note() & ACCOUNTANT;
    MmId::new(id as u16).map_or(Owner::PLAIN, Owner::new)
}

/// The shared table that translates `va`, if it is one.
pub(crate) fn shared_table<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<Pfn> {
    find(mm, space, va).map(|(_, _, table)| table)
}

/// What a shared table says of the page of `va`: never WRITE, whatever the entry says.
pub(super) fn leaf_at<M: Machine>(mm: &Mm<M>, table: Pfn, va: VirtAddr) -> Option<Leaf> {
    let leaf = walk::leaf_at(mm, table, Level::Pte, va, 1)?;
    Some(Leaf {
        attrs: leaf.attrs - Attrs::WRITE,
        sharers: mm.frames().get(table).refs(),
        ..leaf
    })
}

/// The PMD table, the index in it, and the shared table for `va`.
fn find<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<(Pfn, usize, Pfn)> {
    let (pmd, index) = (table_at(mm, space, va, Level::Pmd)?, Level::Pmd.index(va));
    match entry::read(mm, pmd, index, Level::Pmd) {
        Entry::Shared(table) => Some((pmd, index, table)),
        _ => None,
    }
}

/// Shares a table of the parent, all of it, with a child, whose cursor stands at its first page. The gather, the parent's, owes
/// the flush. Returns how many private pages the child has by it.
pub(super) fn share<M: Machine>(
    mm: &Mm<M>,
    (parent, leaves): (&PageTable, Leaves),
    child: &mut Cursor<'_, M>,
    gather: &mut Gather<'_, M>,
) -> Result<u64, OutOfMemory> {
    child.prepare(Level::Pmd)?;
    let meta = mm.frames().get(leaves.table);
    if !leaves.shared {
        let Some(pmd) = table_at(mm, parent, child.va(), Level::Pmd) else {
            unreachable!("a PTE table hangs in a PMD table");
        };
        let id = becomes_accountant(mm, leaves.table, gather.owner());
        let pages = private_pages(mm, leaves.table) << PAGES_AT;
        meta.set_note(meta.note() & ZEROS | pages | id);
        if !mutant::on(Mutant::ShareWritable) {
            entry::write_shared(mm, pmd, Level::Pmd.index(child.va()), leaves.table);
        }
        mm.count(Event::EntryWrites, 1);
        gather.unhooked(child.va(), Level::Pte);
    }
    meta.get_ref();
    child.hook_shared(leaves.table);
    mm.count(Event::TableShared, 1);
    Ok(meta.note() >> PAGES_AT)
}

/// The id that a table has in its note while it is shared, first by `owner`.
fn becomes_accountant<M: Machine>(mm: &Mm<M>, table: Pfn, owner: &Owner) -> u64 {
    if owner.is_common() {
        pass(mm, table, owner, &Owner::PLAIN);
        return 0;
    }
    owner.id().map_or(0, |id| id.get().into())
}

/// How many private pages the entries of a table map: all but zeros.
fn private_pages<M: Machine>(mm: &Mm<M>, table: Pfn) -> u64 {
    let meta = mm.frames().get(table);
    if meta.note() & ZEROS == 0 {
        return meta.live().into();
    }
    let zeros = mm.zero_page();
    let private =
        |index: &usize| entry::read_leaf(mm, table, *index).is_some_and(|(pfn, _, _)| pfn != zeros);
    let pages = (0..TABLE_ENTRIES).filter(private).count() as u64;
    if pages == u64::from(meta.live()) {
        // They are gone.
        meta.set_note(meta.note() & !ZEROS);
    }
    pages
}

/// Makes the table for `va` this space's own, if it is shared; the gather is the space's. Out of memory: nothing has changed.
pub fn unshare<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    va: VirtAddr,
    who: For,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    let Some(at) = find(mm, space, va) else {
        return Ok(());
    };
    let (start, (pmd, index, table)) = (va.align_down(Level::Pmd.bytes()), at);
    if settle_at(mm, at, start, gather) {
        return Ok(());
    }
    let copied = alloc_table(mm, who)?;
    copy_entries(mm, table, copied, start, gather);
    if M::Pte::BREAK_BEFORE_MAKE {
        entry::clear(mm, pmd, index);
        hide(start, gather);
    }
    entry::write_table(mm, pmd, index, copied);
    if !M::Pte::BREAK_BEFORE_MAKE {
        hide(start, gather);
    }
    mm.count(Event::EntryWrites, 1);
    mm.count(Event::TableUnshared, 1);
    if mm.frames().get(table).put_ref() {
        discard(mm, table, start, gather);
    }
    Ok(())
}

/// Makes the table for `va` this space's own if all others have left it; returns whether they had.
pub(crate) fn settle<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    va: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> bool {
    find(mm, space, va).is_some_and(|at| settle_at(mm, at, va, gather))
}

fn settle_at<M: Machine>(
    mm: &Mm<M>,
    (pmd, index, table): (Pfn, usize, Pfn),
    va: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> bool {
    if mm.frames().get(table).refs() != 1 {
        return false;
    }
    take_over(mm, table, gather.owner());
    entry::write_table(mm, pmd, index, table);
    mm.count(Event::EntryWrites, 1);
    // Or what a walker remembers of the PMD entry would go on forbidding.
    gather.unhooked(va, Level::Pte);
    gather.flush();
    true
}

/// No CPU uses the old table any more.
fn hide<M: Machine>(start: VirtAddr, gather: &mut Gather<'_, M>) {
    if !mutant::on(Mutant::UnshareWithoutFlush) {
        gather.unhooked(start, Level::Pte);
        gather.flush();
    }
}

/// [`unshare`] of the tables in `range`, as far as the budget reaches; returns where the rest begins, if there is one. Out of
/// memory: some are this space's own now, which nobody sees.
pub fn unshare_some<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    budget: &mut Budget,
) -> Result<Option<VirtAddr>, OutOfMemory> {
    let stopped = leaf_tables(mm, space, range, &mut |leaves| {
        let at = leaves.part.start;
        // Others are passed over, but the way to one is long where memory is sparse.
        let entries = if leaves.shared { TABLE_ENTRIES } else { 0 };
        if !budget.take(budget::TABLE + entries as u32) {
            return Err(Ok(at));
        }
        match leaves.shared {
            true => unshare(mm, space, at, For::User, gather).map_err(Err),
            false => Ok(()),
        }
    });
    stopped.map_or_else(|stopped| stopped.map(Some), |()| Ok(None))
}

/// Copies a shared table into a fresh one, as fork does, and settles whose the references are.
fn copy_entries<M: Machine>(
    mm: &Mm<M>,
    from: Pfn,
    to: Pfn,
    start: VirtAddr,
    gather: &mut Gather<'_, M>,
) {
    let owner = gather.owner();
    if accountant(mm, from) != *owner {
        copy::whole(mm, (from, to), start, owner, gather);
        return;
    }
    // What was its own stands for the copy.
    copy::whole(mm, (from, to), start, &Owner::PLAIN, gather);
    if !mutant::on(Mutant::KeepAccountant) {
        be_plain(mm, from);
    }
}

/// The references of a shared table are plain from now on.
fn be_plain<M: Machine>(mm: &Mm<M>, table: Pfn) {
    let meta = mm.frames().get(table);
    meta.set_note(meta.note() & !ACCOUNTANT);
}

/// The one who has the table alone makes it its own as it stands.
fn take_over<M: Machine>(mm: &Mm<M>, table: Pfn, owner: &Owner) {
    let from = accountant(mm, table);
    if from != *owner {
        pass(mm, table, &from, owner);
    }
    let meta = mm.frames().get(table);
    meta.set_note(meta.note() & ZEROS);
}

/// The references of a table become another's.
fn pass<M: Machine>(mm: &Mm<M>, table: Pfn, from: &Owner, to: &Owner) {
    let mut meter = Meter::default();
    let mut index = 0;
    while index < TABLE_ENTRIES {
        let Some(Run { n, head, kind, .. }) = run_at(mm, table, index, TABLE_ENTRIES) else {
            index += 1;
            continue;
        };
        index += n;
        if kind == Kind::Anon {
            let book = mm.frames().book(head, mm.frames().get(head).order());
            mm.account().pass(&book, from, to, n as u32, &mut meter);
        }
    }
    mm.metered(meter);
}

/// Drops the shared tables in a row, from an entry of a PMD table on, in `range`. All of each goes, or the space ends and all of
/// it will.
pub(super) fn zap_row<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    (pmd, first): (Pfn, usize),
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    let part = |index| walk::part(Level::Pmd, index, range);
    let end = (first..indices(Level::Pmd, range).end)
        .find(|index| !hidden(mm, (pmd, *index), part(*index), gather, zap))
        .unwrap_or(indices(Level::Pmd, range).end);
    // One flush for all: who is left may write to the pages from now on.
    gather.flush();
    for index in first..end {
        let Entry::Shared(table) = entry::read_frozen(mm, pmd, index, Level::Pmd) else {
            unreachable!("it was hidden just now, under the lock of the space");
        };
        entry::clear(mm, pmd, index);
        zap.anon += mm.frames().get(table).note() >> PAGES_AT;
        leave(mm, table, part(index).start, gather);
    }
    let (above, gone) = (mm.frames().get(pmd), end - first);
    above.set_live(above.live() - gone as u32);
    space.pages -= gone as u64;
    mm.count(Event::EntryWrites, gone as u64);
}

/// Hides an entry from the walker if it points to a shared table; the gather owes the flush.
fn hidden<M: Machine>(
    mm: &Mm<M>,
    (pmd, index): (Pfn, usize),
    part: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &Zap,
) -> bool {
    if !matches!(entry::read(mm, pmd, index, Level::Pmd), Entry::Shared(_)) {
        return false;
    }
    debug_assert!(
        zap.dead || part.len() == Level::Pmd.bytes() && !zap.keep_anon,
        "a shared table is cut by {part:?}"
    );
    entry::freeze_run(mm, (pmd, index, Level::Pmd), 1);
    gather.unhooked(part.start, Level::Pte);
    true
}

/// Drops the space's share of a table that it does not use any more.
fn leave<M: Machine>(mm: &Mm<M>, table: Pfn, at: VirtAddr, gather: &mut Gather<'_, M>) {
    let (meta, owner) = (mm.frames().get(table), gather.owner());
    if meta.refs() != 1 && accountant(mm, table) == *owner && !mutant::on(Mutant::KeepAccountant) {
        pass(mm, table, owner, &Owner::PLAIN);
        be_plain(mm, table);
    }
    if meta.put_ref() {
        discard(mm, table, at.align_down(Level::Pmd.bytes()), gather);
    }
}

/// Frees a table that nothing points to, after the last share was dropped.
fn discard<M: Machine>(mm: &Mm<M>, table: Pfn, start: VirtAddr, gather: &mut Gather<'_, M>) {
    let (from, owner) = (accountant(mm, table), gather.owner());
    if from != *owner {
        pass(mm, table, &from, owner);
    }
    let meta = mm.frames().get(table);
    meta.set_note(0);
    meta.set_refs(1);
    let mut zap = Zap {
        dead: true,
        ..Zap::default()
    };
    let range = VirtRange::new(start, start + Level::Pmd.bytes());
    zap_whole_part(mm, table, range, gather, &mut zap);
    gather.dead_table(table);
}
