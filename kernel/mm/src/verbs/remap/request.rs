//! Arguments of mremap(2).

use crate::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::space::{Error, Result, user_pages};
use crate::vma::Vma;

bitflags::bitflags! {
    /// MREMAP_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RemapFlags: u32 {
        /// MREMAP_MAYMOVE: it may move.
        const MAYMOVE = 1;
        /// MREMAP_FIXED: it moves to the given address and replaces what is mapped there.
        const FIXED = 2;
        /// MREMAP_DONTUNMAP: the pages move, the mapping also stays.
        const DONTUNMAP = 4;
    }
}

/// One mremap with checked arguments, in whole pages.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub start: VirtAddr,
    pub old_len: u64,
    /// Not 0.
    pub new_len: u64,
    pub flags: RemapFlags,
    /// Fixed target address.
    pub to: Option<VirtAddr>,
    /// Hint for the target address.
    pub near: Option<VirtAddr>,
}

impl Request {
    #[inline]
    pub fn new<M: Machine>(
        start: VirtAddr,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
        to: VirtAddr,
    ) -> Result<Self> {
        // Lengths wrap, as in Linux.
        let whole = |len: u64| len.wrapping_add(PAGE_SIZE - 1) & !(PAGE_SIZE - 1);
        let (old_len, new_len) = (whole(old_len), whole(new_len));
        let fixed = flags.contains(RemapFlags::FIXED);
        let keeps = flags.contains(RemapFlags::DONTUNMAP);
        if !start.is_aligned(PAGE_SIZE)
            || new_len == 0
            || new_len > M::Pte::USER_END.0
            || (fixed || keeps) && !flags.contains(RemapFlags::MAYMOVE)
            || keeps && old_len != new_len
        {
            return Err(Error::Inval);
        }
        if fixed || keeps {
            // The target is user memory and does not overlap the old range.
            let old = VirtRange::new(start, VirtAddr(start.0.saturating_add(old_len)));
            let target = user_pages::<M>(to, new_len).filter(|_| to.is_aligned(PAGE_SIZE));
            if target.is_none_or(|target| target.overlaps(&old)) {
                return Err(Error::Inval);
            }
        }
        Ok(Request {
            start,
            old_len,
            new_len,
            flags,
            to: fixed.then_some(to),
            near: keeps.then_some(to),
        })
    }

    /// The request with its lengths in whole huge pages, if the VMA is of such. EINVAL: it begins,
    /// or its target, in one; it grows; or the old mapping is to stay.
    #[cold]
    pub fn in_huge_pages<M: Machine>(&self, vma: &Vma<M>) -> Result<Option<Self>> {
        let Some(size) = vma.huge_order().map(Order::bytes) else {
            return Ok(None);
        };
        // An old length near 2^64, which Linux takes for 0 then, is less than the new one.
        let whole = |len: u64| len.checked_next_multiple_of(size).ok_or(Error::Inval);
        let (old_len, new_len) = (whole(self.old_len)?, whole(self.new_len)?);
        let whole = |at: VirtAddr| at.is_aligned(size);
        if !whole(self.start) || !self.to.is_none_or(whole) || self.keeps() || new_len > old_len {
            return Err(Error::Inval);
        }
        Ok(Some(Request {
            old_len,
            new_len,
            ..*self
        }))
    }

    /// Whether the old mapping stays, empty.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.flags.contains(RemapFlags::DONTUNMAP)
    }

    /// Whether it stays in place if possible.
    #[inline]
    pub fn in_place(&self) -> bool {
        !self
            .flags
            .intersects(RemapFlags::FIXED | RemapFlags::DONTUNMAP)
    }

    /// The part of the old range that stays mapped; the new length is valid.
    #[inline]
    pub fn kept(&self) -> VirtRange {
        VirtRange::new(self.start, self.start + self.old_len.min(self.new_len))
    }
}
