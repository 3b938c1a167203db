//! What a caller of mremap asks for.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::space::{Error, user_pages};

bitflags::bitflags! {
    /// MREMAP_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RemapFlags: u32 {
        /// MREMAP_MAYMOVE: it may go elsewhere.
        const MAYMOVE = 1;
        /// MREMAP_FIXED: it goes to the address given, in the place of what is mapped there.
        const FIXED = 2;
        /// MREMAP_DONTUNMAP: the pages go, the mapping also stays.
        const DONTUNMAP = 4;
    }
}

/// One mremap, checked as far as the arguments tell, and in whole pages.
pub(super) struct Request {
    pub start: VirtAddr,
    pub old_len: u64,
    /// Not 0.
    pub new_len: u64,
    pub flags: RemapFlags,
    /// Where it must go.
    pub to: Option<VirtAddr>,
    /// Where it would like to go.
    pub near: Option<VirtAddr>,
}

/// Pages that go from a part of one mapping, or of all of it, to where nothing is. Nothing goes
/// from an empty range: it is the second mapping of what is shared.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub old: VirtRange,
    /// As long, or longer.
    pub new: VirtRange,
    /// The old mapping stays, empty.
    pub keep: bool,
}

impl Request {
    #[inline]
    pub fn new<M: Machine>(
        start: VirtAddr,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
        to: VirtAddr,
    ) -> Result<Self, Error> {
        // Lengths wrap, as in Linux.
        let whole = |len: u64| len.wrapping_add(PAGE_SIZE - 1) & !(PAGE_SIZE - 1);
        let (old_len, new_len) = (whole(old_len), whole(new_len));
        let (fixed, keeps) = (
            flags.contains(RemapFlags::FIXED),
            flags.contains(RemapFlags::DONTUNMAP),
        );
        if !start.is_aligned(PAGE_SIZE)
            || new_len == 0
            || new_len > M::Pte::USER_END.0
            || (fixed || keeps) && !flags.contains(RemapFlags::MAYMOVE)
            || keeps && old_len != new_len
        {
            return Err(Error::Inval);
        }
        if fixed || keeps {
            check_target::<M>((start, old_len), (to, new_len))?;
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

    /// Whether it stays where it is, if it can.
    #[inline]
    pub fn in_place(&self) -> bool {
        !self
            .flags
            .intersects(RemapFlags::FIXED | RemapFlags::DONTUNMAP)
    }

    /// The part of the old range that is not unmapped. It was checked that the new length fits.
    #[inline]
    pub fn kept(&self) -> VirtRange {
        VirtRange {
            start: self.start,
            end: self.start + self.old_len.min(self.new_len),
        }
    }
}

/// Whether the target is user memory and does not overlap with the old range.
#[inline]
fn check_target<M: Machine>(old: (VirtAddr, u64), new: (VirtAddr, u64)) -> Result<(), Error> {
    let fits = new.0.is_aligned(PAGE_SIZE) && user_pages::<M>(new.0, new.1).is_some();
    let overlap =
        old.0.0 < new.0.0.saturating_add(new.1) && new.0.0 < old.0.0.saturating_add(old.1);
    if fits && !overlap {
        Ok(())
    } else {
        Err(Error::Inval)
    }
}
