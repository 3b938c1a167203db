//! The note of a page table ([`crate::frame::meta::TableFrame::note`]): the owner of a shared one's
//! references in the account, its private pages, and whether it maps the zero page or has swap
//! entries.

use super::budget;
use super::marker::is_swapped;
use super::node::{AtLevel, Node, PteTable};
use crate::addr::VirtAddr;
use crate::arch::{Machine, TABLE_ENTRIES};
use crate::frame::Kind;
use crate::frame::meta::TableFrame;
use crate::mutant::{self, Mutant};
use crate::own::{Account, Meter, MmId, Owner};
use crate::thp::{PMD_ORDER, policy::block};

/// A table's note ([`crate::frame::meta::TableFrame::note`]): the accountant's id in the low 16
/// bits, 0 for plain, and the number of private pages in the high half, both only while shared.
/// While not, the turns of its lock are above [`SWAPPED`]; each sharing begins them anew.
const ACCOUNTANT: u64 = 0xffff;
const PAGES_AT: u32 = 32;
/// Set if entries map, or have mapped, the zero page.
const ZEROS: u64 = 1 << 16;
/// Set if entries are, or have been, swap entries.
const SWAPPED: u64 = 1 << 17;
/// What entries take along to another table.
const CONTENT: u64 = ZEROS | SWAPPED;

/// Records a mapping of the zero page in the table's note.
#[inline]
pub(super) fn note_zeros<M: Machine>(table: PteTable<'_, M>) {
    let meta = table.meta();
    meta.set_note(meta.note() | ZEROS);
}
/// Records a swap entry in the table's note.
pub(super) fn note_swapped<M: Machine>(table: PteTable<'_, M>) {
    let meta = table.meta();
    meta.set_note(meta.note() | SWAPPED);
}
/// Whether entries may be swap entries.
#[inline]
pub(super) fn may_be_swapped<M: Machine>(table: PteTable<'_, M>) -> bool {
    table.meta().note() & SWAPPED != 0
}
/// Copies the note of zero pages and swap entries to a table that received entries.
#[inline]
pub(super) fn inherit<M: Machine>(from: Node<'_, M>, to: Node<'_, M>) {
    let content = content(from.meta());
    if content != 0 {
        to.meta().set_note(to.meta().note() | content);
    }
}

/// What the note says of the entries.
fn content(meta: TableFrame<'_>) -> u64 {
    match mutant::on(Mutant::ForgetSwapped) {
        true => meta.note() & ZEROS,
        false => meta.note() & CONTENT,
    }
}

/// How many private pages a table mapped when it was shared first.
#[inline]
pub(super) fn shared_pages(meta: TableFrame<'_>) -> u64 {
    meta.note() >> PAGES_AT
}

impl<M: Machine, L: AtLevel> Node<'_, M, L> {
    /// Owner of a shared table's references in the account; plain for any other table.
    pub(crate) fn accountant(self) -> Owner {
        let id = self.meta().note() & ACCOUNTANT;
        MmId::new(id as u16).map_or(Owner::PLAIN, Owner::new)
    }
}

impl<M: Machine> PteTable<'_, M> {
    /// The accountant id for the note of a table that `owner` shares first.
    fn becomes_accountant(self, owner: &Owner) -> u64 {
        if owner.is_common() {
            self.pass(owner, &Owner::PLAIN);
            return 0;
        }
        owner.id().map_or(0, |id| id.get().into())
    }

    /// Notes that `owner` shares the table first.
    #[inline(always)]
    pub(super) fn begin_sharing(self, meta: TableFrame<'_>, owner: &Owner) {
        let id = self.becomes_accountant(owner);
        let pages = self.private_pages(meta) << PAGES_AT;
        meta.set_note(meta.note() & CONTENT | pages | id);
    }

    /// Number of private pages mapped: all but zero pages.
    #[inline(always)]
    pub(super) fn private_pages(self, meta: TableFrame<'_>) -> u64 {
        match meta.note() & ZEROS {
            0 => meta.live().into(),
            _ => self.pages_but_zeros(),
        }
    }
    #[cold]
    fn pages_but_zeros(self) -> u64 {
        let (meta, zeros) = (self.meta(), self.mm.zero_page());
        let private = |index: &usize| self.present(*index).is_some_and(|leaf| leaf.pfn != zeros);
        let pages = (0..TABLE_ENTRIES).filter(private).count() as u64;
        if pages == u64::from(meta.live()) {
            // No zero page is left.
            meta.set_note(meta.note() & !ZEROS);
        }
        pages
    }

    /// Cost of `Edit::share_row` for one table, in entries, with the tables above that the child
    /// may need. All are read where references become plain, and to find zero pages.
    #[inline(always)]
    pub(super) fn cost_of_sharing(self, meta: TableFrame<'_>, owner: &Owner) -> u32 {
        let reads = owner.is_common() || meta.note() & CONTENT != 0;
        budget::TABLE + if reads { meta.live() } else { 0 }
    }

    /// Cost of `Entries::leave`, in entries: the accountant, and the last sharer, read all.
    pub(super) fn cost_of_leaving(self, owner: &Owner) -> u32 {
        let swapped = self.meta().note() & SWAPPED != 0;
        let reads = swapped || self.refs() == 1 || self.accountant() == *owner;
        budget::TABLE + if reads { self.meta().live() } else { 0 }
    }

    /// Marks the references of a shared table plain.
    pub(super) fn be_plain(self) {
        let meta = self.meta();
        meta.set_note(meta.note() & !ACCOUNTANT);
    }

    /// How many entries are swap entries.
    #[cold]
    pub(super) fn swapped_pages(self) -> u64 {
        let swapped = |index: &usize| {
            let leaf = self.present(*index);
            leaf.is_some_and(|leaf| is_swapped(leaf.attrs))
        };
        (0..TABLE_ENTRIES).filter(swapped).count() as u64
    }

    /// Number of sharers.
    pub(super) fn refs(self) -> u64 {
        self.meta().refs()
    }

    /// Makes the last sharer the table's only owner.
    pub(super) fn take_over(self, owner: &Owner) {
        let from = self.accountant();
        if from != *owner {
            self.pass(&from, owner);
        }
        let meta = self.meta();
        meta.set_note(content(meta));
    }

    /// Transfers the references of a table's entries.
    pub(super) fn pass(self, from: &Owner, to: &Owner) {
        let (mm, mut meter) = (self.mm, Meter::default());
        // The address does not matter.
        for (_, run) in self.runs(block(VirtAddr(0), PMD_ORDER)) {
            if matches!(run.kind, Kind::Anon | Kind::Swap) {
                let book = mm
                    .frames()
                    .book(run.head, mm.frames().get(run.head).order());
                mm.account().pass(&book, from, to, run.n as u32, &mut meter);
            }
        }
        mm.metered(meter);
    }
}
