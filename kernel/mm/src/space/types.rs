//! Arguments and results of the verbs.

use super::Rss;
use crate::addr::{Pfn, VirtAddr};
use crate::arch::Machine;
use crate::frame::Kind;
use crate::manager::OutOfMemory;
use crate::object::{Refused, Sealed};
use crate::vma::{Backing, Figures, Prot, VmaFlags};

/// Of a verb.
pub type Result<T = (), E = Error> = core::result::Result<T, E>;

/// Error of a verb; the name is the errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// EINVAL
    Inval,
    /// ENOMEM
    NoMem,
    /// EEXIST
    Exist,
    /// EACCES
    Acces,
    /// EAGAIN
    Again,
    /// EFAULT
    Fault,
    /// EPERM
    Perm,
    /// ENOENT
    NoEnt,
    /// EBUSY
    Busy,
    /// EHWPOISON
    HwPoison,
    /// The thread is to end; the rest was not done.
    Interrupted,
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Error {
        Error::NoMem
    }
}
impl From<Refused> for Error {
    fn from(why: Refused) -> Error {
        match why {
            Refused::Exists => Error::Exist,
            Refused::End => Error::Fault,
        }
    }
}
impl From<Sealed> for Error {
    fn from(_: Sealed) -> Error {
        Error::Perm
    }
}

bitflags::bitflags! {
    /// PR_MDWE_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Mdwe: u32 {
        /// PR_MDWE_REFUSE_EXEC_GAIN: nothing writable is executable, and nothing becomes it.
        const REFUSE_EXEC_GAIN = 1;
        /// PR_MDWE_NO_INHERIT: not for children, nor for the next program.
        const NO_INHERIT = 2;
    }
}

/// Address of a new mapping.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Any address; the hint is honoured if it is free.
    Hint(VirtAddr),
    /// MAP_FIXED: replaces what is there.
    Fixed(VirtAddr),
    /// MAP_FIXED_NOREPLACE.
    FixedNoReplace(VirtAddr),
}

/// Arguments of mmap(2).
pub struct MapRequest<M: Machine> {
    /// Address.
    pub place: Place,
    /// Bytes, rounded up to pages.
    pub len: u64,
    /// PROT_*.
    pub prot: Prot,
    /// MAP_* flags that stay with the VMA.
    pub flags: VmaFlags,
    /// Backing.
    pub backing: Backing<M>,
    /// MAP_POPULATE or MAP_LOCKED.
    pub populate: bool,
}

/// Advice of madvise(2), by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[allow(
    missing_docs,
    reason = "each is MADV_ and its name; madvise(2) says what it does"
)]
#[repr(u32)]
pub enum Advice {
    Normal = 0,
    Random = 1,
    Sequential = 2,
    WillNeed = 3,
    DontNeed = 4,
    Free = 8,
    Remove = 9,
    DontFork = 10,
    DoFork = 11,
    Mergeable = 12,
    Unmergeable = 13,
    HugePage = 14,
    NoHugePage = 15,
    DontDump = 16,
    DoDump = 17,
    WipeOnFork = 18,
    KeepOnFork = 19,
    Cold = 20,
    PageOut = 21,
    PopulateRead = 22,
    PopulateWrite = 23,
    DontNeedLocked = 24,
    Collapse = 25,
    HwPoison = 100,
    SoftOffline = 101,
    GuardInstall = 102,
    GuardRemove = 103,
}

/// How a page goes out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// MADV_HWPOISON: at once, and its contents are lost.
    Hard,
    /// MADV_SOFT_OFFLINE: what it holds goes to another page first.
    Soft,
}

/// Result of a collapse of 2 MiB into one folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collapse {
    /// Collapsed into one folio, mapped by a PMD leaf.
    Done,
    /// Already mapped by a PMD leaf.
    Already,
    /// Not covered by one anonymous VMA where folios of this size are allowed.
    NotEligible,
    /// Nothing is mapped.
    Empty,
    /// More pages are absent than the limit allows.
    TooEmpty,
    /// More pages are shared than the limit allows.
    TooShared,
    /// A page is pinned, or shared while pins exist: a pin's holder would keep the old page.
    Pinned,
    /// No free folio.
    NoMem,
}

