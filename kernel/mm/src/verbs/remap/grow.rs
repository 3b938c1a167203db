//! Growth in place, and the limits on growth.

use super::request::Request;
use crate::addr::{PAGE_SIZE, VirtRange};
use crate::arch::Machine;
use crate::space::{Error, Locked, Result, user_pages};
use crate::vma::Slot;

impl<M: Machine> Locked<'_, M> {
    /// Grows in place, if the range ends its VMA and nothing follows. As in Linux, a stack above
    /// keeps no gap.
    #[inline(never)]
    pub(super) fn grow_in_place(&mut self, request: &Request, slot: Slot) -> Result<bool> {
        let (end, vma) = (request.kept().end, self.vmas.get(slot));
        let Some(grown) = user_pages::<M>(request.start, request.new_len) else {
            return Ok(false);
        };
        if request.old_len == 0
            || end != vma.range.end
            || !self.vmas.is_clear(VirtRange::new(end, grown.end))
        {
            return Ok(false);
        }
        self.check_growth(request, slot)?;
        self.vmas.reserve(1)?;
        let mut tail = self.vmas.get(slot).clone();
        tail.range.end = grown.end;
        tail.flags.count_as_written();
        // The tail continues the VMA's object, so the tree merges the two.
        tail.cut_below(end);
        self.vmas.insert(tail);
        self.note_total();
        Ok(true)
    }

    /// Checks the pages that the request adds to the VMA in `slot` against limits and memory.
    #[inline]
    pub(super) fn check_growth(&self, request: &Request, slot: Slot) -> Result {
        let longer = request.new_len.saturating_sub(request.old_len) / PAGE_SIZE;
        let more = match request.keeps() {
            true => request.new_len / PAGE_SIZE,
            false => longer,
        };
        if more == 0 {
            return Ok(());
        }
        let vma = self.vmas.get(slot);
        // A kept range without pages is not locked.
        if vma.flags.is_locked() && !self.may_lock(longer) {
            return Err(Error::Again);
        }
        let target = request
            .to
            .and_then(|at| user_pages::<M>(at, request.new_len));
        let replaced = target.map_or(0, |range| self.vmas.pages_in(range));
        self.may_expand(more.saturating_sub(replaced), vma)?;
        self.may_commit(more, vma)
    }
}
