//! Page advice beside the faults of other threads: as a reader of the space's lock.

use crate::addr::VirtRange;
use crate::arch::Machine;
use crate::space::{AREA, AddressSpace, Error, Reading, Result};
use crate::table::{Budget, ReadLocked, Zap};

impl<M: Machine> AddressSpace<M> {
    /// Drops the pages at the start of `rest` and takes them from it, up to what needs the lock as
    /// a writer. Error: the thread is to end.
    pub(super) fn drop_read_locked(&self, rest: &mut VirtRange) -> Result {
        while let Some(reading) = self.read_shared() {
            let mut budget = Budget::step(&self.mm);
            reading.drop_some(rest, &mut budget);
            drop(reading);
            if !budget.is_spent() {
                break;
            }
            if self.mm.machine().breathe() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }
}

impl<M: Machine> Reading<'_, M> {
    /// One step of [`AddressSpace::drop_read_locked`].
    fn drop_some(&self, rest: &mut VirtRange, budget: &mut Budget) {
        let tables = ReadLocked::new(&self.space.mm, &self.space.id, &self.table);
        while !rest.is_empty()
            && let Some(vma) = self.find(rest.start)
            && vma.changes_only_entries()
            && vma.flags.may_discard()
        {
            let part = VirtRange::new(rest.start, rest.end.min(vma.range.end));
            let mut zap = Zap {
                keep_guards: true,
                keep_tables: true,
                budget: *budget,
                ..Zap::default()
            };
            rest.start = tables.zap(part, &mut zap);
            self.sub_anon(zap.anon);
            self.sub_swapped(zap.swapped);
            *budget = zap.budget;
            if rest.start != part.end || !budget.take(AREA) {
                return;
            }
        }
    }
}
