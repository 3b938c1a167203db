//! Changes by which entries gain rights and nothing else: no other CPU is interrupted.

use super::Gather;
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine, Tlb};
use crate::manager::{Mm, SpaceId};
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use core::mem;

impl<'a, M: Machine> Gather<'a, M> {
    /// For a space that may be loaded on a CPU, and changes that are [`Self::grants_only`].
    #[inline(always)]
    pub fn granting(mm: &'a Mm<M>, id: &'a SpaceId) -> Self {
        let mut gather = Gather::new(mm, id);
        gather.grants_only();
        gather
    }
    /// From here on entries gain rights and nothing else, but for what is broken
    /// ([`Self::break_range`]): no CPU is interrupted, since one that has an entry from before
    /// faults once more and finds it mended.
    #[inline(always)]
    pub fn grants_only(&mut self) {
        debug_assert!(self.start >= self.end && self.frames.is_empty());
        self.grants_only = !mutant::on(Mutant::NoFlush);
    }
    /// Records that live PTEs in `len` bytes from `va` on are absent for a moment, and flushes them
    /// on all CPUs, with all that is owed: break-before-make.
    pub fn break_range(&mut self, va: VirtAddr, len: u64) {
        let grants_only = mem::replace(&mut self.grants_only, false);
        self.changed_range(va, len, Level::Pte);
        self.flush();
        self.grants_only = grants_only;
    }

    /// Ends spurious faults of this CPU.
    #[inline(never)]
    pub(super) fn flush_widened(&mut self) {
        debug_assert!(self.frames.is_empty(), "only rights come");
        let range = VirtRange::new(self.start, self.end);
        let tlb = self.mm.machine().tlb();
        let flushed = tlb.widened(self.id.asid, range, self.stride);
        self.mm.count(Event::FlushRange, flushed.into());
        (self.start, self.end) = (VirtAddr(u64::MAX), VirtAddr(0));
    }
}
