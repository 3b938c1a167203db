//! mmap and its family: flags and arguments are checked here as the man pages say; the work is the
//! memory manager's.

mod hwpoison;
mod keys;
mod lock;
mod map;
mod mempolicy;
mod other;
mod process_vm;
mod shm;
mod userfault;

pub use hwpoison::ENABLE_SOFT_OFFLINE;
pub use keys::{pkey_alloc, pkey_free, pkey_mprotect};
pub use lock::{mlock, mlock2, mlockall, msync, munlock, munlockall};
pub use map::mmap;
pub use mempolicy::{get_mempolicy, migrate_pages, move_pages};
pub use other::{process_madvise, process_mrelease};
pub use process_vm::{process_vm_readv, process_vm_writev};
pub use shm::{shmat, shmctl, shmdt, shmget};
pub use userfault::userfaultfd;

use super::door::{Argument, Registers};
use super::with_room;
use crate::arch::pte::Format;
use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::base::room;
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::process::task::Task;
use crate::sched::{self, kernel_lock};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::{Key, PteFormat};
use mm::vma::Prot;
use mm::{Advice, Moved, Offline, RemapFlags};

/// Start and length of a part of the caller's address space, in bytes, as the caller passed them.
#[derive(Clone, Copy)]
pub struct Span {
    start: VirtAddr,
    len: u64,
}

impl Argument<'_> for Span {
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        Ok(Self {
            start: VirtAddr(registers.next()),
            len: registers.next(),
        })
    }
}

bitflags::bitflags! {
    /// PROT_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Protection: u64 {
        /// PROT_READ.
        const READ = abi::PROT_READ as u64;
        /// PROT_WRITE.
        const WRITE = abi::PROT_WRITE as u64;
        /// PROT_EXEC.
        const EXEC = abi::PROT_EXEC as u64;
        /// PROT_SEM, which no machine here needs.
        const SEM = abi::PROT_SEM as u64;
    }
}

impl Protection {
    /// The rights that a machine knows.
    fn rights(self) -> Prot {
        Prot::from_bits_truncate(self.bits() as u8) & Prot::RIGHTS
    }
}

super::door::flag_arguments!(Protection: kept);

impl Argument<'_> for RemapFlags {
    /// EINVAL for bits that mremap(2) does not have.
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        let bits = u32::try_from(registers.next()).ok();
        bits.and_then(Self::from_bits).ok_or(Errno::EINVAL)
    }
}

/// Calls `f` with the address space of the running thread.
#[inline]
fn in_space<R>(task: &Task, f: impl FnOnce(&AddressSpace) -> R) -> R {
    task.space
        .lend(f)
        .expect("a running thread has an address space")
}

/// Rounds up to whole pages; ENOMEM past the end of user space.
fn pages_up(len: u64) -> Result<u64> {
    match len.checked_next_multiple_of(PAGE_SIZE) {
        Some(len) if len <= Format::USER_END.0 => Ok(len),
        _ => Err(Errno::ENOMEM),
    }
}

fn aligned(address: VirtAddr) -> Result<VirtAddr> {
    if address.is_aligned(PAGE_SIZE) {
        Ok(address)
    } else {
        Err(Errno::EINVAL)
    }
}

/// munmap(2).
pub fn munmap(task: &Task, Span { start, len }: Span) -> Result<u64> {
    let start = aligned(start)?;
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = pages_up(len).map_err(|_| Errno::EINVAL)?;
    if userfault::are_told() {
        return userfault::unmapping(task, start, len, || {
            Ok(in_space(task, |space| space.unmap(start, len))?)
        })
        .map(|()| 0);
    }
    in_space(task, |space| space.unmap(start, len))?;
    Ok(0)
}

/// mprotect(2).
pub fn mprotect(task: &Task, span: Span, protection: Protection) -> Result<u64> {
    protect(task, span, protection, None)
}

