//! Segments in address spaces: what VMAs have of them, and who is told of it.

use super::{Segment, is_used};
use crate::base::errno::{Errno, Result};
use crate::base::machine::{AddressSpace, Hw, Vma};
use crate::sched::{self, kernel_lock};
use alloc::sync::Arc;
use core::any::Any;
use mm::addr::{PAGE_SHIFT, VirtAddr};
use mm::vma::{Backing, VmaFlags};

impl Segment {
    /// All of it, for a VMA.
    pub fn backing(self: &Arc<Self>) -> Backing<Hw> {
        Backing::Object {
            object: self.object.clone().into(),
            offset: 0,
            file: Some(self.clone()),
        }
    }

    /// Flags of a VMA of it.
    pub fn vma_flags(&self) -> VmaFlags {
        let huge = self.object.huge_order().is_some();
        let mut flags = VmaFlags::SHARED;
        flags.set(VmaFlags::HUGETLB, huge);
        flags.set(VmaFlags::NORESERVE, huge && self.no_reserve);
        flags
    }
}

/// The segment that a VMA maps, and where in the address space it begins or would begin.
pub fn segment_of(vma: &Vma) -> Option<(&Segment, VirtAddr)> {
    let Backing::Object { file, offset, .. } = &vma.backing else {
        return None;
    };
    let file: &dyn Any = &**file.as_ref()?;
    let start = vma.range.start.0.wrapping_sub(offset << PAGE_SHIFT);
    Some((file.downcast_ref()?, VirtAddr(start)))
}

/// The first VMA that is left of what was attached at `at`: others may have gone by munmap(2).
/// EINVAL: there is none.
pub fn first_part(space: &AddressSpace, at: VirtAddr) -> Result<Vma> {
    let mut from = at;
    while let Some(vma) = space.vma_from(from) {
        if segment_of(&vma).is_some_and(|(_, start)| start == at) {
            return Ok(vma);
        }
        from = vma.range.end;
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Err(Errno::EINVAL)
}

/// The next VMA after `part` of the same attachment.
pub fn next_part(space: &AddressSpace, part: &Vma) -> Option<Vma> {
    let (segment, at) = segment_of(part)?;
    let end = at.0.checked_add(segment.len())?;
    let mut from = part.range.end;
    while from.0 < end
        && let Some(vma) = space.vma_from(from)
    {
        let same = |(other, start): (&Segment, _)| core::ptr::eq(segment, other) && start == at;
        if segment_of(&vma).is_some_and(same) {
            return Some(vma);
        }
        from = vma.range.end;
        if sched::breathe() {
            break;
        }
    }
    None
}

/// Calls `f` with the segment of each VMA that has one, and the process that runs.
#[cold]
fn for_each(space: &AddressSpace, f: impl Fn(&Segment, i32)) {
    let pid = sched::current().map_or(0, |task| task.process().pid());
    let mut from = VirtAddr(0);
    while let Some(vma) = space.vma_from(from) {
        if let Some((segment, _)) = segment_of(&vma) {
            f(segment, pid);
        }
        from = vma.range.end;
        // What was begun is done, also by a thread that is to end.
        sched::breathe();
    }
}

/// A child has what its parent has attached.
#[inline]
pub fn inherited(child: &AddressSpace) {
    if is_used() {
        for_each(child, Segment::note_attach);
    }
}

/// An address space ends, by exit(2) or execve(2).
#[inline]
pub fn ended(space: &AddressSpace) {
    if is_used() {
        kernel_lock::with(|| for_each(space, Segment::note_detach));
    }
}
