//! Lab 7: moves by the student's code. Each step is checked before it is done; a wrong one panics,
//! in words that a student can go on with.

use super::super::edit::Edit;
use super::super::node::Node;
use super::super::{Cursor, Zap};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, PhysMem, PteFormat};
use crate::frame::zone::Reserve;
use crate::manager::OutOfMemory;
use crate::stat::Event;
use crate::switch::Lab;
use core::ops::Range;
use labs::mremap::referee::{self, Owner};
use labs::mremap::{Entry as Said, Level as Height, NoMemory, Solution, Tables};

pub(super) const LAB: Lab = Lab::named("mremap");

/// [`Edit::move_range`] by the student.
#[inline(never)]
pub(super) fn move_range<M: Machine>(
    edit: &mut Edit<'_, '_, M>,
    range: VirtRange,
    to: VirtAddr,
) -> Result<(), OutOfMemory> {
    let from = range.start.0..range.end.0;
    let result = referee::move_range(&Solution, &mut Given(edit), from, to.0);
    result.map_err(|NoMemory| OutOfMemory)
}

/// The tables that the student is given.
struct Given<'g, 'e, 'a, M: Machine>(&'g mut Edit<'e, 'a, M>);

/// A run of entries of one table.
struct Run<'a, M: Machine> {
    node: Node<'a, M>,
    index: usize,
    n: usize,
}

impl<'a, M: Machine> Given<'_, '_, 'a, M> {
    /// The table of a level for an address, below entries that may be hidden.
    fn table(&self, level: Height, at: u64) -> Option<Node<'a, M>> {
        let (mut node, level) = (self.0.root(), ours(level));
        while node.level > level {
            node = node.child(node.frozen_entry(node.index(VirtAddr(at))))?;
        }
        Some(node)
    }
    /// The entries of a level for a range, if there is a table.
    fn run(&self, level: Height, range: &Range<u64>) -> Option<Run<'a, M>> {
        let node = self.table(level, range.start)?;
        let index = node.index(VirtAddr(range.start));
        let n = (range.end - range.start) >> ours(level).shift();
        Some(Run {
            node,
            index,
            n: n as usize,
        })
    }
    /// Frees the tables below `node` that hold nothing and that no CPU reads: their entries, or
    /// those above, are hidden.
    fn free_hidden(&mut self, node: Node<'a, M>, range: VirtRange, hidden: bool) {
        for index in node.indices(range) {
            let Some(child) = node.child(node.frozen_entry(index)) else {
                continue;
            };
            let hidden = hidden || node.is_frozen(index);
            if child.level != Level::Pte {
                self.free_hidden(child, node.part(index, range), hidden);
            }
            if hidden && child.live() == 0 {
                node.clear(index);
                node.lost(1);
                self.0.space.pages -= 1;
                self.0.gather.dead_table(child.frame);
            }
        }
    }
}