/// mprotect(2), or pkey_mprotect(2) with a key.
#[inline(always)]
fn protect(
    task: &Task,
    Span { start, len }: Span,
    protection: Protection,
    key: Option<Key>,
) -> Result<u64> {
    let start = aligned(start)?;
    if !Protection::all().contains(protection) {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    room::check(Errno::ENOMEM)?;
    let len = pages_up(len)?;
    let rights = protection.rights();
    in_space(task, |space| {
        space.protect_with_key(start, len, rights, key)
    })?;
    Ok(0)
}

/// mremap(2).
pub fn mremap(
    task: &Arc<Task>,
    old: Span,
    new_len: u64,
    flags: RemapFlags,
    new: VirtAddr,
) -> Result<u64> {
    let mut moved = Moved::default();
    with_room(task, || {
        if moved.is_nothing() {
            room::check(Errno::ENOMEM)?;
        }
        let mut remap = || {
            Ok(in_space(task, |space| {
                space.remap(old.start, old.len, new_len, flags, new, &mut moved)
            })?)
        };
        let at = match userfault::are_told() {
            true => userfault::moving(task, old, new_len, flags, new, remap),
            false => remap(),
        };
        Ok(at?.0)
    })
}

/// brk(2), as the kernel does it: the break after the call, whether it moved or not.
pub fn brk(task: &Task, wanted: VirtAddr) -> Result<u64> {
    if userfault::are_told() {
        return userfault::breaking(task, wanted).map(|at| at.0);
    }
    Ok(in_space(task, |space| space.brk(wanted)).0)
}

/// madvise(2).
pub fn madvise(task: &Task, Span { start, len }: Span, advice: Advice) -> Result<u64> {
    if userfault::are_told() {
        userfault::removing(task, start, len, advice)?;
    }
    // Fast path: by it allocators give memory back.
    if advice == Advice::DontNeed {
        in_space(task, |space| space.dont_need(start, len))?;
        return Ok(0);
    }
    in_space(task, |space| advise(task, space, start, len, advice))?;
    Ok(0)
}

// Out of line: MADV_DONTNEED would save its registers, too.
#[inline(never)]
fn advise(task: &Task, space: &AddressSpace, start: VirtAddr, len: u64, advice: Advice) -> Result {
    let start = aligned(start)?;
    let offline = |how| kernel_lock::with(|| hwpoison::offline(task, space, start, len, how));
    match advice {
        Advice::HwPoison => offline(Offline::Hard),
        Advice::SoftOffline => offline(Offline::Soft),
        _ => Ok(space.advise(start, len, advice)?),
    }
}

impl Argument<'_> for Advice {
    /// MADV_*; EINVAL for others.
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        Advice::from_repr(registers.next() as u32).ok_or(Errno::EINVAL)
    }
}

/// mseal(2). EINVAL for flags, of which there are none.
pub fn mseal(task: &Task, Span { start, len }: Span, flags: u64) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    in_space(task, |space| space.seal(start, len))?;
    Ok(0)
}

/// Pages whose answers are collected before they are written out.
const CHUNK: u64 = 4096;

/// mincore(2): one byte per page, bit 0 when it is in memory.
pub fn mincore(task: &Task, Span { start, len }: Span, answer: UserPtr<u8>) -> Result<u64> {
    let start = aligned(start)?;
    let pages = pages_up(len)? / PAGE_SIZE;
    let answer = UserBytes {
        first: answer,
        len: pages,
    };
    let mut chunk = fallible::filled(0, CHUNK.min(pages) as usize)?;
    for first in (0..pages).step_by(CHUNK as usize) {
        let chunk = &mut chunk[..CHUNK.min(pages - first) as usize];
        let at = start.checked_add(first * PAGE_SIZE).ok_or(Errno::ENOMEM)?;
        in_space(task, |space| space.mincore(at, chunk))?;
        answer.write(first, chunk)?;
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(0)
}
