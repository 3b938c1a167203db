//! [`Mm`], one memory manager as a value: machine, frame table, allocator, zero pages, tags,
//! account and counters. Tests own many.

mod cpus;
mod deferred;
mod evict;
mod frames;
mod hugetlb;
mod hwpoison;
mod inspect;
mod loaded;
mod long_term;
mod migrate;
mod overcommit;
mod poison;
mod shelf;
mod spaces;
mod store;
mod swap;
mod swap_in;
mod zero;

pub use cpus::{Family, SpaceId};
pub(crate) use deferred::Queued;
pub use inspect::FrameInfo;
pub use loaded::Loaded;
pub(crate) use long_term::LongTerm;
pub use overcommit::{MAX_VMAS, Overcommit, Policy};
pub(crate) use spaces::AnyOne;
pub use spaces::SpaceKey;
pub use store::bytes as swap_bytes;

use crate::addr::{Order, Pfn, PfnRange};
use crate::arch::{Cpu, Machine, PhysMem};
use crate::asid::AsidPool;
use crate::frame::table::FolioBook;
use crate::frame::zone::Reserve;
use crate::frame::{AllocRequest, Allocator, FrameMeta, FrameTable, Kind};
use crate::hugetlb::Pools;
use crate::own::{Account, ChosenScheme, Ids, Meter, MmId, Owner, PageCount};
use crate::stat::{Event, Stats};
use crate::switch::Switches;
use crate::sync::{Apart, AtomicBool, AtomicU32, AtomicU64, Lock, Ordering, Reader, rank};
use crate::thp::{Huge, Stat, Thp};
use alloc::boxed::Box;
use alloc::sync::Arc;
use deferred::Deferred;
use long_term::LongTermPins;
use spaces::Registry;
use swap::Swap;
use zero::HugeZero;

pub use fallible::OutOfMemory;

/// Of what needs memory.
pub type Result<T = (), E = OutOfMemory> = core::result::Result<T, E>;

/// The memory manager: machine, frame table, allocator, zero page, counters. The count of
/// references to it, which each new space writes, is on another cache line.
#[repr(align(64))]
pub struct Mm<M: Machine> {
    machine: M,
    allocator: Allocator,
    deferred: Deferred,
    long_term: LongTermPins,
    huge_zero: HugeZero,
    stats: Stats,
    /// Allocations that have failed, on all CPUs.
    stalls: AtomicU64,
    /// How many calls of [`Mm::urgently`] run.
    urgent: AtomicU32,
    /// How many frames were freed when compaction is tried again.
    compacts_at: AtomicU64,
    wants_compaction: AtomicBool,
    thp: Thp,
    switches: Switches,
    /// References that pins hold.
    pins: AtomicU64,
    /// Frames out of use, or to be.
    hwpoisoned: AtomicU64,
    overcommit: Overcommit,
    // Each some hundred bytes: behind a pointer, all other words are near the first.
    hugetlb: Pools,
    spaces: Box<Registry>,
    objects: Box<Registry>,
    swap: Box<Swap>,
    asids: Box<Apart<Lock<AsidPool, { rank::ASID }>>>,
    ids: Box<Apart<Lock<Ids, { rank::MM_ID }>>>,
    zero_page: Pfn,
    /// A root with nothing in its user half, for a CPU whose address space ends while it is loaded.
    idle_root: Pfn,
    idle_root_ready: AtomicBool,
    /// By CPU.
    cpus: Box<[Loaded]>,
    /// By CPU, the space whose lock it has as a reader.
    readers: Box<[Reader]>,
}

/// Frames by use (for /proc/meminfo, leak checks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames the allocator was given at boot.
    pub total: u64,
    /// Free frames, the huge zero page among them while no leaf maps it.
    pub free: u64,
    /// Private memory.
    pub anon: u64,
    /// Pages of objects: files and shared anonymous memory.
    pub object: u64,
    /// Page tables, the kernel's own included.
    pub page_tables: u64,
    /// The kernel's heap, stacks, zero page.
    pub kernel: u64,
    /// Huge pages, used or not ([`crate::hugetlb`]).
    pub hugetlb: u64,
    /// Out of use for good, each alone ([`Mm::hwpoisoned`] counts those in use, too).
    pub hwpoison: u64,
}

