//! Moves of mappings to another address.

use super::request::Request;
use super::{Gone, Moved};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::frame::zone::Reserve;
use crate::manager::Result;
use crate::space::{AREAS, Areas, Error};
use crate::table::Budget;
use crate::vma::VmaFlags;

impl<M: Machine> Areas<'_, M> {
    /// Unmaps the tail of the old range past the new length, if there is one.
    #[inline]
    pub(super) fn clear_tail(
        &mut self,
        request: &Request,
        old: VirtRange,
        gone: &mut Gone<M>,
    ) -> Result<(), Error> {
        let tail = VirtRange::new(request.kept().end, old.end);
        if !tail.is_empty() {
            self.check_seals(tail)?;
            self.clear(tail, gone)?;
        }
        Ok(())
    }
    /// Unmaps the target, or that tail.
    #[inline(never)]
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
        moved: &mut Moved,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        let to = request.to.ok_or(Error::Inval)?;
        let mut left = old;
        left.start += moved.bytes;
        let mut areas = 0;
        while let Some(slot) = self.vmas.from(left.start) {
            let vma = self.vmas.get(slot);
            let Some(part) = vma.range.intersection(&left) else {
                break;
            };
            // Its monitor would be told of one move where there are several.
            if vma.flags.has_monitor() {
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
                self.reserve_again()?;
            }
            self.move_vma(part, new, request.keeps())?;
            moved.bytes = left.start - old.start;
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

    /// [`Self::move_vma`], in steps where its pages move one by one: what has moved is mapped at
    /// its new place, and the claim keeps others waiting for the rest.
    #[inline(always)]
    pub(super) fn move_one(
        &mut self,
        old: VirtRange,
        new: VirtRange,
        keep: bool,
        moved: &mut Moved,
    ) -> Result<(), Error> {
        match old.len() > self.step() && self.moves_pages(old.start, new.start) {
            true => self.move_in_steps(old, new, keep, moved),
            false => self.move_vma(old, new, keep),
        }
    }
    /// Bytes whose pages one step moves one by one. A page takes some ten instructions, and what
    /// comes with a step some 3,000.
    fn step(&self) -> u64 {
        8 * u64::from(self.mm().machine().step()) * PAGE_SIZE
    }
    /// The end of the first step, which moves what is not there for nothing; `None`: there is one
    /// step only.
    fn end_of_step(&self, range: VirtRange) -> Option<VirtAddr> {
        let used = self.root().first_used(range)?.max(range.start);
        (range.end - used > self.step()).then(|| used + self.step())
    }
    /// Whether a move is by pages, of an area that may be cut meanwhile.
    #[inline]
    fn moves_pages(&self, from: VirtAddr, to: VirtAddr) -> bool {
        let alike = (from.0 ^ to.0).is_multiple_of(Level::Pmd.bytes());
        let tables = self.mm().switches().move_level() > Level::Pte;
        !(alike && tables) && self.may_be_cut(from)
    }
    #[cold]
    #[inline(never)]
    fn may_be_cut(&self, at: VirtAddr) -> bool {
        let vma = self.vmas.at(at);
        vma.is_some_and(|vma| !vma.flags.is_moved_whole())
    }
    /// Makes room after a pause, as before the move.
    #[cold]
    #[inline(never)]
    pub(super) fn reserve_again(&mut self) -> Result {
        self.vmas.reserve(4)
    }
    #[cold]
    #[inline(never)]
    fn move_in_steps(
        &mut self,
        old: VirtRange,
        new: VirtRange,
        keep: bool,
        moved: &mut Moved,
    ) -> Result<(), Error> {
        let (mut from, mut to) = (old, new);
        while let Some(end) = self.end_of_step(from) {
            let len = end - from.start;
            let first = |range: VirtRange| VirtRange::new(range.start, range.start + len);
            self.move_part(first(from), first(to), keep)?;
            moved.to = moved.to.or(Some(new.start));
            moved.bytes += len;
            (from.start, to.start) = (end, first(to).end);
            self.pause();
            self.reserve_again()?;
        }
        self.move_part(from, to, keep)?;
        if keep {
            self.keep_empty(old);
        }
        Ok(())
    }

    /// Moves what an earlier attempt has left of one mapping. EFAULT: others have changed it since,
    /// or its place.
    #[cold]
    #[inline(never)]
    pub(super) fn move_rest(
        &mut self,
        request: &Request,
        to: VirtAddr,
        moved: &mut Moved,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        let mut old = request.kept();
        old.start += moved.bytes;
        let new = VirtRange::new(to + moved.bytes, to + request.new_len);
        let slot = self.vmas.find(old.start).ok_or(Error::Fault)?;
        if old.end > self.vmas.get(slot).range.end {
            return Err(Error::Fault);
        }
        self.check_source(request, slot)?;
        self.reserve_again()?;
        if request.to.is_some() {
            self.check_seals(new)?;
            self.clear(new, gone)?;
        } else if !self.vmas.is_clear(new) {
            return Err(Error::Fault);
        }
        if self.has_paused() {
            self.reserve_again()?;
        }
        self.move_one(old, new, request.keeps(), moved)?;
        Ok(to)
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
        self.move_part(old, new, keep)?;
        if keep {
            self.keep_empty(old);
        }
        Ok(())
    }
    /// Moves a part, and its VMA. In line: twice on the way of each move, and of a cold one.
    #[inline(always)]
    fn move_part(&mut self, old: VirtRange, new: VirtRange, keep: bool) -> Result<(), Error> {
        if !old.is_empty() {
            let huge = self.has_restricted_vmas && self.is_huge(old.start);
            self.edit(|edit| edit.move_range(old, new.start, huge))?;
        }
        let left_monitor = match old.is_empty() || keep {
            true => self.vmas.duplicate(old.start, new),
            false => self.vmas.relocate(old, new),
        };
        if left_monitor && !old.is_empty() {
            self.end_moved_protection(VirtRange::new(new.start, new.start + old.len()));
        }
        self.note_total();
        Ok(())
    }
    #[cold]
    #[inline(never)]
    fn has_pages(&self, range: VirtRange) -> bool {
        self.root().first_used(range).is_some()
    }
    /// The old range stays mapped and empty, but for what was faulted in during a pause; its VMA is
    /// unlocked whole, and without pages it has no anon_vma.
    #[inline]
    fn keep_empty(&mut self, old: VirtRange) {
        let has_pages = self.has_paused() && self.has_pages(old);
        self.vmas.change(old.start, |v| {
            v.flags -= VmaFlags::LOCKS;
            v.anon_vma = v.anon_vma.filter(|_| v.range != old || has_pages);
            v.has_anon = v.anon_vma.is_some();
        });
    }
}
