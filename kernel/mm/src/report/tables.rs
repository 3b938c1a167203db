//! The entries of page tables, as `/proc/PID/page_tables` shows them.

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::frame::{Block, Kind};
use crate::space::AddressSpace;
use crate::table::Node;
use alloc::vec::Vec;

/// An entry of a page table; or leaves beside each other that map frames beside each other of one
/// folio, with the same attributes; or swap entries of slots beside each other of one block, whose
/// pages are all stored, or in frames beside each other of one folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryRun {
    /// Where what the first one translates begins.
    pub va: VirtAddr,
    /// Level of the table that has them.
    pub level: Level,
    /// Number of entries.
    pub entries: u64,
    /// The table, the first frame or the first slot that they lead to.
    pub pfn: Pfn,
    /// What it is.
    pub to: EntryTo,
}

/// What an entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryTo {
    /// A table of the next lower level.
    Table,
    /// A table of PTEs that so many spaces share.
    Shared(u64),
    /// Memory.
    Memory {
        /// Rights and use.
        attrs: Attrs,
        /// The folio that the frames belong to.
        folio: Block,
    },
    /// Swap slots.
    Slots {
        /// The block of slots that they belong to.
        block: Block,
        /// Of what is parked, the frame of the first one's page, and its folio; else it is stored.
        parked: Option<(Pfn, Block)>,
    },
}

impl EntryTo {
    /// The same, so many pages further on.
    fn skip(self, pages: u64) -> EntryTo {
        match self {
            EntryTo::Slots { block, parked } => EntryTo::Slots {
                block,
                parked: parked.map(|(pfn, folio)| (pfn + pages, folio)),
            },
            EntryTo::Table | EntryTo::Shared(_) | EntryTo::Memory { .. } => self,
        }
    }
}

impl EntryRun {
    /// What is behind the last one.
    pub fn end(&self) -> VirtAddr {
        self.va + self.entries * self.level.bytes()
    }

    /// Whether this run goes on with that one.
    fn continues(&self, next: &EntryRun) -> bool {
        let pages = self.entries * self.level.order().pages();
        let table = matches!(self.to, EntryTo::Table | EntryTo::Shared(_));
        let place = (self.end(), self.pfn + pages, self.to.skip(pages));
        !table && self.level == next.level && place == (next.va, next.pfn, next.to)
    }
}

/// The end of a walk whose vector is full.
struct Full;

impl<M: Machine> AddressSpace<M> {
    /// Appends entries of user memory, a table before what is below it, within the capacity of
    /// `into`. `from` is 0 for the first, or what the call before returned: where the rest begins,
    /// if any. The space is locked meanwhile: ask for a few dozen at a time.
    pub fn entries_from(&self, from: u64, into: &mut Vec<EntryRun>) -> Option<u64> {
        let start = VirtAddr(from).align_down(PAGE_SIZE).min(M::Pte::USER_END);
        let range = VirtRange::new(start, M::Pte::USER_END);
        if range.is_empty() {
            return None;
        }
        let inner = self.lock();
        match entries(inner.root(), range, from, into) {
            Ok(()) => None,
            Err(Full) => into.last().map(behind),
        }
    }
}

/// The position of an entry: its address, and in the bits below a page's the depth of its table.
/// In the order of positions a table stands before what is below it.
fn position(va: VirtAddr, level: Level) -> u64 {
    va.0 + (Level::Pgd as u64 - level as u64)
}

/// The first position behind a run: below a table, or behind memory.
fn behind(run: &EntryRun) -> u64 {
    match run.to {
        EntryTo::Table | EntryTo::Shared(_) => position(run.va, run.level) + 1,
        EntryTo::Memory { .. } | EntryTo::Slots { .. } => run.end().0,
    }
}

/// Appends the entries at or behind a position in a table and in those below it. `range` is what is
/// to be looked at of the addresses that the table translates.
fn entries<M: Machine>(
    node: Node<'_, M>,
    range: VirtRange,
    from: u64,
    into: &mut Vec<EntryRun>,
) -> Result<(), Full> {
    for index in node.indices(range) {
        let (entry, part) = (node.entry(index), node.part(index, range));
        let va = part.start.align_down(node.level.bytes());
        if position(va, node.level) >= from
            && let Some(run) = run(node, entry, va)
        {
            push(into, run)?;
        }
        let shared = node.shared(entry).map(|table| table.node());
        if let Some(below) = node.child(entry).or(shared) {
            entries(below, part, from, into)?;
        }
    }
    Ok(())
}

fn push(into: &mut Vec<EntryRun>, run: EntryRun) -> Result<(), Full> {
    if let Some(last) = into.last_mut().filter(|last| last.continues(&run)) {
        last.entries += 1;
        return Ok(());
    }
    if into.len() == into.capacity() {
        return Err(Full);
    }
    into.push(run);
    Ok(())
}

/// An entry that is not absent.
fn run<M: Machine>(node: Node<'_, M>, entry: Entry, va: VirtAddr) -> Option<EntryRun> {
    let frames = node.mm.frames();
    let (pfn, to) = match entry {
        Entry::Absent => return None,
        Entry::Table(table) => (table, EntryTo::Table),
        Entry::Shared(table) => (table, EntryTo::Shared(frames.get(table).refs())),
        Entry::Leaf { pfn, attrs } => {
            let folio = frames.folio(pfn);
            let to = match folio.kind {
                Kind::Swap => EntryTo::Slots {
                    block: folio,
                    parked: node.mm.parked(pfn).map(|pfn| (pfn, frames.folio(pfn))),
                },
                _ => EntryTo::Memory { attrs, folio },
            };
            (pfn, to)
        }
    };
    Some(EntryRun {
        va,
        level: node.level,
        entries: 1,
        pfn,
        to,
    })
}
