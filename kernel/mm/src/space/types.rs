//! What the verbs take and answer.

use crate::addr::{Pfn, VirtAddr};
use crate::arch::Machine;
use crate::frame::Kind;
use crate::manager::OutOfMemory;
use crate::vma::{Backing, Prot, VmaFlags};

/// Why a verb refused; the name is the errno.
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
    /// The thread is to end, so the rest was not done.
    Interrupted,
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Error {
        Error::NoMem
    }
}

/// Where to map.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Anywhere; the hint is honoured when it is free.
    Hint(VirtAddr),
    /// MAP_FIXED: replaces what is there.
    Fixed(VirtAddr),
    /// MAP_FIXED_NOREPLACE.
    FixedNoReplace(VirtAddr),
}

/// One mmap.
pub struct MapRequest<M: Machine> {
    /// Where.
    pub place: Place,
    /// Bytes, rounded up to pages.
    pub len: u64,
    /// PROT_*.
    pub prot: Prot,
    /// MAP_* as far as they stay with the VMA.
    pub flags: VmaFlags,
    /// What.
    pub backing: Backing<M>,
    /// MAP_POPULATE or MAP_LOCKED.
    pub populate: bool,
}

/// madvise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each is MADV_ and its name; madvise(2) says what it does"
)]
pub enum Advice {
    Normal,
    Random,
    Sequential,
    WillNeed,
    DontNeed,
    DontNeedLocked,
    Free,
    Cold,
    PageOut,
    PopulateRead,
    PopulateWrite,
    DontFork,
    DoFork,
    WipeOnFork,
    KeepOnFork,
    DontDump,
    DoDump,
    HugePage,
    NoHugePage,
    Collapse,
    Remove,
    Mergeable,
    Unmergeable,
}

/// What became of an attempt to collapse 2 MiB into one folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collapse {
    /// It is one folio now, mapped by a PMD leaf.
    Done,
    /// A PMD leaf maps it already.
    Already,
    /// It is not all of one anonymous area where folios of this size are allowed.
    NotEligible,
    /// Nothing is mapped.
    Empty,
    /// More pages are missing than the limit says.
    TooEmpty,
    /// More pages are shared than the limit says.
    TooShared,
    /// A page is pinned, or shared while there are pins: whoever holds it would go on with the old
    /// one.
    Pinned,
    /// There is no free folio.
    NoMem,
}

/// Limits that map/brk/stack growth respect; bytes, u64::MAX for none.
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
    /// Mapped (VmSize).
    pub total: u64,
    /// The most that was ever mapped (VmPeak).
    pub peak_total: u64,
    /// Resident private pages (RssAnon).
    pub rss_anon: u64,
    /// Resident file pages (RssFile).
    pub rss_file: u64,
    /// Resident shared anonymous pages (RssShmem).
    pub rss_shmem: u64,
    /// The most that was ever resident (VmHWM).
    pub peak_rss: u64,
    /// Private writable (VmData).
    pub data: u64,
    /// Stacks (VmStk).
    pub stack: u64,
    /// Executable files (VmExe and VmLib).
    pub exec: u64,
    /// Locked (VmLck).
    pub locked: u64,
    /// Page tables (VmPTE).
    pub page_tables: u64,
}

/// What /proc/PID/smaps shows of one VMA, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smaps {
    /// Resident.
    pub rss: u64,
    /// Resident, each page divided by how often it is mapped.
    pub pss: u64,
    /// The dirty part of it.
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
    /// In folios of PMD size.
    pub anon_huge: u64,
    /// Locked.
    pub locked: u64,
    /// Private memory by the order of the folio it lies in.
    pub folios: [FolioUse; FOLIO_ORDERS],
}

/// Orders of folios that are told apart: 0 (4 kB) to 9 (2 MiB).
pub const FOLIO_ORDERS: usize = 10;

/// How folios of one order are mapped, counted in folios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolioUse {
    /// All of their pages, side by side and in order.
    pub whole: u64,
    /// Some of their pages.
    pub part: u64,
    /// Of those that are mapped whole: with the contiguous bit in every entry, or by one entry of a
    /// higher table.
    pub contpte: u64,
}

impl core::ops::AddAssign for FolioUse {
    fn add_assign(&mut self, other: FolioUse) {
        self.whole += other.whole;
        self.part += other.part;
        self.contpte += other.contpte;
    }
}

/// Frames in a row that an address space maps.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// The first of them.
    pub first: Pfn,
    /// How many.
    pub pages: u64,
    /// What they are used for.
    pub kind: Kind,
}

/// What one page of an address space is (pagemap, mincore).
#[derive(Clone, Copy, Debug, Default)]
pub struct PageInfo {
    /// An entry maps it.
    pub present: bool,
    /// To this frame.
    pub pfn: u64,
    /// The frame is an object's.
    pub file_or_shared: bool,
    /// Nobody else maps the frame.
    pub exclusive: bool,
    /// The entry allows writing.
    pub writable: bool,
    /// It was written.
    pub dirty: bool,
    /// It is the shared page of zeros.
    pub zero_page: bool,
    /// It counts as written since [`AddressSpace::clear_soft_dirty`](super::AddressSpace), present
    /// or not.
    pub soft_dirty: bool,
}
