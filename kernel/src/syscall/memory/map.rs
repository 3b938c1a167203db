//! mmap(2).

use super::{Protection, Span, aligned, in_space, pages_up, userfault};
use crate::base::errno::{Errno, Result};
use crate::base::machine::{Hw, Object, mm};
use crate::base::room;
use crate::fs::kinds::hugefile;
use crate::fs::{Fd, OpenFile};
use crate::process::task::Task;
use crate::sched::kernel_lock;
use crate::syscall::files::usable;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use mm::addr::{PAGE_SIZE, Pfn, VirtAddr};
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place, Policy};

bitflags::bitflags! {
    /// MAP_*. Of unknown bits only MAP_SHARED_VALIDATE complains.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MapFlags: u32 {
        /// MAP_TYPE: MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE or MAP_DROPPABLE.
        const TYPE = abi::MAP_TYPE;
        /// MAP_FIXED: at this address, in the place of what is mapped there.
        const FIXED = abi::MAP_FIXED;
        /// MAP_ANONYMOUS: no file.
        const ANONYMOUS = abi::MAP_ANONYMOUS;
        /// MAP_GROWSDOWN: a stack.
        const GROWSDOWN = abi::MAP_GROWSDOWN;
        /// MAP_DENYWRITE, without effect.
        const DENYWRITE = abi::MAP_DENYWRITE;
        /// MAP_EXECUTABLE, without effect.
        const EXECUTABLE = abi::MAP_EXECUTABLE;
        /// MAP_LOCKED: as by mlock(2).
        const LOCKED = abi::MAP_LOCKED;
        /// MAP_NORESERVE: not charged to the commit limit, unless vm.overcommit_memory is 2.
        const NORESERVE = abi::MAP_NORESERVE;
        /// MAP_POPULATE: faulted in at once.
        const POPULATE = abi::MAP_POPULATE;
        /// MAP_NONBLOCK: takes MAP_POPULATE back.
        const NONBLOCK = abi::MAP_NONBLOCK;
        /// MAP_STACK: a stack, which gets no huge pages.
        const STACK = abi::MAP_STACK;
        /// MAP_HUGETLB: from a pool of huge pages; the upper bits may say of which size.
        const HUGETLB = abi::MAP_HUGETLB;
        /// MAP_FIXED_NOREPLACE: at this address, unless something is mapped there.
        const FIXED_NOREPLACE = abi::MAP_FIXED_NOREPLACE;
    }
}

crate::syscall::door::flag_arguments!(MapFlags: kept);

