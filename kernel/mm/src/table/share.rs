//! Page tables that several spaces share (`fork=share`): a fork hands on a PTE table whole, and copies it on the first change in
//! its 2 MiB, whoever makes it. Source: K. Zhao, S. Gong, P. Fonseca, "On-demand-fork: a microsecond fork for memory-intensive
//! and latency-sensitive applications", EuroSys 2021.
//!
//! ```text
//!   parent's PMD entry --- nothing below may be written ---+--> PTE table: as it was before the fork, count 2
//!   child's PMD entry  --- nothing below may be written ---+
//! ```
//! # Rules
//! 1. A table is shared where one area of private anonymous memory covers all of its 2 MiB, and the parent has no pins.
//! 2. The table's frame counts who shares it. While it is [`is_shared`] every PMD entry that points to it forbids writing, and
//!    nobody writes its entries; hardware sets the accessed bit. Who wants to change one calls [`unshare`] first.
//! 3. The last one takes the table over as it stands. Before that, [`unshare`] copies: both copies are write-protected entry by
//!    entry, as by any fork. The old table's entries may be changed for that, because nobody may write through them anyway.
//! 4. Zapping all of it drops the share, and no entry is touched.
//!
//! # The account
//! The entries of a table are one owner's in the account of the folios, however many share the table: those of the space
//! that shared it first, its *accountant*, or plain. When the accountant goes, its references become plain, for its id will be
//! another's; so they do when it copies, and what was its own stands for the copy. Anybody else adds what it copies.
//!
//! "Exclusive" is never wrong: a space asks only about pages that its own tables map. Others that have such a page have it by
//! tables of their own, or by a shared one that is accounted plainly or as another's: the asker's own shared tables map other
//! pages, as no space maps a page twice. So the entries of a table that its accountant takes over may keep their WRITE: nobody
//! copied it (they would have lost it), nobody pinned a page of it (pins unshare), nobody else has the pages.
//!
//! # Two spaces at once
//! Each holds its own lock only. The note is changed by the accountant alone while there are several, and dropping a share
//! releases what the next one acquires who reads the count. If all but one leave while that one copies, it drops the old table.

use super::batch::{Run, run_at};
use super::walk::{leaf_tables, table_at};
use super::zap::zap_whole_part;
use super::{Cursor, PageTable, Zap, alloc_table, copy, entry};
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
/// Several spaces may have the table.
const SHARED: u64 = 1 << 16;
/// Entries may map the page of zeros, or did.
const ZEROS: u64 = 1 << 17;

/// Whether others may have the table: then its entries stay as they are, and none of them may be written through.
#[inline]
pub(crate) fn is_shared<M: Machine>(mm: &Mm<M>, table: Pfn) -> bool {
    mm.frames().get(table).note() & SHARED != 0
}

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

/// Whose the references of a shared table are in the account.
pub(crate) fn accountant<M: Machine>(mm: &Mm<M>, table: Pfn) -> Owner {
    let id = mm.frames().get(table).note() & ACCOUNTANT;
    MmId::new(id as u16).map_or(Owner::PLAIN, Owner::new)
}

/// The shared table that translates `va`, if it is one.
pub(crate) fn shared_table<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<Pfn> {
    find(mm, space, va).map(|(_, _, table)| table)
}

/// The PMD table, the index in it, and the shared table for `va`.
#[inline]
fn find<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<(Pfn, usize, Pfn)> {
    let (pmd, index) = (table_at(mm, space, va, Level::Pmd)?, Level::Pmd.index(va));
    match entry::read(mm, pmd, index, Level::Pmd) {
        Entry::Table(table) if is_shared(mm, table) => Some((pmd, index, table)),
        _ => None,
    }
}

