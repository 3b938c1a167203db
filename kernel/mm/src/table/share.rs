//! Page tables that several spaces share (`fork=share`): a fork hands on a PTE table whole, and
//! copies it on the first change in its 2 MiB, whoever makes it. Source: K. Zhao, S. Gong, P.
//! Fonseca, "On-demand-fork: a microsecond fork for memory-intensive and latency-sensitive
//! applications", EuroSys 2021.
//!
//! ```text
//!   parent's PMD entry --- nothing below may be written ---+--> PTE table: as it was before the fork, count 2
//!   child's PMD entry  --- nothing below may be written ---+
//! ```
//! # Rules
//! 1. A table is shared where one area of private anonymous memory covers all of its 2 MiB, and
//!    nobody has pins.
//! 2. The table's frame counts who shares it. Every PMD entry that points to it is an
//!    [`Entry::Shared`], and nobody writes the table's entries; hardware sets the accessed bit. A
//!    walk that wants to change one does not find the table, and calls [`unshare`] first: so who
//!    never forks this way pays nothing.
//! 3. The last one takes the table over as it stands. Before that, [`unshare`] copies: both copies
//!    are write-protected entry by entry, as by any fork. The old table's entries may be changed
//!    for that, because nobody may write through them anyway.
//! 4. Zapping all of it drops the share, and no entry is touched.
//!
//! # The account
//! The entries of a table are one owner's in the account of the folios, however many share the
//! table: those of the space that shared it first, its *accountant*, or plain. When the accountant
//! goes, its references become plain, for its id will be another's; so they do when it copies, and
//! what was its own stands for the copy. Anybody else adds what it copies. Of a space that shares
//! its id ([`MmId::COMMON`]) the id does not say which one the accountant is: its references become
//! plain at once.
//!
//! "Exclusive" is never wrong: a space asks only about pages that its own tables map. Others that
//! have such a page have it by tables of their own, or by a shared one that is accounted plainly or
//! as another's: the asker's own shared tables map other pages, as no space maps a page twice. So
//! the entries of a table that the last one takes over may keep their WRITE: nobody copied it (they
//! would have lost it), nobody pinned a page of it (pins unshare), so nobody else has the pages.
//!
//! # Two spaces at once
//! Each holds its own lock only. The note is changed by the accountant alone while there are
//! several, and dropping a share releases what the next one acquires who reads the count. If all
//! but one leave while that one copies, it drops the old table.

use super::edit::{Edit, Entries};
use super::node::{Node, PteTable};
use super::run::Run;
use super::walk::{Leaf, Leaves, leaf_tables};
use super::{Budget, Cursor, PageTable, Zap, alloc_table, budget, fork};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat, TABLE_ENTRIES};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, OutOfMemory};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Meter, MmId, Owner};
use crate::stat::Event;
use crate::tlb::Gather;

/// A table's note ([`crate::frame::meta::TableFrame::note`]) has the accountant's id in its low 16
/// bits, 0 for plain, and private pages that the entries map in its high half, both while it is
/// shared.
const ACCOUNTANT: u64 = 0xffff;
const PAGES_AT: u32 = 32;
/// Entries may map the page of zeros, or did.
const ZEROS: u64 = 1 << 16;

/// Notes that an entry of the table maps the page of zeros.
#[inline]
pub(super) fn note_zeros<M: Machine>(table: PteTable<'_, M>) {
    let meta = table.node().meta();
    meta.set_note(meta.note() | ZEROS);
}
/// Notes that entries of one table are in another now.
#[inline]
pub(super) fn inherit_zeros<M: Machine>(from: Node<'_, M>, to: Node<'_, M>) {
    if from.meta().note() & ZEROS != 0 {
        to.meta().set_note(to.meta().note() | ZEROS);
    }
}