impl MapFlags {
    /// Whether the mapping is shared: EINVAL for a type that there is not, EOPNOTSUPP for unknown
    /// flags of MAP_SHARED_VALIDATE.
    fn is_shared(self) -> Result<bool> {
        match (self & Self::TYPE).bits() {
            abi::MAP_PRIVATE | abi::MAP_DROPPABLE => Ok(false),
            abi::MAP_SHARED => Ok(true),
            abi::MAP_SHARED_VALIDATE if Self::all().contains(self) => Ok(true),
            abi::MAP_SHARED_VALIDATE => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Whether it is MAP_DROPPABLE: memory that programs can do without. EINVAL with what would
    /// keep it.
    fn is_droppable(self, of_file: bool) -> Result<bool> {
        let kept = self.intersects(Self::LOCKED | Self::HUGETLB | Self::GROWSDOWN) || of_file;
        match (self & Self::TYPE).bits() {
            abi::MAP_DROPPABLE if kept => Err(Errno::EINVAL),
            kind => Ok(kind == abi::MAP_DROPPABLE),
        }
    }
}

/// mmap(2).
pub fn mmap(
    task: &Arc<Task>,
    span: Span,
    protection: Protection,
    flags: MapFlags,
    fd: Fd,
    offset: u64,
) -> Result<u64> {
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if flags.contains(MapFlags::ANONYMOUS) {
        return map(task, span, protection, flags, None, offset);
    }
    kernel_lock::with(|| {
        // As in Linux, a bad descriptor comes before everything else that may be wrong.
        let file = Some(usable(task, fd)?);
        map(task, span, protection, flags, file, offset)
    })
}

fn map(
    task: &Arc<Task>,
    Span { start, len }: Span,
    protection: Protection,
    flags: MapFlags,
    file: Option<Arc<OpenFile>>,
    offset: u64,
) -> Result<u64> {
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = pages_up(len)?;
    room::check(Errno::ENOMEM)?;
    if offset
        .checked_add(len)
        .is_none_or(|end| end > i64::MAX as u64)
    {
        return Err(Errno::EOVERFLOW);
    }
    let shared = flags.is_shared()?;
    let droppable = flags.is_droppable(file.is_some())?;
    if flags.contains(MapFlags::GROWSDOWN) && (shared || file.is_some()) {
        return Err(Errno::EINVAL);
    }
    let (place, prot) = (place(start, flags)?, protection.rights());
    // Where nothing may be promised too much, nothing is exempt.
    let never = mm().overcommit().policy() == Policy::Never;
    let no_reserve = flags.contains(MapFlags::NORESERVE) && !never;
    let (backing, mut vma_flags) = match file {
        None if flags.contains(MapFlags::HUGETLB) => {
            let order = hugefile::size_of(flags.bits()).ok_or(Errno::EINVAL)?;
            let backing = hugefile::zeros(order, shared, len, root(task));
            (backing, VmaFlags::HUGETLB)
        }
        None => (anonymous(shared, len, no_reserve)?, VmaFlags::empty()),
        Some(file) => {
            let writable = prot.contains(Prot::WRITE);
            let mapping = file.mmap(shared, writable, offset)?;
            if mapping.backing.huge_order().is_some() {
                let backing = hugefile::mapping(mapping.backing, shared, len, root(task))?;
                (backing, mapping.flags | VmaFlags::HUGETLB)
            } else if flags.contains(MapFlags::HUGETLB) {
                return Err(Errno::EINVAL);
            } else {
                (mapping.backing, mapping.flags)
            }
        }
    };
    vma_flags.set(VmaFlags::SHARED, shared);
    vma_flags.set(VmaFlags::GROWSDOWN, flags.contains(MapFlags::GROWSDOWN));
    vma_flags.set(VmaFlags::NORESERVE, no_reserve);
    // A stack is touched at one end (Linux 6.7).
    vma_flags.set(VmaFlags::NOHUGEPAGE, flags.contains(MapFlags::STACK));
    // Huge pages stay anyway.
    let locks = flags.contains(MapFlags::LOCKED) && !vma_flags.contains(VmaFlags::HUGETLB);
    vma_flags.set(VmaFlags::LOCKED, locks);
    if droppable {
        // It is not for children, nor for core files.
        vma_flags |=
            VmaFlags::DROPPABLE | VmaFlags::NORESERVE | VmaFlags::WIPEONFORK | VmaFlags::DONTDUMP;
    }
    let populate = flags.contains(MapFlags::LOCKED)
        || (flags.contains(MapFlags::POPULATE) && !flags.contains(MapFlags::NONBLOCK));
    let request = MapRequest {
        place,
        len,
        prot,
        flags: vma_flags,
        backing,
        populate,
    };
    let replaces = flags.contains(MapFlags::FIXED) && userfault::are_told();
    let map = || Ok(in_space(task, |space| space.map(request))?);
    let at = match replaces {
        true => userfault::unmapping(task, start, len, map),
        false => map(),
    };
    Ok(at?.0)
}

fn place(addr: VirtAddr, flags: MapFlags) -> Result<Place> {
    if flags.contains(MapFlags::FIXED_NOREPLACE) {
        Ok(Place::FixedNoReplace(aligned(addr)?))
    } else if flags.contains(MapFlags::FIXED) {
        Ok(Place::Fixed(aligned(addr)?))
    } else {
        Ok(Place::Hint(addr.align_down(PAGE_SIZE)))
    }
}

/// Frame of the root table of the caller's space.
fn root(task: &Task) -> Pfn {
    in_space(task, |space| space.root())
}

/// Zeros: private, or shared with children through an object.
fn anonymous(shared: bool, len: u64, no_reserve: bool) -> Result<Backing<Hw>> {
    if !shared {
        return Ok(Backing::Anon);
    }
    let object = match no_reserve {
        true => Object::new(mm()),
        false => Object::promised(mm(), len)?,
    };
    object.set_len(len);
    Ok(Backing::Object {
        object: object.into(),
        offset: 0,
        file: None,
    })
}