/// Limits of mmap, brk and stack growth; bytes, u64::MAX for none.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// RLIMIT_AS
    pub address_space: u64,
    /// RLIMIT_DATA
    pub data: u64,
    /// RLIMIT_STACK
    pub stack: u64,
    /// RLIMIT_MEMLOCK
    pub memlock: u64,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits {
        address_space: u64::MAX,
        data: u64::MAX,
        stack: u64::MAX,
        memlock: u64::MAX,
    };
}

/// Figures of one space in pages (/proc/PID/status, stat, statm).
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Mapped.
    pub mapped: Figures,
    /// Peak of mapped pages (VmPeak).
    pub peak_total: u64,
    /// Resident.
    pub rss: Rss,
    /// Page tables (VmPTE).
    pub page_tables: u64,
}

/// Figures of one VMA in /proc/PID/smaps, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smaps {
    /// Resident.
    pub rss: u64,
    /// Resident, each page divided by its number of mappings.
    pub pss: u64,
    /// The dirty part of `pss`.
    pub pss_dirty: u64,
    /// Mapped more than once, not written.
    pub shared_clean: u64,
    /// Mapped more than once, written.
    pub shared_dirty: u64,
    /// Mapped once, not written.
    pub private_clean: u64,
    /// Mapped once, written.
    pub private_dirty: u64,
    /// Used since the accessed bit was cleared.
    pub referenced: u64,
    /// Private pages.
    pub anonymous: u64,
    /// MADV_FREE, not yet freed (always 0: it frees at once).
    pub lazy_free: u64,
    /// In swap slots (Swap).
    pub swap: u64,
    /// In swap slots, each divided by the number of entries that name it (SwapPss).
    pub swap_pss: u64,
    /// In folios of PMD size.
    pub anon_huge: u64,
    /// Mapped by PMD leaves of objects' folios.
    pub shmem_huge: u64,
    /// Locked.
    pub locked: u64,
    /// In huge pages of hugetlb that are mapped more than once; they count in nothing else.
    pub shared_hugetlb: u64,
    /// In those that are mapped once.
    pub private_hugetlb: u64,
    /// Private memory by the order of the folio it lies in.
    pub folios: [FolioUse; FOLIO_ORDERS],
}

/// Number of folio orders reported: 0 (4 kB) to 9 (2 MiB).
pub const FOLIO_ORDERS: usize = 10;

/// Mappings of the folios of one order, in folios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolioUse {
    /// Mapped whole, contiguously and in order.
    pub whole: u64,
    /// Mapped partly.
    pub part: u64,
    /// Of `whole`: mapped with the contiguous bit in every entry, or by one leaf of a higher level.
    pub contpte: u64,
}

impl core::ops::AddAssign for FolioUse {
    fn add_assign(&mut self, other: FolioUse) {
        self.whole += other.whole;
        self.part += other.part;
        self.contpte += other.contpte;
    }
}

/// Consecutive frames that an address space maps.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// The first frame.
    pub first: Pfn,
    /// Number of frames.
    pub pages: u64,
    /// Kind of the frames.
    pub kind: Kind,
}

/// State of one page of an address space (pagemap, mincore).
#[derive(Clone, Copy, Debug, Default)]
pub struct PageInfo {
    /// Whether a VMA covers it.
    pub mapped: bool,
    /// Whether an entry maps it.
    pub present: bool,
    /// Whether a PMD leaf maps it.
    pub huge: bool,
    /// Whether it is in a swap slot, which is not present.
    pub swapped: bool,
    /// Number of the frame, or of the slot.
    pub pfn: u64,
    /// Whether the frame is an object's.
    pub file_or_shared: bool,
    /// Whether the frame has no other mapping.
    pub exclusive: bool,
    /// Whether the entry is writable.
    pub writable: bool,
    /// Whether it is dirty.
    pub dirty: bool,
    /// Whether it is the zero page.
    pub zero_page: bool,
    /// Whether it is a guard, which is not present.
    pub guard: bool,
    /// Whether it is another marker, which is not present: write-protected, or poisoned.
    pub marked: bool,
    /// Whether userfaultfd write-protects it, present or not.
    pub write_protected: bool,
    /// Whether its VMA is write-protected asynchronously.
    pub tracks_writes: bool,
    /// Whether it counts as written since [`AddressSpace::clear_soft_dirty`](super::AddressSpace),
    /// present or not.
    pub soft_dirty: bool,
}
