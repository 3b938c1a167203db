//! Quire's memory manager: `no_std`, no assembly, no `cfg(target_arch)`.
//!
//! # Rooms, in import order
//! A room imports only rooms above it in this list (`tests/rooms.rs` reads the `use` lines and
//! fails on an upward import).
//!
//! | room | purpose |
//! |---|---|
//! | [`addr`] | addresses, frame and page numbers, orders, ranges |
//! | [`arch`] | the interface to a machine: four small traits |
//! | [`sync`] | atomics, and the ranks of the locks |
//! | [`stat`] | event counters, named as in `/proc/vmstat` where Linux has a name |
//! | [`switch`] | the switch of each mechanism |
//! | [`mutant`] | rules broken on purpose, for tests of the tests |
//! | [`asid`] | address-space tags |
//! | [`own`] | the account of the references to a folio, and the scheme, one of six, that the switches select |
//! | [`thp`] | multi-size THP: controls, order of a fault, statistics |
//! | [`frame`] | the page allocator: the frame table, zones, buddy lists, per-CPU lists |
//! | [`hugetlb`] | pools of huge pages: what is free, reserved, surplus |
//! | [`manager`] | [`Mm`]: machine, frames, account, zero pages, tags and counters as one value |
//! | [`folio`] | a counted reference to a frame, as a value that must be given back |
//! | [`object`] | pages by index: files, shared anonymous memory |
//! | [`vma`] | areas: address ranges with one set of rights and one backing |
//! | [`tlb`] | the gather: a freed frame travels with its flush |
//! | [`table`] | the only place that writes page-table entries |
//! | [`space`] | [`AddressSpace`]: its lock and what that covers, limits, figures |
//! | [`fault`] | page faults, and accesses that fault pages in: populate, pins, copies |
//! | [`reshape`] | folios that change their size in place: collapse and split |
//! | [`verbs`] | system calls on an address space, one per file |
//! | [`report`] | read-only walks for `/proc`: smaps, pagemap, mappings of a frame |
//! | [`check`] | verifies the invariants between tables, account, frames and figures |
//!
//! # The lock order
//! A lock may be taken only while every held lock has a lower rank; debug builds check it at run
//! time ([`sync`]). Ranks below 100 are free, 100..200 belong to the kernel, from 200 on to the
//! memory manager and what it stands on:
//!
//! | rank | lock | covers |
//! |---|---|---|
//! | 200 [`sync::rank::SPACE`] | one per address space | its VMAs, its page tables, its figures; faults and page advice of a space that threads share have it as readers |
//! | 205 [`sync::rank::NODE`] | a bit of each page table | its entries, against other readers of the space's lock |
//! | 208 [`sync::rank::MAPPERS`] | one per object | the spaces that map it, and how many of them may write |
//! | 210 [`sync::rank::OBJECT`] | one per object | its pages and its length |
//! | 215 [`sync::rank::HUGETLB`] | one per pool of huge pages | its free pages and figures |
//! | 216 [`sync::rank::SLOTS`] | one | which folio is in which swap slots |
//! | 217 [`sync::rank::STORE`] | one | the store's spans |
//! | 218 [`sync::rank::BENCHES`] | one | who compresses |
//! | 220 [`sync::rank::ASID`] | one | the pool of tags |
//! | 221 [`sync::rank::MM_ID`] | one | the ids of address spaces in the account |
//! | 222 [`sync::rank::SPACES`] | one | all address spaces, by key |
//! | 230 [`sync::rank::HEAP`] | the kernel's heap | allocations under any lock above; it calls `alloc_kernel` |
//! | 235 [`sync::rank::KERNEL_SPACE`] | one | the kernel's half of the page tables |
//! | 236 [`sync::rank::HUGE_ZERO`] | one | the huge zero page and how many leaves map it |
//! | 237 [`sync::rank::DEFERRED`] | one | the queue of folios to be split |
//! | 238 [`sync::rank::LONG_TERM`] | one | long-term pins |
//! | 240 [`sync::rank::ZONE`] | one per zone | the free lists |
//! | 245 [`sync::rank::THP`] | one | the settings of multi-size THP; faults read copies without it |
//! | 250 [`sync::rank::CONSOLE`] | the console | a line of the log may be written under every lock |
//!
//! Two locks of one rank are never held together: fork locks only the parent, as the child is still
//! private. What leaves an address space (files, objects) is dropped after its lock, because a
//! file's release takes kernel locks.

#![no_std]

extern crate alloc;
// Thread-local storage and panic state for host tests: the machines have no std.
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod addr;
pub mod arch;
pub(crate) mod asid;
pub mod check;
pub mod fault;
pub(crate) mod folio;
pub mod frame;
pub mod hugetlb;
pub(crate) mod manager;
pub mod mutant;
pub mod object;
pub mod own;
pub(crate) mod report;
pub(crate) mod reshape;
pub(crate) mod space;
pub(crate) mod stat;
pub mod switch;
pub mod sync;
pub(crate) mod table;
pub mod thp;
pub(crate) mod tlb;
pub(crate) mod verbs;
pub mod vma;

pub use frame::FrameMeta;
pub use manager::{
    FrameCounts, FrameInfo, Loaded, Mm, OutOfMemory, Overcommit, Policy, SpaceKey, swap_bytes,
};
pub use own::PageCount;
pub use report::{EntryRun, EntryTo, SmapsWalk};
pub use space::{
    AddressSpace, Advice, Collapse, Error, FOLIO_ORDERS, FolioUse, Handle, Limits, MMAP_MIN_ADDR,
    MapRequest, Mapped, Mdwe, Offline, PageInfo, Place, Rss, STACK_GUARD_GAP, Smaps, Usage,
    WeakHandle,
};
pub use stat::{ROWS as COUNTERS, Stats};
pub use table::kernel::KernelSpace;
pub use verbs::{Content, Filling, Moved, Registration, RemapFlags};
