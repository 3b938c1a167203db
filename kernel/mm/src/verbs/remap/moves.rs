//! Moves of mappings to another address.

use super::Gone;
use super::request::Request;
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::frame::zone::Reserve;
use crate::space::{AREAS, Areas, Error};
use crate::table::Budget;
use crate::vma::VmaFlags;

impl<M: Machine> Areas<'_, M> {
    /// Unmaps the target.
    pub(super) fn clear(&mut self, range: VirtRange, gone: &mut Gone<M>) -> Result<(), Error> {
        if self.vmas.is_clear(range) {
            return Ok(());
        }
        // Fast path: one private VMA, with nothing to drop after the lock.
        let Some(part) = self.vmas.only_private(range) else {
            gone.push(self.remove(range)?);
            return Ok(());
        };
        self.vmas.reserve_take(part, 0)?;
        // Fast path: no page was ever mapped there.
        if self.root().is_empty(part) {
            self.vmas.cut_out(part);
            return Ok(());
        }
        let mut gather = self.gather();
        let mut edit = self.table.edit(&mut gather);
        let split = edit.split_ends(part, Reserve::GivingBack);
        if split.is_ok() {
            let vma = self.vmas.cut_out(part);
            let vma = vma.expect("one VMA covers the part");
            let mut budget = Budget::step(self.mm());
            self.zap_whole(&vma, &mut gather, &mut budget);
        }
        gather.finish();
        Ok(split?)
    }

    /// Moves all mappings of the old range one by one (Linux 6.17); the target keeps what lies at
    /// the gaps. The first `moved` bytes are done. After an error the rest is unmoved from `moved`
    /// on.
    #[inline(never)]
    pub(super) fn move_all(
        &mut self,
        request: &Request,
        old: VirtRange,
        moved: &mut u64,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        let to = request.to.ok_or(Error::Inval)?;
        let mut left = old;
        left.start += *moved;
        let mut areas = 0;
        while let Some(slot) = self.vmas.from(left.start) {
            let vma = self.vmas.get(slot);
            let Some(part) = vma.range.intersection(&left) else {
                break;
            };
            // Its monitor would be told of one move where there are several.
            if vma.flags.intersects(VmaFlags::UFFD) {
                return Err(Error::Fault);
            }
            left.start = part.end;
            let start = to + (part.start - old.start);
            let piece = Request {
                start: part.start,
                old_len: part.len(),
                new_len: part.len(),
                flags: request.flags,
                to: Some(start),
                near: None,
            };
            self.check_source(&piece, slot)?;
            self.check_growth(&piece, slot)?;
            self.vmas.reserve(4)?;
            let new = VirtRange::new(start, start + part.len());
            self.check_seals(new)?;
            self.clear(new, gone)?;
            if self.has_paused() {
                self.vmas.reserve(4)?;
            }
            self.move_vma(part, new, request.keeps())?;
            *moved = left.start - old.start;
            areas += 1;
            if areas % AREAS == 0 || gone.is_full() {
                self.pause_to(|| gone.clear());
            }
        }
        Ok(to)
    }

    #[cold]
    #[inline(never)]
    fn is_huge(&self, at: VirtAddr) -> bool {
        let order = |slot| self.vmas.get(slot).huge_order();
        self.vmas.find(at).and_then(order).is_some()
    }

    /// Moves the pages of one mapping, and its VMA, for which room is reserved, to an unmapped
    /// range, which may be longer; with `keep` the old mapping stays, empty. An empty old range
    /// makes a second mapping of shared memory. Fails only for want of page tables, with no change.
    #[inline]
    pub(super) fn move_vma(
        &mut self,
        old: VirtRange,
        new: VirtRange,
        keep: bool,
    ) -> Result<(), Error> {
        if !old.is_empty() {
            let huge = self.refuses && self.is_huge(old.start);
            self.edit(|edit| edit.move_range(old, new.start, huge))?;
        }
        let left_monitor = match old.is_empty() || keep {
            true => self.vmas.duplicate(old.start, new),
            false => self.vmas.relocate(old, new),
        };
        if left_monitor && !old.is_empty() {
            self.end_moved_protection(VirtRange::new(new.start, new.start + old.len()));
        }
        if keep {
            // The old range stays mapped and empty; its VMA is unlocked whole, and without pages it
            // has no anon_vma.
            self.vmas.change(old.start, |v| {
                v.flags -= VmaFlags::LOCKED | VmaFlags::LOCKONFAULT;
                v.anon_vma = v.anon_vma.filter(|_| v.range != old);
                v.has_anon = v.anon_vma.is_some();
            });
        }
        self.note_total();
        Ok(())
    }
}
