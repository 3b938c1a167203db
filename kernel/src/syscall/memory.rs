//! mmap and its family: flags and arguments checked here as the man pages say, the work is the
//! memory manager's.

use super::with_room;
use crate::arch::pte::Format;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{AddressSpace, Hw, Object, mm};
use crate::base::room;
use crate::base::uaccess;
use crate::fs::Fd;
use crate::process::task::Task;
use crate::sched;
use crate::syscall::files::usable;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{Advice, MapRequest, Place, RemapFlags};

fn space(task: &Task) -> Arc<AddressSpace> {
    task.process()
        .space()
        .expect("a running thread has an address space")
}

/// Rounds up to whole pages; ENOMEM past the end of user space.
fn pages_up(len: u64) -> Result<u64> {
    match len.checked_next_multiple_of(PAGE_SIZE) {
        Some(len) if len <= Format::USER_END.0 => Ok(len),
        _ => Err(Errno::ENOMEM),
    }
}

fn aligned(address: u64) -> Result<VirtAddr> {
    if address.is_multiple_of(PAGE_SIZE) {
        Ok(VirtAddr(address))
    } else {
        Err(Errno::EINVAL)
    }
}

/// Bits that no machine here has (PROT_SEM, PROT_GROWSDOWN ...) are accepted where Linux accepts
/// them.
fn prot(bits: u64) -> Prot {
    Prot::from_bits_truncate(bits as u8)
}

/// mmap(2).
pub fn mmap(
    task: &Arc<Task>,
    addr: u64,
    len: u64,
    prot_bits: u64,
    flags: u64,
    fd: Fd,
    offset: u64,
) -> Result<u64> {
    let flags = flags as u32;
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    // As in Linux, a bad descriptor comes before everything else that may be wrong.
    let file = match flags & abi::MAP_ANONYMOUS {
        0 => Some(usable(task, fd)?),
        _ => None,
    };
    if len == 0 || (file.is_some() && flags & abi::MAP_HUGETLB != 0) {
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
    let shared = match flags & abi::MAP_TYPE {
        abi::MAP_PRIVATE => false,
        abi::MAP_SHARED => true,
        abi::MAP_SHARED_VALIDATE if flags & !KNOWN == 0 => true,
        abi::MAP_SHARED_VALIDATE => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::EINVAL),
    };
    if flags & abi::MAP_HUGETLB != 0 {
        // No pages are set aside for it.
        return Err(Errno::ENOMEM);
    }
    if flags & abi::MAP_GROWSDOWN != 0 && (shared || flags & abi::MAP_ANONYMOUS == 0) {
        return Err(Errno::EINVAL);
    }
    let (place, prot) = (place(addr, flags)?, prot(prot_bits));
    let (backing, mut vma_flags) = match file {
        None => (anonymous(shared, len)?, VmaFlags::empty()),
        Some(file) => {
            let mapping = file.mmap(shared, prot.contains(Prot::WRITE), offset)?;
            (mapping.backing, mapping.flags)
        }
    };
    vma_flags.set(VmaFlags::SHARED, shared);
    vma_flags.set(VmaFlags::GROWSDOWN, flags & abi::MAP_GROWSDOWN != 0);
    vma_flags.set(VmaFlags::NORESERVE, flags & abi::MAP_NORESERVE != 0);
    vma_flags.set(VmaFlags::LOCKED, flags & abi::MAP_LOCKED != 0);
    let populate = flags & abi::MAP_LOCKED != 0
        || flags & (abi::MAP_POPULATE | abi::MAP_NONBLOCK) == abi::MAP_POPULATE;
    let request = MapRequest {
        place,
        len,
        prot,
        flags: vma_flags,
        backing,
        populate,
    };
    Ok(space(task).map(request)?.0)
}

/// What MAP_SHARED_VALIDATE accepts.
const KNOWN: u32 = abi::MAP_TYPE
    | abi::MAP_FIXED
    | abi::MAP_ANONYMOUS
    | abi::MAP_GROWSDOWN
    | abi::MAP_DENYWRITE
    | abi::MAP_EXECUTABLE
    | abi::MAP_LOCKED
    | abi::MAP_NORESERVE
    | abi::MAP_POPULATE
    | abi::MAP_NONBLOCK
    | abi::MAP_STACK
    | abi::MAP_HUGETLB
    | abi::MAP_FIXED_NOREPLACE;