/// The shared table that translates `va`, if it is one.
pub(crate) fn shared_table<'a, M: Machine>(
    mm: &'a Mm<M>,
    space: &PageTable,
    va: VirtAddr,
) -> Option<PteTable<'a, M>> {
    Hung::find(Node::root(mm, space), va).map(|hung| hung.table)
}

impl<M: Machine> Node<'_, M> {
    /// Whose the references of a shared table are in the account; of any other table plain.
    pub(crate) fn accountant(self) -> Owner {
        let id = self.meta().note() & ACCOUNTANT;
        MmId::new(id as u16).map_or(Owner::PLAIN, Owner::new)
    }
}

impl<M: Machine> PteTable<'_, M> {
    /// What a shared table says of the page of `va`: never WRITE, whatever the entry says.
    pub(super) fn leaf_at_shared(self, va: VirtAddr) -> Option<Leaf> {
        let leaf = self.node().leaf_at(va, 1)?;
        Some(Leaf {
            attrs: leaf.attrs - Attrs::WRITE,
            sharers: self.node().meta().refs(),
            ..leaf
        })
    }

    /// The id that the table has in its note while it is shared, first by `owner`.
    fn becomes_accountant(self, owner: &Owner) -> u64 {
        if owner.is_common() {
            self.pass(owner, &Owner::PLAIN);
            return 0;
        }
        owner.id().map_or(0, |id| id.get().into())
    }

    /// How many private pages the entries map: all but zeros.
    fn private_pages(self) -> u64 {
        let meta = self.node().meta();
        if meta.note() & ZEROS == 0 {
            return meta.live().into();
        }
        let zeros = self.mm.zero_page();
        let private = |index: &usize| self.present(*index).is_some_and(|leaf| leaf.pfn != zeros);
        let pages = (0..TABLE_ENTRIES).filter(private).count() as u64;
        if pages == u64::from(meta.live()) {
            // They are gone.
            meta.set_note(meta.note() & !ZEROS);
        }
        pages
    }

    /// The references of a shared table are plain from now on.
    fn be_plain(self) {
        let meta = self.node().meta();
        meta.set_note(meta.note() & !ACCOUNTANT);
    }

    /// The one who has the table alone makes it its own as it stands.
    fn take_over(self, owner: &Owner) {
        let from = self.node().accountant();
        if from != *owner {
            self.pass(&from, owner);
        }
        let meta = self.node().meta();
        meta.set_note(meta.note() & ZEROS);
    }

    /// The references of a table become another's.
    fn pass(self, from: &Owner, to: &Owner) {
        let (mm, mut meter) = (self.mm, Meter::default());
        // Where they are mapped does not matter.
        let all = VirtRange::new(VirtAddr(0), VirtAddr(Level::Pmd.bytes()));
        for (_, Run { n, head, kind, .. }) in self.runs(all) {
            if kind == Kind::Anon {
                let book = mm.frames().book(head, mm.frames().get(head).order());
                mm.account().pass(&book, from, to, n as u32, &mut meter);
            }
        }
        mm.metered(meter);
    }
}

/// A shared table, and where it hangs in one of its spaces.
struct Hung<'a, M: Machine> {
    pmd: Node<'a, M>,
    index: usize,
    table: PteTable<'a, M>,
}

impl<'a, M: Machine> Hung<'a, M> {
    /// The shared table for `va`.
    fn find(root: Node<'a, M>, va: VirtAddr) -> Option<Self> {
        let pmd = root.table_at(va, Level::Pmd)?;
        let index = pmd.index(va);
        match pmd.entry(index) {
            Entry::Shared(frame) => Some(Hung {
                pmd,
                index,
                table: PteTable { mm: root.mm, frame },
            }),
            _ => None,
        }
    }

