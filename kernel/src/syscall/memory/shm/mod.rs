//! Shared memory of System V: shmget(2), shmat(2), shmdt(2); and [`shmctl`]. One user, root, may
//! do all: access modes are kept and shown.

mod control;

pub use control::shmctl;

use super::{Span, aligned, in_space, userfault};
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::fs::kinds::hugefile;
use crate::process::shm::{self, New};
use crate::process::task::Task;
use linux_raw_sys::general as abi;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::vma::{Prot, VmaFlags};
use mm::{MapRequest, Place};

bitflags::bitflags! {
    /// Flags of shmget(2): IPC_* and SHM_*, and the access mode.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct GetFlags: u32 {
        /// The access mode.
        const MODE = 0o777;
        /// IPC_CREAT: a new segment unless there is one.
        const CREAT = 0o1000;
        /// IPC_EXCL: with IPC_CREAT, EEXIST if there is one.
        const EXCL = 0o2000;
        /// SHM_HUGETLB: of huge pages.
        const HUGETLB = 0o4000;
        /// SHM_NORESERVE: not charged to the commit limit.
        const NORESERVE = 0o10000;
        /// Their size, with SHM_HUGETLB: see [`hugefile::size_of`].
        const HUGE_SIZE = abi::MAP_HUGE_MASK << abi::MAP_HUGE_SHIFT;
    }

    /// Flags of shmat(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AttachFlags: u32 {
        /// SHM_RDONLY: to be read only.
        const RDONLY = 0o10000;
        /// SHM_RND: the address is rounded down.
        const RND = 0o20000;
        /// SHM_REMAP: in the place of what is mapped there.
        const REMAP = 0o40000;
        /// SHM_EXEC: to be executed, too.
        const EXEC = 0o100000;
    }
}

crate::syscall::door::flag_arguments!(GetFlags: ignored, AttachFlags: ignored);

/// shmget(2). EINVAL: there are no huge pages of that size.
pub fn shmget(task: &Task, key: i32, size: u64, flags: GetFlags) -> Result<u64> {
    let huge = flags.contains(GetFlags::HUGETLB);
    let huge = huge.then(|| hugefile::size_of(flags.bits()).ok_or(Errno::EINVAL));
    let new = New {
        key,
        size,
        mode: (flags & GetFlags::MODE).bits(),
        huge: huge.transpose()?,
        no_reserve: flags.contains(GetFlags::NORESERVE),
    };
    let create = key == shm::PRIVATE || flags.contains(GetFlags::CREAT);
    let exclusive = flags.contains(GetFlags::EXCL);
    shm::get(&new, create, exclusive, task.process()).map(|id| id as u64)
}

/// Where a segment is to be attached. EINVAL: an address that is not aligned; none, with SHM_REMAP.
fn place(at: VirtAddr, flags: AttachFlags) -> Result<Place> {
    let at = match flags.contains(AttachFlags::RND) {
        true => at.align_down(PAGE_SIZE),
        false => aligned(at)?,
    };
    match (at.0, flags.contains(AttachFlags::REMAP)) {
        (0, true) => Err(Errno::EINVAL),
        (0, false) => Ok(Place::Hint(at)),
        (_, true) => Ok(Place::Fixed(at)),
        (_, false) => Ok(Place::FixedNoReplace(at)),
    }
}

/// shmat(2).
pub fn shmat(task: &Task, id: i32, at: VirtAddr, flags: AttachFlags) -> Result<u64> {
    let place = place(at, flags)?;
    let segment = shm::by_id(id)?;
    room::check(Errno::ENOMEM)?;
    let read_only = flags.contains(AttachFlags::RDONLY);
    let (mut prot, mut vma_flags) = (Prot::READ, segment.vma_flags());
    prot.set(Prot::WRITE, !read_only);
    prot.set(Prot::EXEC, flags.contains(AttachFlags::EXEC));
    vma_flags.set(VmaFlags::NO_MAYWRITE, read_only);
    let request = MapRequest {
        place,
        len: segment.len(),
        prot,
        flags: vma_flags,
        backing: segment.backing(),
        populate: false,
    };
    let map = || Ok(in_space(task, |space| space.map(request))?);
    let start = match place {
        Place::Fixed(start) if userfault::are_told() => {
            userfault::unmapping(task, start, segment.len(), map)
        }
        _ => map(),
    };
    let start = start.map_err(|why| match why {
        Errno::EEXIST => Errno::EINVAL,
        other => other,
    })?;
    segment.note_attach(task.process().pid());
    Ok(start.0)
}

/// shmdt(2): detaches what is left there of an attachment.
pub fn shmdt(task: &Task, at: VirtAddr) -> Result<u64> {
    let at = aligned(at)?;
    let mut part = Some(in_space(task, |space| shm::first_part(space, at))?);
    while let Some(vma) = part {
        let (start, len) = (vma.range.start, vma.range.len());
        super::munmap(task, Span { start, len })?;
        if let Some((segment, _)) = shm::segment_of(&vma) {
            segment.note_detach(task.process().pid());
        }
        part = in_space(task, |space| shm::next_part(space, &vma));
    }
    Ok(0)
}
