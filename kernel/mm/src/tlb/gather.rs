//! The gather: what was taken out of page tables, with the flush that must come before it may be used again.

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Asid, Attrs, Level, Machine, Tlb};
use crate::frame::{Kind, Mm};
use crate::stat::Event;
use crate::sync;
use arrayvec::ArrayVec;

/// Frames that wait for one flush.
const BATCH: usize = 64;

/// A leaf that was taken out of a table: other CPUs and this one may still translate through it. It carries the entry's
/// reference; only [`Gather::removed`] (or installing it elsewhere, after a flush) gets rid of it.
#[must_use = "the frame is still in TLBs: give it to a Gather"]
#[derive(Debug)]
pub struct Removed {
    /// The frame that was mapped.
    pub pfn: Pfn,
    /// How it was mapped and used.
    pub attrs: Attrs,
}

/// Collects changes to live entries of one address space; [`Gather::finish`] flushes first and frees then. It finishes in
/// between whenever it is full. Dropping one that still owes a flush is our own mistake: debug builds panic.
#[must_use = "what was gathered is owed a flush: call finish"]
pub struct Gather<'a, M: Machine> {
    mm: &'a Mm<M>,
    asid: Asid,
    /// `false`: no CPU can use the space any more and its tag was flushed, so nothing is owed but the frames.
    live: bool,
    start: VirtAddr,
    end: VirtAddr,
    tables: bool,
    frames: ArrayVec<Pfn, BATCH>,
}

impl<'a, M: Machine> Gather<'a, M> {
    /// For a space that CPUs may be running in.
    pub fn new(mm: &'a Mm<M>, asid: Asid) -> Self {
        Gather {
            mm,
            asid,
            live: true,
            start: VirtAddr(u64::MAX),
            end: VirtAddr(0),
            tables: false,
            frames: ArrayVec::new(),
        }
    }
    /// For a space that no CPU has loaded and whose translations are flushed before its tag is used again.
    pub(crate) fn dead(mm: &'a Mm<M>) -> Self {
        let mut gather = Gather::new(mm, Asid(0));
        gather.live = false;
        gather
    }

    /// Notes that the live entry for `va` was changed.
    #[inline]
    pub fn changed(&mut self, va: VirtAddr) {
        self.start = self.start.min(va);
        self.end = self.end.max(va + PAGE_SIZE);
    }
    /// Takes over the reference of an entry that was removed.
    #[inline]
    pub fn removed(&mut self, va: VirtAddr, removed: Removed) {
        self.changed(va);
        if removed.pfn != self.mm.zero_page() {
            self.push(removed.pfn);
        }
    }
    /// Takes over a page table that has been unhooked; `va` is an address it translated, `level` its own.
    pub(crate) fn table(&mut self, va: VirtAddr, level: Level, table: Pfn) {
        // The range must cover what the table covered: a walker's cached pointer to it is keyed by any address in there.
        let start = va.align_down(level.bytes() << 9);
        self.start = self.start.min(start);
        self.end = self.end.max(start + (level.bytes() << 9));
        self.tables = true;
        self.push(table);
    }
    fn push(&mut self, pfn: Pfn) {
        if self.frames.is_full() {
            self.flush();
        }
        self.frames.push(pfn);
    }

    /// Flushes, then frees. The gather is empty afterwards and may be used on.
    pub fn flush(&mut self) {
        if self.live && self.start < self.end {
            self.mm.count(Event::FlushRange, 1);
            let range = VirtRange::new(self.start, self.end);
            self.mm
                .machine()
                .tlb()
                .flush_range(self.asid, range, Level::Pte, self.tables);
        }
        (self.start, self.end, self.tables) = (VirtAddr(u64::MAX), VirtAddr(0), false);
        let frames = self.mm.frames();
        self.frames.retain(|pfn| {
            let meta = frames.get(*pfn);
            if meta.kind() == Kind::Table {
                self.mm.count(Event::TableFree, 1);
            }
            meta.put_ref()
        });
        if !self.frames.is_empty() {
            self.mm.free(&self.frames);
            self.frames.clear();
        }
    }

    /// Flushes, then frees.
    pub fn finish(mut self) {
        self.flush();
    }
}

impl<M: Machine> Drop for Gather<'_, M> {
    fn drop(&mut self) {
        let owed = !self.frames.is_empty() || self.live && self.start < self.end;
        debug_assert!(
            !owed || sync::panicking(),
            "a flush of {:?}..{:?} was forgotten",
            self.start,
            self.end
        );
    }
}