fn place(addr: u64, flags: u32) -> Result<Place> {
    if flags & abi::MAP_FIXED_NOREPLACE != 0 {
        Ok(Place::FixedNoReplace(aligned(addr)?))
    } else if flags & abi::MAP_FIXED != 0 {
        Ok(Place::Fixed(aligned(addr)?))
    } else {
        Ok(Place::Hint(VirtAddr(addr & !(PAGE_SIZE - 1))))
    }
}

/// Zeros: private, or shared with children through an object.
fn anonymous(shared: bool, len: u64) -> Result<Backing<Hw>> {
    if !shared {
        return Ok(Backing::Anon);
    }
    let object = Object::new(mm());
    object.set_len(len);
    Ok(Backing::Object {
        object,
        offset: 0,
        file: None,
    })
}

/// munmap(2).
pub fn munmap(task: &Task, addr: u64, len: u64) -> Result<u64> {
    let start = aligned(addr)?;
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = pages_up(len).map_err(|_| Errno::EINVAL)?;
    space(task).unmap(start, len)?;
    Ok(0)
}

/// mprotect(2).
pub fn mprotect(task: &Task, addr: u64, len: u64, prot_bits: u64) -> Result<u64> {
    const GROWS: u64 = (abi::PROT_GROWSDOWN | abi::PROT_GROWSUP) as u64;
    let start = aligned(addr)?;
    if prot_bits & GROWS != 0 || prot_bits & !0xf != 0 {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    room::check(Errno::ENOMEM)?;
    space(task).protect(start, pages_up(len)?, prot(prot_bits))?;
    Ok(0)
}

/// mremap(2).
pub fn mremap(
    task: &Arc<Task>,
    old: u64,
    old_len: u64,
    new_len: u64,
    flags: u64,
    new: u64,
) -> Result<u64> {
    let flags = u32::try_from(flags).ok().and_then(RemapFlags::from_bits);
    let flags = flags.ok_or(Errno::EINVAL)?;
    let (old, new) = (VirtAddr(old), VirtAddr(new));
    let mut moved = 0;
    with_room(task, || {
        if moved == 0 {
            room::check(Errno::ENOMEM)?;
        }
        let at = space(task).remap_on(old, old_len, new_len, flags, new, &mut moved)?;
        Ok(at.0)
    })
}

/// brk(2), as the kernel does it: the break after the call, whether it moved or not.
pub fn brk(task: &Task, wanted: u64) -> Result<u64> {
    Ok(space(task).brk(VirtAddr(wanted)).0)
}

/// madvise(2).
pub fn madvise(task: &Task, addr: u64, len: u64, advice: u64) -> Result<u64> {
    if advice as u32 == abi::MADV_DONTNEED {
        space(task).dont_need(VirtAddr(addr), len)?;
        return Ok(0);
    }
    let advice = advice_of(advice as u32).ok_or(Errno::EINVAL)?;
    let start = aligned(addr)?;
    match advice {
        Advice::Remove => space(task).advise_remove(start, len, |object, first, end| {
            crate::process::task::for_each_space(|space| {
                space.zap_object_range(object, first, end, true)
            });
        })?,
        _ => space(task).advise(start, len, advice)?,
    }
    Ok(0)
}

fn advice_of(number: u32) -> Option<Advice> {
    Some(match number {
        abi::MADV_NORMAL => Advice::Normal,
        abi::MADV_RANDOM => Advice::Random,
        abi::MADV_SEQUENTIAL => Advice::Sequential,
        abi::MADV_WILLNEED => Advice::WillNeed,
        abi::MADV_DONTNEED => Advice::DontNeed,
        abi::MADV_DONTNEED_LOCKED => Advice::DontNeedLocked,
        abi::MADV_FREE => Advice::Free,
        abi::MADV_REMOVE => Advice::Remove,
        abi::MADV_DONTFORK => Advice::DontFork,
        abi::MADV_DOFORK => Advice::DoFork,
        abi::MADV_MERGEABLE => Advice::Mergeable,
        abi::MADV_UNMERGEABLE => Advice::Unmergeable,
        abi::MADV_HUGEPAGE => Advice::HugePage,
        abi::MADV_NOHUGEPAGE => Advice::NoHugePage,
        abi::MADV_DONTDUMP => Advice::DontDump,
        abi::MADV_DODUMP => Advice::DoDump,
        abi::MADV_WIPEONFORK => Advice::WipeOnFork,
        abi::MADV_KEEPONFORK => Advice::KeepOnFork,
        abi::MADV_COLD => Advice::Cold,
        abi::MADV_PAGEOUT => Advice::PageOut,
        abi::MADV_POPULATE_READ => Advice::PopulateRead,
        abi::MADV_POPULATE_WRITE => Advice::PopulateWrite,
        abi::MADV_COLLAPSE => Advice::Collapse,
        _ => return None,
    })
}

/// Pages whose answers are collected before they are written out.
const CHUNK: u64 = 4096;

/// mincore(2): one byte per page, bit 0 when it is in memory.
pub fn mincore(task: &Task, addr: u64, len: u64, answer: u64) -> Result<u64> {
    let start = aligned(addr)?;
    let pages = pages_up(len)? / PAGE_SIZE;
    let space = space(task);
    let mut chunk = fallible::filled(0, CHUNK.min(pages) as usize)?;
    for first in (0..pages).step_by(CHUNK as usize) {
        let chunk = &mut chunk[..CHUNK.min(pages - first) as usize];
        let at = start.checked_add(first * PAGE_SIZE).ok_or(Errno::ENOMEM)?;
        space.mincore(at, chunk)?;
        uaccess::write_bytes(answer.wrapping_add(first), chunk)?;
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(0)
}

/// Areas that are looked at before others are let in.
const AREAS: usize = 256;

/// Whether an area in `start..end` is locked. ENOMEM unless all of it is mapped.
fn has_locked(space: &AddressSpace, start: VirtAddr, end: VirtAddr) -> Result<bool> {
    let (mut at, mut locked) = (start, false);
    for n in 1.. {
        if at >= end {
            break;
        }
        let vma = space.vma_at(at).ok_or(Errno::ENOMEM)?;
        locked |= vma.flags.contains(VmaFlags::LOCKED);
        at = vma.range.end;
        if n % AREAS == 0 && sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(locked)
}

/// msync(2): mappings and files are the same pages here, so there is nothing to write. EINVAL,
/// EBUSY, ENOMEM.
pub fn msync(task: &Task, addr: u64, len: u64, flags: u64) -> Result<u64> {
    const ALL: u32 = abi::MS_ASYNC | abi::MS_INVALIDATE | abi::MS_SYNC;
    let flags = flags as u32;
    if flags & !ALL != 0 || flags & (abi::MS_ASYNC | abi::MS_SYNC) == abi::MS_ASYNC | abi::MS_SYNC {
        return Err(Errno::EINVAL);
    }
    let start = aligned(addr)?;
    let end = addr.checked_add(pages_up(len)?).ok_or(Errno::ENOMEM)?;
    let space = space(task);
    let locked = has_locked(&space, start, VirtAddr(end))?;
    if locked && flags & abi::MS_INVALIDATE != 0 {
        Err(Errno::EBUSY)
    } else {
        Ok(0)
    }
}

/// mlock(2) and mlock2(2).
pub fn mlock(task: &Task, addr: u64, len: u64, flags: u64) -> Result<u64> {
    if flags & !u64::from(abi::MLOCK_ONFAULT) != 0 {
        return Err(Errno::EINVAL);
    }
    space(task).mlock(VirtAddr(addr), len, true, flags != 0)?;
    Ok(0)
}

/// munlock(2).
pub fn munlock(task: &Task, addr: u64, len: u64) -> Result<u64> {
    space(task).mlock(VirtAddr(addr), len, false, false)?;
    Ok(0)
}

/// mlockall(2).
pub fn mlockall(task: &Task, flags: u64) -> Result<u64> {
    const ALL: u32 = abi::MCL_CURRENT | abi::MCL_FUTURE | abi::MCL_ONFAULT;
    let flags = flags as u32;
    let has = |flag| flags & flag != 0;
    if flags & !ALL != 0 || !(has(abi::MCL_CURRENT) || has(abi::MCL_FUTURE)) {
        return Err(Errno::EINVAL);
    }
    space(task).lock_all(
        has(abi::MCL_CURRENT),
        has(abi::MCL_FUTURE),
        has(abi::MCL_ONFAULT),
    )?;
    Ok(0)
}

/// munlockall(2).
pub fn munlockall(task: &Task) -> Result<u64> {
    space(task).lock_all(false, false, false)?;
    Ok(0)
}