/// Shares the table that the parent has for the 2 MiB from `va` on with a child, whose cursor stands there. The gather, the
/// parent's, owes the flush. Returns how many private pages the child has by it.
pub(super) fn share<M: Machine>(
    mm: &Mm<M>,
    (parent, table): (&PageTable, Pfn),
    child: &mut Cursor<'_, M>,
    gather: &mut Gather<'_, M>,
) -> Result<u64, OutOfMemory> {
    child.prepare(Level::Pmd)?;
    let meta = mm.frames().get(table);
    if !is_shared(mm, table) {
        let Some(pmd) = table_at(mm, parent, child.va(), Level::Pmd) else {
            unreachable!("a PTE table hangs in a PMD table");
        };
        let id = gather.owner().id().map_or(0, |id| u64::from(id.get()));
        let pages = private_pages(mm, table) << PAGES_AT;
        meta.set_note(meta.note() & ZEROS | SHARED | pages | id);
        if !mutant::on(Mutant::ShareWritable) {
            entry::write_table_read_only(mm, pmd, Level::Pmd.index(child.va()), table);
        }
        mm.count(Event::EntryWrites, 1);
        gather.unhooked(child.va(), Level::Pte);
    }
    meta.get_ref();
    child.hook_shared(table);
    mm.count(Event::TableShared, 1);
    Ok(meta.note() >> PAGES_AT)
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
    (0..TABLE_ENTRIES).filter(private).count() as u64
}

/// Makes the table for `va` this space's own, if it is shared; the gather is the space's. Out of memory: nothing has changed.
pub fn unshare<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    va: VirtAddr,
    who: For,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    let Some((pmd, index, table)) = find(mm, space, va) else {
        return Ok(());
    };
    let start = va.align_down(Level::Pmd.bytes());
    let meta = mm.frames().get(table);
    if meta.refs() == 1 {
        take_over(mm, table, gather.owner());
        entry::write_table(mm, pmd, index, table);
        mm.count(Event::EntryWrites, 1);
        // Or what a walker remembers of the PMD entry would go on forbidding.
        gather.unhooked(start, Level::Pte);
        gather.flush();
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
    if meta.put_ref() {
        discard(mm, table, start, gather);
    }
    Ok(())
}

/// No CPU uses the old table any more.
fn hide<M: Machine>(start: VirtAddr, gather: &mut Gather<'_, M>) {
    if !mutant::on(Mutant::UnshareWithoutFlush) {
        gather.unhooked(start, Level::Pte);
        gather.flush();
    }
}

/// [`unshare`] of every table in `range`. Out of memory: some are this space's own now, which nobody sees.
pub fn unshare_range<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    leaf_tables(mm, space, range, &mut |leaves| {
        if leaves.level == Level::Pte && is_shared(mm, leaves.table) {
            unshare(mm, space, leaves.part.start, For::Kernel, gather)?;
        }
        Ok(())
    })
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
        // Nobody may write through them now; a fault finds out which may.
        for index in 0..TABLE_ENTRIES {
            entry::modify(mm, table, index, |_, attrs| attrs - Attrs::WRITE);
        }
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

/// Zaps a shared table that `at` points to and that translates `va`. `false`: it is this space's alone now, to be zapped as any.
/// All of it goes, or the space ends and all of it will.
pub(super) fn zap_shared<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    (pmd, index, table): (Pfn, usize, Pfn),
    part: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) -> bool {
    debug_assert!(
        zap.dead || part.len() == Level::Pmd.bytes() && !zap.keep_anon,
        "a shared table is cut by {part:?}"
    );
    let (start, meta) = (
        part.start.align_down(Level::Pmd.bytes()),
        mm.frames().get(table),
    );
    gather.unhooked(start, Level::Pte);
    if meta.refs() == 1 {
        take_over(mm, table, gather.owner());
        entry::write_table(mm, pmd, index, table);
        return false;
    }
    zap.anon += meta.note() >> PAGES_AT;
    entry::clear(mm, pmd, index);
    let above = mm.frames().get(pmd);
    above.set_live(above.live() - 1);
    space.pages -= 1;
    mm.count(Event::EntryWrites, 1);
    gather.flush();
    let owner = gather.owner();
    if accountant(mm, table) == *owner && !mutant::on(Mutant::KeepAccountant) {
        pass(mm, table, owner, &Owner::PLAIN);
        be_plain(mm, table);
    }
    if meta.put_ref() {
        discard(mm, table, start, gather);
    }
    true
}

/// Frees a table that nothing points to, after the last share was dropped: the others left at the same time.
fn discard<M: Machine>(mm: &Mm<M>, table: Pfn, start: VirtAddr, gather: &mut Gather<'_, M>) {
    mm.frames().get(table).set_refs(1);
    take_over(mm, table, gather.owner());
    let mut zap = Zap {
        dead: true,
        ..Zap::default()
    };
    let range = VirtRange::new(start, start + Level::Pmd.bytes());
    zap_whole_part(mm, table, range, gather, &mut zap);
    gather.dead_table(table);
}