impl<M: Machine> Mm<M> {
    /// `frames` describes the frames of `memory` (all bytes zero, see [`FrameMeta`], but for what
    /// [`crate::frame::table::parts`] leaves out) and swap slots
    /// ([`crate::frame::table::metas`]); `counts` is as long when mappings of single
    /// pages are to be counted ([`crate::switch::page_counts`]), and else empty; `free` lists what
    /// the allocator may hand out; so many of the slots are for `swap`. Panics when there is not
    /// even room for the zero page.
    pub fn new(
        machine: M,
        memory: PfnRange,
        frames: &'static mut [FrameMeta],
        counts: &'static [PageCount],
        free: &[PfnRange],
        swap: u64,
    ) -> Arc<Self> {
        let frames = FrameTable::around(memory, frames, counts, free);
        let cpus = machine.cpu().count().max(1);
        let allocator = Allocator::new(frames, free, cpus);
        let switches = Switches::default();
        let take = |kind| {
            let request = AllocRequest {
                cpu: machine.cpu().id(),
                order: Order(0),
                kind,
                reserve: Reserve::Kernel,
            };
            allocator
                .alloc(request)
                .expect("no memory for the memory manager itself")
        };
        let (zero_page, idle_root) = (take(Kind::Kernel), take(Kind::Table));
        machine.mem().zero(zero_page, Order(0));
        machine.mem().zero(idle_root, Order(0));
        allocator.table().get(idle_root).page_table().set_live(0);
        Arc::new(Mm {
            stats: Stats::new(cpus),
            stalls: AtomicU64::new(0),
            deferred: Deferred::new(),
            swap: Box::new(Swap::new(allocator.table(), swap, cpus)),
            long_term: LongTermPins::default(),
            huge_zero: HugeZero::new(),
            urgent: AtomicU32::new(0),
            compacts_at: AtomicU64::new(0),
            wants_compaction: AtomicBool::new(false),
            thp: Thp::new(cpus),
            switches,
            pins: AtomicU64::new(0),
            hwpoisoned: AtomicU64::new(0),
            overcommit: Overcommit::default(),
            hugetlb: Pools::new::<M::Pte>(),
            spaces: Box::new(Registry::new()),
            objects: Box::new(Registry::new()),
            asids: Box::new(Apart(Lock::new(AsidPool::new(machine.cpu().asids())))),
            ids: Box::new(Apart(Lock::new(Ids::new()))),
            cpus: (0..cpus).map(|_| Loaded::default()).collect(),
            readers: (0..cpus).map(|_| Reader::default()).collect(),
            idle_root_ready: AtomicBool::new(false),
            machine,
            allocator,
            zero_page,
            idle_root,
        })
    }

    /// The machine it runs on.
    #[inline]
    pub fn machine(&self) -> &M {
        &self.machine
    }
    /// By CPU, the space whose lock it has as a reader.
    #[inline]
    pub(crate) fn readers(&self) -> &[Reader] {
        &self.readers
    }
    /// Returns the metadata as it is, for a simulated machine that boots later.
    pub fn into_metas(self) -> (&'static mut [FrameMeta], &'static [PageCount]) {
        self.allocator.table.into_parts()
    }
    /// The frame table.
    #[inline]
    pub fn frames(&self) -> &FrameTable {
        self.allocator.table()
    }
    /// The page allocator: its zones, counts and test hooks.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }
    /// Multi-size THP: controls and statistics.
    #[inline]
    pub fn thp(&self) -> &Thp {
        &self.thp
    }
    /// Counts `n` for folios of a size.
    #[inline]
    pub(crate) fn count_folios(&self, order: Order, stat: Stat, n: u64) {
        self.thp.stats.add(self.machine.cpu().id(), order, stat, n);
    }
    /// Counts `n` for folios of a size that are gone.
    #[inline]
    pub(crate) fn uncount_folios(&self, order: Order, stat: Stat, n: u64) {
        self.count_folios(order, stat, n.wrapping_neg());
    }
    /// Counts a PMD leaf that maps a folio.
    #[inline]
    pub(crate) fn pmd_mapped(&self) {
        self.count_huge(Huge::AnonMapped, 1);
    }
    /// Counts a PMD leaf that is gone.
    #[inline]
    pub(crate) fn pmd_unmapped(&self) {
        self.count_huge(Huge::AnonMapped, 1u64.wrapping_neg());
    }
    /// Counts a PMD leaf that is gone, of an object's folio.
    #[cold]
    #[inline(never)]
    pub(crate) fn shmem_unmapped(&self) {
        self.count_huge(Huge::ShmemMapped, 1u64.wrapping_neg());
    }
    /// Adds to a count of what has PMD size; wraps around, for subtraction.
    #[inline]
    pub(crate) fn count_huge(&self, count: Huge, n: u64) {
        self.thp.stats.add_huge(self.machine.cpu().id(), count, n);
    }
    /// The number of references that pins hold ([`crate::fault::Pin`]), of all families. Relaxed,
    /// as its changes: for checks at rest.
    pub fn pins(&self) -> u64 {
        self.pins.load(Ordering::Relaxed)
    }
    pub(crate) fn add_pins(&self, n: i64) {
        self.pins.fetch_add(n as u64, Ordering::Relaxed);
    }
    /// Which mechanisms are on.
    #[inline]
    pub fn switches(&self) -> &Switches {
        &self.switches
    }
    /// The page of zeros that read faults share.
    #[inline]
    pub fn zero_page(&self) -> Pfn {
        self.zero_page
    }

