//! Lab 8: what is gathered, flushed and freed by the student's code. Each step is checked before it
//! is done; a wrong one panics, in words that a student can go on with.

use super::{Gather, Gone};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Cpu, Level, Machine, PteFormat, Tlb};
use crate::manager::Mm;
use crate::stat::Event;
use crate::switch::Lab;
use core::ops::Range;
use labs::gather::referee::{self, Kept, Owed};
use labs::gather::{Batch, Memory, Solution};

const LAB: Lab = Lab::named("gather");

/// Of a gather that is the student's.
#[derive(Default)]
pub(super) struct Student {
    /// Whether it is: the switch may be turned meanwhile.
    on: bool,
    owed: Owed,
    /// What the student is to keep.
    gone: Option<Gone>,
}

impl Student {
    pub fn of<M: Machine>(mm: &Mm<M>) -> Student {
        Student {
            on: mm.switches().lab(LAB),
            ..Student::default()
        }
    }
}

impl<M: Machine> Gather<'_, M> {
    /// Whether it is the student's: only a space that CPUs may use owes flushes, and not for rights
    /// that are granted.
    pub(super) fn in_lab(&self) -> bool {
        self.student.on && self.live && !self.grants_only
    }
    /// [`Gather::changed_range`].
    #[inline(never)]
    pub(super) fn changed_in_lab(&mut self, va: VirtAddr, len: u64, level: Level) {
        self.stride = self.stride.min(level);
        let pages = va.0 / PAGE_SIZE..(va.0 + len).div_ceil(PAGE_SIZE);
        referee::gather(&Solution, self, pages, None);
    }
    /// [`Gather::hold`].
    #[inline(never)]
    pub(super) fn hold_in_lab(&mut self, gone: Gone) {
        self.student.gone = Some(gone);
        referee::gather(&Solution, self, 0..0, Some(Memory(gone.pfn.0)));
    }
    /// [`Gather::flush`], if anything is owed.
    #[inline(never)]
    pub(super) fn finish_in_lab(&mut self) {
        if !self.student.owed.is_empty() || !self.frames.is_empty() {
            referee::finish(&Solution, self);
        }
        (self.stride, self.tables) = (Level::Pud, false);
        self.shared_entry = false;
    }
}

impl<M: Machine> Kept for Gather<'_, M> {
    fn account(&mut self) -> &mut Owed {
        &mut self.student.owed
    }
}

impl<M: Machine> Batch for Gather<'_, M> {
    fn owed(&self) -> Range<u64> {
        self.student.owed.noted()
    }
    fn owe(&mut self, pages: Range<u64>) {
        self.student.owed.note(pages);
    }
    fn kept(&self) -> usize {
        self.frames.len()
    }
    fn keep(&mut self, _: Memory) {
        self.frames.extend(self.student.gone.take());
    }
    fn free(&mut self) {
        (self.stride, self.tables) = (Level::Pud, false);
        self.release();
    }
    /// All CPUs: which of them have the space loaded is the machine's business.
    fn running(&self) -> u64 {
        let cpus = self.mm.machine().cpu().count() as u32;
        u64::MAX >> (u64::BITS - cpus)
    }
    fn ran(&self) -> u64 {
        self.running()
    }
    fn flush(&mut self, _: u64, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        self.mm.count(Event::FlushRange, 1);
        let [start, end] = [pages.start, pages.end].map(|page| VirtAddr(page * PAGE_SIZE));
        let (range, tlb) = (VirtRange::new(start, end), self.mm.machine().tlb());
        tlb.flush_range(self.id.asid, range, self.stride, self.tables);
    }
    fn flush_all(&mut self, _: u64) {
        self.mm.count(Event::FlushSpace, 1);
        let all = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        let tlb = self.mm.machine().tlb();
        // Not `flush_asid`: tag 0 is of other spaces, too.
        tlb.flush_range(self.id.asid, all, Level::Pte, true);
    }
}