    /// Makes the table the space's own if all others have left it; returns whether they had.
    fn settle(&self, va: VirtAddr, gather: &mut Gather<'_, M>) -> bool {
        let table = self.table;
        if table.node().meta().refs() != 1 {
            return false;
        }
        table.take_over(gather.owner());
        self.pmd.write_table(self.index, table.frame);
        table.mm.count(Event::EntryWrites, 1);
        // Or what a walker remembers of the PMD entry would go on forbidding.
        gather.unhooked(va, Level::Pte);
        gather.flush();
        true
    }
}

/// No CPU uses the old table any more.
fn hide<M: Machine>(start: VirtAddr, gather: &mut Gather<'_, M>) {
    if !mutant::on(Mutant::UnshareWithoutFlush) {
        gather.unhooked(start, Level::Pte);
        gather.flush();
    }
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Shares a table of the parent, all of it, with a child, whose cursor stands at its first
    /// page. The gather, the parent's, owes the flush. Returns how many private pages the child has
    /// by it.
    pub(super) fn share(
        &mut self,
        leaves: &Leaves<'a, M>,
        child: &mut Cursor<'_, M>,
    ) -> Result<u64, OutOfMemory> {
        child.prepare(Level::Pmd)?;
        let (table, va, mm) = (leaves.node.ptes(), child.va(), self.mm());
        let meta = leaves.node.meta();
        if !leaves.shared {
            let Some(pmd) = self.root().table_at(va, Level::Pmd) else {
                unreachable!("a PTE table hangs in a PMD table");
            };
            let id = table.becomes_accountant(self.gather.owner());
            let pages = table.private_pages() << PAGES_AT;
            meta.set_note(meta.note() & ZEROS | pages | id);
            if !mutant::on(Mutant::ShareWritable) {
                pmd.write_shared(pmd.index(va), table.frame);
            }
            mm.count(Event::EntryWrites, 1);
            self.gather.unhooked(va, Level::Pte);
        }
        meta.get_ref();
        child.hook_shared(table.frame);
        mm.count(Event::TableShared, 1);
        Ok(meta.note() >> PAGES_AT)
    }

    /// Makes the table for `va` this space's own, if it is shared. Out of memory: nothing has
    /// changed.
    pub fn unshare(&mut self, va: VirtAddr, reserve: Reserve) -> Result<(), OutOfMemory> {
        let Some(hung) = Hung::find(self.root(), va) else {
            return Ok(());
        };
        let start = va.align_down(Level::Pmd.bytes());
        if hung.settle(start, self.gather) {
            return Ok(());
        }
        let (mm, Hung { pmd, index, table }) = (self.mm(), hung);
        let frame = alloc_table(mm, reserve)?;
        copy_entries(table, PteTable { mm, frame }, start, self.gather);
        if M::Pte::BREAK_BEFORE_MAKE {
            pmd.clear(index);
            hide(start, self.gather);
        }
        pmd.write_table(index, frame);
        if !M::Pte::BREAK_BEFORE_MAKE {
            hide(start, self.gather);
        }
        mm.count(Event::EntryWrites, 1);
        mm.count(Event::TableUnshared, 1);
        if table.node().meta().put_ref() {
            discard(table, start, self.gather);
        }
        Ok(())
    }

    /// Makes the table for `va` this space's own if all others have left it; returns whether they
    /// had.
    pub(crate) fn settle(&mut self, va: VirtAddr) -> bool {
        let hung = Hung::find(self.root(), va);
        hung.is_some_and(|hung| hung.settle(va, self.gather))
    }

    /// [`Edit::unshare`] of the tables in `range`, as far as the budget reaches; returns where the
    /// rest begins, if there is one. Out of memory: some are this space's own now, which nobody
    /// sees.
    pub fn unshare_some(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>, OutOfMemory> {
        let stopped = leaf_tables(self.root(), range, &mut |leaves| {
            let at = leaves.part.start;
            // Others are passed over, but the way to one is long where memory is sparse.
            let entries = if leaves.shared { TABLE_ENTRIES } else { 0 };
            if !budget.take(budget::TABLE + entries as u32) {
                return Err(Ok(at));
            }
            match leaves.shared {
                true => self.unshare(at, Reserve::User).map_err(Err),
                false => Ok(()),
            }
        });
        stopped.map_or_else(|stopped| stopped.map(Some), |()| Ok(None))
    }

    /// Drops the shared tables in a row, from an entry of a PMD table on, in `range`. All of each
    /// goes, or the space ends and all of it will.
    pub(super) fn zap_shared_row(
        &mut self,
        pmd: Node<'a, M>,
        first: usize,
        range: VirtRange,
        zap: &mut Zap,
    ) {
        let all = pmd.indices(range).end;
        let end = (first..all)
            .find(|index| !hide_shared(pmd, *index, pmd.part(*index, range), self.gather, zap))
            .unwrap_or(all);
        // One flush for all: who is left may write to the pages from now on.
        self.gather.flush();
        for index in first..end {
            let Entry::Shared(frame) = pmd.frozen_entry(index) else {
                unreachable!("it was hidden just now, under the lock of the space");
            };
            let table = PteTable { mm: pmd.mm, frame };
            pmd.clear(index);
            zap.anon += table.node().meta().note() >> PAGES_AT;
            leave(table, pmd.part(index, range).start, self.gather);
        }
        let gone = end - first;
        pmd.add_live((gone as u32).wrapping_neg());
        self.space.pages -= gone as u64;
        pmd.mm.count(Event::EntryWrites, gone as u64);
    }
}

/// Copies a shared table into a fresh one, as fork does, and settles whose the references are.
fn copy_entries<'a, M: Machine>(
    from: PteTable<'a, M>,
    to: PteTable<'a, M>,
    start: VirtAddr,
    gather: &mut Gather<'a, M>,
) {
    let owner = gather.owner();
    if from.node().accountant() != *owner {
        fork::whole(from, to, start, owner, gather);
        return;
    }
    // What was its own stands for the copy.
    fork::whole(from, to, start, &Owner::PLAIN, gather);
    if !mutant::on(Mutant::KeepAccountant) {
        from.be_plain();
    }
}

