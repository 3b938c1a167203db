#![allow(missing_docs)]
//! SKELETON: AddressSpace; one user verb per file in the end.
use crate::addr::*;
use crate::arch::Machine;
use crate::fault::{Access, Mode, Resolution};
use crate::manager::{Mm, OutOfMemory};
use crate::object::Object;
use crate::vma::*;
use alloc::sync::Arc;
use core::marker::PhantomData;

/// Why a verb refused; the name is the errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error { Inval, NoMem, Exist, Acces, Again, Fault, Perm }

/// Where to map.
#[derive(Clone, Copy, Debug)]
pub enum Place { /// Anywhere; the hint is honoured when it is free.
    Hint(VirtAddr), /// MAP_FIXED: replaces what is there.
    Fixed(VirtAddr), /// MAP_FIXED_NOREPLACE.
    FixedNoReplace(VirtAddr) }

/// One mmap.
pub struct MapRequest<M: Machine> { pub place: Place, pub len: u64, pub prot: Prot, pub flags: VmaFlags, pub backing: Backing<M>, /// MAP_POPULATE or MAP_LOCKED.
    pub populate: bool }

/// madvise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice { Normal, Random, Sequential, WillNeed, DontNeed, Free, Cold, PageOut, PopulateRead, PopulateWrite, DontFork, DoFork, WipeOnFork, KeepOnFork, DontDump, DoDump, HugePage, NoHugePage, Collapse, Remove, Mergeable, Unmergeable }

/// Limits that map/brk/stack growth respect; bytes, u64::MAX for none (RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_MEMLOCK).
#[derive(Clone, Copy, Debug)]
pub struct Limits { pub address_space: u64, pub data: u64, pub stack: u64, pub memlock: u64 }

/// Figures of one space in pages (/proc/PID/status, stat, statm) .
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage { pub total: u64, pub peak_total: u64, pub rss_anon: u64, pub rss_file: u64, pub rss_shmem: u64, pub peak_rss: u64, pub data: u64, pub stack: u64, pub exec: u64, pub locked: u64, pub page_tables: u64 }

/// What /proc/PID/smaps shows of one VMA, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smaps { pub rss: u64, pub pss: u64, pub pss_dirty: u64, pub shared_clean: u64, pub shared_dirty: u64, pub private_clean: u64, pub private_dirty: u64, pub referenced: u64, pub anonymous: u64, pub lazy_free: u64, pub anon_huge: u64, pub locked: u64 }

/// What one page of an address space is (pagemap, mincore).
#[derive(Clone, Copy, Debug, Default)]
pub struct PageInfo { pub present: bool, pub pfn: u64, pub file_or_shared: bool, pub exclusive: bool, pub writable: bool, pub dirty: bool, pub zero_page: bool }

/// A user address space.
pub struct AddressSpace<M: Machine>(PhantomData<M>);

impl<M: Machine> AddressSpace<M> {
    pub fn new(mm: &Arc<Mm<M>>) -> Result<Self, OutOfMemory> { let _ = mm; todo!() }
    pub fn set_limits(&self, limits: Limits) { let _ = limits; todo!() }
    /// Where Place::Hint searches: top-down from `top` (below the stack). Set by exec; ASLR is the caller's.
    pub fn set_mmap_top(&self, top: VirtAddr) { let _ = top; todo!() }
    pub fn set_brk(&self, start: VirtAddr) { let _ = start; todo!() }
    /// brk(2): returns the break after the call (unchanged when refused).
    pub fn brk(&self, wanted: VirtAddr) -> VirtAddr { let _ = wanted; todo!() }
    pub fn map(&self, request: MapRequest<M>) -> Result<VirtAddr, Error> { let _ = request; todo!() }
    /// munmap: range need not be mapped; EINVAL unless aligned and in user space.
    pub fn unmap(&self, start: VirtAddr, len: u64) -> Result<(), Error> { let _ = (start, len); todo!() }
    pub fn protect(&self, start: VirtAddr, len: u64, prot: Prot) -> Result<(), Error> { let _ = (start, len, prot); todo!() }
    pub fn advise(&self, start: VirtAddr, len: u64, advice: Advice) -> Result<(), Error> { let _ = (start, len, advice); todo!() }
    /// mremap; `fixed` is the new address of MREMAP_FIXED.
    pub fn remap(&self, old: VirtAddr, old_len: u64, new_len: u64, may_move: bool, dont_unmap: bool, fixed: Option<VirtAddr>) -> Result<VirtAddr, Error> { let _ = (old, old_len, new_len, may_move, dont_unmap, fixed); todo!() }
    /// mlock/munlock.
    pub fn lock(&self, start: VirtAddr, len: u64, lock: bool, on_fault: bool) -> Result<(), Error> { let _ = (start, len, lock, on_fault); todo!() }
    /// A copy for a child: private pages are shared copy-on-write.
    pub fn fork(&self) -> Result<Self, OutOfMemory> { todo!() }
    pub fn fault(&self, addr: VirtAddr, access: Access, mode: Mode) -> Resolution { let _ = (addr, access, mode); todo!() }
    /// Makes this the current CPU's user half.
    pub fn activate(&self) { todo!() }
    /// Drops mappings of the object's pages from page `from` on (truncate).
    pub fn zap_object(&self, object: &Arc<Object<M>>, from: u64) { let _ = (object, from); todo!() }
    /// Each VMA in address order.
    pub fn for_each_vma(&self, f: &mut dyn FnMut(&Vma<M>)) { let _ = f; todo!() }
    /// The smaps figures of the VMA that starts at `start`.
    pub fn smaps(&self, start: VirtAddr) -> Option<Smaps> { let _ = start; todo!() }
    pub fn usage(&self) -> Usage { todo!() }
    pub fn page_info(&self, addr: VirtAddr) -> PageInfo { let _ = addr; todo!() }
    /// Reads through the page tables, faulting pages in (as `Mode::User` read); returns bytes copied before the first bad page.
    pub fn read(&self, from: VirtAddr, into: &mut [u8]) -> usize { let _ = (from, into); todo!() }
    /// Writes through the page tables, faulting pages in; `force` ignores that the VMA is not writable (exec's set-up).
    pub fn write(&self, to: VirtAddr, from: &[u8], force: bool) -> usize { let _ = (to, from, force); todo!() }
}