    /// The account of the references to private folios.
    #[inline]
    pub(crate) fn account(&self) -> ChosenScheme<'_> {
        ChosenScheme(&self.switches)
    }
    /// Counts the updates of the account and their read-modify-writes.
    #[inline(always)]
    pub(crate) fn metered(&self, meter: Meter) {
        self.count_all([
            (Event::AccountUpdates, meter.updates.into()),
            (Event::AccountAtomics, meter.rmws.into()),
        ]);
    }
    /// Does and counts one operation on the account of a private folio.
    #[inline(always)]
    pub(crate) fn with_account<R>(
        &self,
        head: Pfn,
        order: Order,
        operate: impl FnOnce(&ChosenScheme<'_>, &FolioBook<'_>, &mut Meter) -> R,
    ) -> R {
        let mut meter = Meter::default();
        let result = operate(
            &self.account(),
            &self.frames().book(head, order),
            &mut meter,
        );
        self.metered(meter);
        result
    }
    /// Takes one plain reference to a private folio that cannot go away meanwhile.
    pub(crate) fn add_plain(&self, head: Pfn, order: Order) {
        self.with_account(head, order, |account, book, meter| {
            account.add(book, &Owner::PLAIN, 1, meter)
        });
    }
    /// Drops one; returns whether it was the folio's last reference.
    pub(crate) fn sub_plain(&self, head: Pfn, order: Order) -> bool {
        self.with_account(head, order, |account, book, meter| {
            account.sub(book, &Owner::PLAIN, 1, meter)
        })
    }
    /// How many references a block in use has, by its head: of a private folio one for each page
    /// that an entry maps (a PMD leaf counts as 512), and pins; of an object's folio one for each
    /// page that an entry maps, and one for each page that the object has. A private folio that is
    /// not mapped yet has a plain count, for its allocator only.
    pub fn references(&self, head: Pfn) -> u64 {
        let meta = self.frames().get(head);
        match meta.kind_and_order() {
            (Kind::Anon | Kind::Swap, order) => self
                .account()
                .references(&self.frames().former_book(head, order)),
            _ => meta.refs(),
        }
    }
    /// The only address space that maps a private folio, if the account's scheme can name it; never
    /// one that shares its id.
    pub fn owner(&self, head: Pfn) -> Option<MmId> {
        match self.frames().get(head).kind_and_order() {
            (Kind::Anon, order) => self
                .account()
                .owner(&self.frames().former_book(head, order)),
            _ => None,
        }
    }

    /// Counts an event.
    #[inline]
    pub(crate) fn count(&self, event: Event, n: u64) {
        self.count_all([(event, n)]);
    }
    /// Counts some events at once: the CPU is asked for its number once.
    #[inline]
    pub(crate) fn count_all<const N: usize>(&self, events: [(Event, u64); N]) {
        self.stats.add(&self.machine, events);
    }
    /// Counts a page table that nothing points to any more, until [`Self::table_freed`]; `waits`:
    /// for a flush.
    pub(crate) fn table_unlinked(&self, waits: bool) {
        self.count_all([(Event::TableUnlinked, waits.into()), (Event::TableLimbo, 1)]);
    }
    /// Counts that it is freed.
    #[inline]
    pub(crate) fn table_freed(&self) {
        let less = 1_u64.wrapping_neg();
        self.count_all([(Event::TableFree, 1), (Event::TableLimbo, less)]);
    }
    /// Page tables that were taken out and are not free yet; exact while nothing changes.
    pub(crate) fn limbo(&self) -> i64 {
        self.stats.limbo()
    }
    /// Free frames, as in [`Self::counts`]: the cheaper question.
    pub fn free_frames(&self) -> u64 {
        self.allocator.free_frames() + self.idle_zeros()
    }
    /// Whether so many frames are free: cheaper still.
    pub fn has_free_frames(&self, frames: u64) -> bool {
        self.allocator.has_free_frames(frames) || self.free_frames() >= frames
    }
    /// Frames by use.
    pub fn counts(&self) -> FrameCounts {
        let counts = self.allocator.counts();
        let of = |kind: Kind| counts.used[kind as usize];
        let (idle, retired) = (self.idle_zeros(), self.allocator.retired());
        FrameCounts {
            total: counts.total,
            free: counts.free + idle,
            anon: of(Kind::Anon),
            object: of(Kind::Object),
            page_tables: of(Kind::Table),
            // The page may have come, or become idle, since its frames were counted.
            kernel: of(Kind::Kernel).saturating_sub(idle + retired),
            hugetlb: of(Kind::Hugetlb),
            hwpoison: retired,
        }
    }
    /// Frames the allocator was given at boot.
    #[inline]
    pub fn total_frames(&self) -> u64 {
        self.allocator.total
    }
    /// Event counters, named as in /proc/vmstat where Linux has a name: calls `f(name, value)` for
    /// each.
    pub fn for_each_event(&self, f: &mut dyn FnMut(&'static str, u64)) {
        let counts = self.allocator.counts();
        f("pgalloc_normal", counts.allocated);
        f("pgfree", counts.freed);
        f("mm_ids_common", self.common_ids());
        self.stats.for_each(f);
    }
    /// One event counter by its /proc/vmstat name.
    pub fn event(&self, name: &str) -> Option<u64> {
        let mut found = None;
        self.for_each_event(&mut |event, value| {
            if event == name {
                found = Some(value);
            }
        });
        found
    }
}