/// Hides an entry from the walker if it points to a shared table; the gather owes the flush.
fn hide_shared<M: Machine>(
    pmd: Node<'_, M>,
    index: usize,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &Zap,
) -> bool {
    if !matches!(pmd.entry(index), Entry::Shared(_)) {
        return false;
    }
    debug_assert!(
        zap.dead || part.len() == Level::Pmd.bytes() && !zap.keep_anon,
        "a shared table is cut by {part:?}"
    );
    pmd.freeze_run(index, 1);
    gather.unhooked(part.start, Level::Pte);
    true
}

/// Drops the space's share of a table that it does not use any more.
fn leave<'a, M: Machine>(table: PteTable<'a, M>, at: VirtAddr, gather: &mut Gather<'a, M>) {
    let (meta, owner) = (table.node().meta(), gather.owner());
    if meta.refs() != 1
        && table.node().accountant() == *owner
        && !mutant::on(Mutant::KeepAccountant)
    {
        table.pass(owner, &Owner::PLAIN);
        table.be_plain();
    }
    if meta.put_ref() {
        discard(table, at.align_down(Level::Pmd.bytes()), gather);
    }
}

/// Frees a table that nothing points to, after the last share was dropped.
fn discard<'a, M: Machine>(table: PteTable<'a, M>, start: VirtAddr, gather: &mut Gather<'a, M>) {
    let (from, owner) = (table.node().accountant(), gather.owner());
    if from != *owner {
        table.pass(&from, owner);
    }
    let meta = table.node().meta();
    meta.set_note(0);
    meta.set_refs(1);
    let mut zap = Zap {
        dead: true,
        ..Zap::default()
    };
    let range = VirtRange::new(start, start + Level::Pmd.bytes());
    Entries { table, gather }.zap_called(range, &mut zap);
    gather.dead_table(table.frame);
}