impl<M: Machine> Tables for Given<'_, '_, '_, M> {
    fn most(&self) -> Height {
        theirs(self.0.mm().switches().move_level())
    }
    fn entry(&self, level: Height, at: u64) -> Said {
        let entry = |node: Node<'_, M>| node.frozen_entry(node.index(VirtAddr(at)));
        match self.table(level, at).map(entry) {
            None | Some(Entry::Absent) => Said::Absent,
            Some(Entry::Table(_)) => Said::Table,
            Some(_) => Said::Leaf,
        }
    }
    fn is_absent(&self, level: Height, range: &Range<u64>) -> bool {
        let run = self.run(level, range);
        run.is_none_or(|run| run.node.all_absent(run.index, run.n))
    }
    fn make(&mut self, level: Height, to: u64) -> Result<(), NoMemory> {
        let mut cursor = Cursor::new(self.0.mm(), self.0.space, VirtAddr(to));
        cursor.prepare(ours(level)).map_err(|OutOfMemory| NoMemory)
    }
    fn split(&mut self, at: u64) -> Result<(), NoMemory> {
        let Some(pmd) = self.table(Height::Pmd, at) else {
            return Ok(());
        };
        let opened = self.0.open(pmd, VirtAddr(at), Reserve::User);
        opened.map_err(|OutOfMemory| NoMemory)
    }
    fn hide(&mut self, level: Height, range: &Range<u64>) {
        let Some(Run { node, index, n }) = self.run(level, range) else {
            return;
        };
        let range = addresses(range);
        if node.level == Level::Pte {
            self.0.entries(node.ptes()).unfold_ends(range);
        }
        let hidden = node.freeze_run(index, n);
        if hidden > 0 {
            self.0.gather.moved(range, node.level);
        }
        node.mm.count(Event::EntryWrites, u64::from(hidden));
    }
    fn flush(&mut self) {
        self.0.gather.flush();
    }
    fn carry(&mut self, level: Height, range: &Range<u64>, to: u64) {
        let target = self.table(level, to);
        let (Some(run), Some(target)) = (self.run(level, range), target) else {
            return;
        };
        let (from, to) = (addresses(range), VirtAddr(to));
        let Run { node, index, n } = run;
        let contpte = node.level == Level::Pte && M::Pte::CONTIG_ORDER.is_some();
        if contpte {
            node.ptes().unfold_cut(from);
            node.ptes().refold(from, to, true);
        }
        node.move_run(index, n, true, target, target.index(to));
        if contpte {
            let there = VirtRange::new(to, to + from.len());
            self.0.entries(target.ptes()).fold_ends(there);
        }
    }
    fn free_empty(&mut self, range: &Range<u64>) {
        let range = addresses(range);
        self.free_hidden(self.0.root(), range, false);
        if self.empty_table(&(range.start.0..range.end.0)).is_some() {
            let stopped = self.0.zap(range, &mut Zap::default());
            debug_assert!(stopped.is_none(), "without a limit nothing is left");
        }
    }
}

impl<M: Machine> Owner for Given<'_, '_, '_, M> {
    fn has_table(&self, level: Height, at: u64) -> bool {
        self.table(level, at).is_some()
    }
    fn mapped(&self, range: &Range<u64>) -> Option<u64> {
        let mapped = |entry, _: Node<'_, M>| !matches!(entry, Entry::Absent | Entry::Table(_));
        find(self.0.root(), addresses(range), Level::Pte, &mapped)
    }
    fn empty_table(&self, range: &Range<u64>) -> Option<u64> {
        let empty = |entry, node: Node<'_, M>| {
            let child = node.child(entry);
            child.is_some_and(|child| child.live() == 0)
        };
        find(self.0.root(), addresses(range), Level::Pmd, &empty)
    }
    fn show(&mut self, range: &Range<u64>) {
        show(self.0.root(), addresses(range));
    }
}

/// The first address of a range for which there is such an entry, from `node` down to the tables of
/// a level.
fn find<M: Machine>(
    node: Node<'_, M>,
    range: VirtRange,
    lowest: Level,
    is: &impl Fn(Entry, Node<'_, M>) -> bool,
) -> Option<u64> {
    for index in node.indices(range) {
        let (entry, part) = (node.frozen_entry(index), node.part(index, range));
        if is(entry, node) {
            return Some(part.start.0);
        }
        if node.level > lowest
            && let Some(child) = node.child(entry)
            && let Some(found) = find(child, part, lowest, is)
        {
            return Some(found);
        }
    }
    None
}

/// Thaws what is frozen in a range, from `node` down.
fn show<M: Machine>(node: Node<'_, M>, range: VirtRange) {
    for index in node.indices(range) {
        let raw = node.mem().load(node.frame, index);
        if raw != 0 && node.is_frozen(index) {
            node.mem().store(node.frame, index, M::Pte::thaw(raw));
        }
        if let Some(child) = node.child(node.entry(index)) {
            show(child, node.part(index, range));
        }
    }
}

fn addresses(range: &Range<u64>) -> VirtRange {
    VirtRange::new(VirtAddr(range.start), VirtAddr(range.end))
}

fn ours(level: Height) -> Level {
    match level {
        Height::Pte => Level::Pte,
        Height::Pmd => Level::Pmd,
        Height::Pud => Level::Pud,
        Height::Pgd => Level::Pgd,
    }
}

fn theirs(level: Level) -> Height {
    match level {
        Level::Pte => Height::Pte,
        Level::Pmd => Height::Pmd,
        Level::Pud => Height::Pud,
        Level::Pgd => Height::Pgd,
    }
}
