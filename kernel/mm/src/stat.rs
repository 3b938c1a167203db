//! Event counters of the memory manager, one set per CPU.

use crate::arch::{CPUS, Cpu, Machine};
use crate::sync::{AtomicU64, Ordering, add_own};
use alloc::boxed::Box;

macro_rules! events {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        /// A counted event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Event { $($(#[doc = $doc])* $name,)* }
        const NAMES: &[&str] = &[$($text),*];
        /// The counters, for docs/counters.md: name, and the lines that say what it counts.
        pub const ROWS: &[(&str, &[&str])] = &[$(($text, &[$($doc),*])),*];
    };
}

// A row is a counter: its lines are its row in docs/counters.md, which
// `WRITE_DOCS=1 cargo test -p cli tables::` writes.
events! {
    /// Times that frames could not be had without which something fails: a page, a table, a kernel
    /// stack, heap.
    AllocStall = "allocstall_normal";
    /// Page faults: of user mode, and of the kernel in user memory. One that waits for what is
    /// stored is one.
    Fault = "pgfault";
    /// Those that waited for what is stored; for no device, since all files are in memory.
    MajorFault = "pgmajfault";
    /// Pages filled with zeros: new anonymous pages, pages of files, page tables.
    Zeroed = "pages_zeroed";
    /// Pages copied, for whatever reason.
    Copied = "pages_copied";
    /// Updates of folios' accounts of references: one for each run of entries.
    AccountUpdates = "account_updates";
    /// Atomic read-modify-writes in these updates.
    AccountAtomics = "account_atomics";
    /// Pages stored.
    SwapOut = "pswpout";
    /// Stored pages brought back.
    SwapIn = "pswpin";
    /// Mapped private pages that the thread of reclaim has looked at.
    Scanned = "pgscan_kswapd";
    /// Pages that it had stored.
    Reclaimed = "pgsteal_kswapd";
    /// Times that who lacks a large folio had memory compacted.
    CompactStall = "compact_stall";
    /// Those after which there was one.
    CompactSuccess = "compact_success";
    /// Those after which there was none.
    CompactFail = "compact_fail";
    /// Pages that compaction has looked at in order to move them.
    CompactScanned = "compact_migrate_scanned";
    /// Pages moved to other frames.
    Migrated = "pgmigrate_success";
    /// Pages that could not be moved: somebody has pinned them, or used them meanwhile.
    MigrateFailed = "pgmigrate_fail";
    /// Page-table entries written.
    EntryWrites = "entry_writes";
    /// Page tables allocated.
    TableAlloc = "page_tables_allocated";
    /// Page tables freed.
    TableFree = "page_tables_freed";
    /// Page tables taken out of the tables of a space while CPUs might walk them: they waited for a
    /// TLB flush before they were freed.
    TableUnlinked = "page_tables_unlinked";
    /// Now: page tables in limbo, taken out and not free yet. 0 while nothing unmaps.
    TableLimbo = "page_tables_in_limbo";
    /// Page tables that fork shared whole (`fork=share`).
    TableShared = "page_tables_shared";
    /// Shared page tables that were copied later because an entry changed.
    TableUnshared = "page_tables_unshared";
    /// Flushes of a range of user addresses.
    FlushRange = "tlb_flush_range";
    /// Flushes of a whole address space.
    FlushSpace = "tlb_flush_space";
    /// Flushes of kernel addresses.
    FlushKernel = "tlb_flush_kernel";
    /// Switches to another address space.
    Switch = "space_switches";
    /// Read faults answered with the shared page of zeros.
    ZeroPage = "zero_page_mapped";
    /// Write faults that copied a shared page.
    CowCopied = "cow_copied";
    /// Neighbours of such a page that were copied with it (`cow=around`, `cow=grow`).
    CowAround = "cow_around_pages";
    /// Such neighbours in large folios that were freed without having been written.
    CowWasted = "cow_around_wasted";
    /// Write faults that reused a page without another owner.
    CowReused = "cow_reused";
    /// Faults that only set an accessed or dirty bit, or found nothing left to do.
    Minor = "fault_entry_only";
    /// Faults that looked again, because the space changed while their folio was made.
    FaultRetry = "fault_retried";
    /// Pages mapped around a read fault because the file already had them in memory.
    FaultAround = "fault_around_mapped";
    /// Address spaces copied.
    Fork = "forks";
    /// Entries copied into a child.
    ForkEntries = "fork_entries_copied";
    /// Entries that mremap moved: one PUD or PMD entry counts as one.
    Moved = "remap_entries_moved";
    /// aarch64: blocks of 16 PTEs that got the contiguous bit after they were in use.
    ContpteFold = "contpte_folded";
    /// aarch64: blocks that lost the contiguous bit because a part changed.
    ContpteUnfold = "contpte_unfolded";
    /// PMD entries of folios that became 512 PTEs.
    SplitPmd = "thp_split_pmd";
    /// Folios of PMD size split into smaller ones.
    SplitPage = "thp_split_page";
    /// Huge zero pages allocated.
    HugeZeroAlloc = "thp_zero_page_alloc";
    /// Stacks that grew.
    StackGrown = "stack_expansions";
    /// Now: pages of private writable mappings, and those of shared anonymous memory that are not
    /// there. With the pages of objects that is Committed_AS.
    Charged = "pages_charged";
}

const COUNT: usize = NAMES.len();

/// One CPU's counters, on cache lines of their own; a power of two in size, so that a shift finds
/// them.
#[repr(align(512))]
struct PerCpu([AtomicU64; COUNT]);

/// The counters of all CPUs.
pub struct Stats {
    cpus: Box<[PerCpu; CPUS]>,
    /// How many of them there are.
    count: usize,
}

impl Stats {
    /// All zero.
    pub fn new(count: usize) -> Self {
        let zero = || PerCpu(core::array::from_fn(|_| AtomicU64::new(0)));
        let all: Box<[PerCpu]> = (0..CPUS).map(|_| zero()).collect();
        let cpus = all.try_into();
        let cpus = cpus.unwrap_or_else(|_| unreachable!("made with that length"));
        Stats { cpus, count }
    }

    /// Adds to some counters of the CPU that runs.
    #[inline]
    pub fn add<M: Machine, const N: usize>(&self, machine: &M, events: [(Event, u64); N]) {
        // The remainder costs less than the check of the bound.
        let cpu = &self.cpus[machine.cpu().id() % CPUS];
        for (event, n) in events {
            add_own(&cpu.0[event as usize], n);
        }
    }

    /// The sum over all CPUs. A level that changes meanwhile may be seen to sink before it rises:
    /// it is no less than 0.
    #[inline]
    pub fn get(&self, event: usize) -> u64 {
        self.sum(event).max(0) as u64
    }
    /// How many page tables are in limbo; exact while nothing changes.
    pub(crate) fn limbo(&self) -> i64 {
        self.sum(Event::TableLimbo as usize)
    }
    /// Pages that are promised and are no pages of objects; exact while nothing changes.
    pub(crate) fn charged(&self) -> i64 {
        self.sum(Event::Charged as usize)
    }
    fn sum(&self, event: usize) -> i64 {
        self.cpus[..self.count]
            .iter()
            .map(|cpu| cpu.0[event].load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add) as i64
    }

    /// Calls `f(name, value)` for each counter.
    pub fn for_each(&self, f: &mut dyn FnMut(&'static str, u64)) {
        for (i, name) in NAMES.iter().enumerate() {
            f(name, self.get(i));
        }
    }
}
