//! [`Mm`], one memory manager as a value: machine, frame table, allocator, zero pages, tags,
//! account and counters. Tests own many.

mod cpus;
mod deferred;
mod inspect;
mod long_term;
mod poison;
mod zero;

pub use cpus::SpaceId;
pub use inspect::FrameInfo;
pub(crate) use long_term::LongTerm;

use crate::addr::{Order, Pfn, PfnRange};
use crate::arch::{Cpu, Machine, PhysMem};
use crate::asid::AsidPool;
use crate::frame::table::FolioBook;
use crate::frame::zone::Reserve;
use crate::frame::{AllocRequest, Allocator, FrameMeta, FrameTable, Kind};
use crate::own::{Account, Chosen, Ids, Meter, MmId, PageCount};
use crate::stat::{Event, Stats};
use crate::switch::Switches;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Lock, Ordering, rank};
use crate::thp::{Stat, Thp};
use alloc::boxed::Box;
use alloc::sync::Arc;
use deferred::Deferred;
use long_term::LongTermPins;
use zero::HugeZero;

pub use fallible::OutOfMemory;

/// The memory manager: machine, frame table, allocator, zero page, counters.
pub struct Mm<M: Machine> {
    machine: M,
    frames: FrameTable,
    allocator: Allocator,
    deferred: Deferred,
    long_term: LongTermPins,
    huge_zero: HugeZero,
    stats: Stats,
    /// How many calls of [`Mm::urgently`] run.
    urgent: AtomicU32,
    thp: Thp,
    switches: Switches,
    /// References that pins hold.
    pins: AtomicU64,
    asids: Lock<AsidPool, { rank::ASID }>,
    ids: Lock<Ids, { rank::MM_ID }>,
    zero_page: Pfn,
    /// A root with nothing in its user half, for a CPU whose address space ends while it is loaded.
    idle_root: Pfn,
    idle_root_ready: AtomicBool,
    /// The root that each CPU has loaded, 0 before the first.
    active: Box<[AtomicU64]>,
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
}

impl<M: Machine> Mm<M> {
    /// `frames` describes frames `first ..` (all bytes zero, see [`FrameMeta`], but for what
    /// [`crate::frame::table::parts`] leaves out); `counts` is as long when mappings of single
    /// pages are to be counted ([`crate::switch::page_counts`]), and else empty; `free` lists what
    /// the allocator may hand out. Panics when there is not even room for the zero page.
    pub fn new(
        machine: M,
        first: Pfn,
        frames: &'static mut [FrameMeta],
        counts: &'static [PageCount],
        free: &[PfnRange],
    ) -> Arc<Self> {
        let frames = FrameTable::around(first, frames, counts, free);
        let cpus = machine.cpu().count().max(1);
        let allocator = Allocator::new(&frames, free, cpus);
        let take = |kind| {
            let request = AllocRequest {
                cpu: machine.cpu().id(),
                order: Order(0),
                kind,
                reserve: Reserve::Kernel,
            };
            allocator
                .alloc(&frames, request)
                .expect("no memory for the memory manager itself")
        };
        let (zero_page, idle_root) = (take(Kind::Kernel), take(Kind::Table));
        machine.mem().zero(zero_page, Order(0));
        machine.mem().zero(idle_root, Order(0));
        frames.get(idle_root).page_table().set_live(0);
        Arc::new(Mm {
            stats: Stats::new(cpus),
            deferred: Deferred::new(),
            long_term: LongTermPins::new(),
            huge_zero: HugeZero::new(),
            urgent: AtomicU32::new(0),
            thp: Thp::default(),
            switches: Switches::default(),
            pins: AtomicU64::new(0),
            asids: Lock::new(AsidPool::new(machine.cpu().asids())),
            ids: Lock::new(Ids::new()),
            active: (0..cpus).map(|_| AtomicU64::new(0)).collect(),
            idle_root_ready: AtomicBool::new(false),
            machine,
            frames,
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
    /// Returns the metadata as it is, for a simulated machine that boots later.
    pub fn into_metas(self) -> (&'static mut [FrameMeta], &'static [PageCount]) {
        self.frames.into_parts()
    }
    /// The frame table.
    #[inline]
    pub fn frames(&self) -> &FrameTable {
        &self.frames
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
    /// The number of references that pins hold ([`crate::fault::Pin`]). Relaxed, as its changes:
    /// for checks at rest, and for questions about pages of a locked space, which are pinned under
    /// its lock.
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

    /// 2^order frames for the kernel itself (heap, stacks); not zeroed. May use the reserve that
    /// user allocations may not.
    pub fn alloc_kernel(&self, order: Order) -> Option<Pfn> {
        self.alloc(order, Kind::Kernel, Reserve::Kernel).ok()
    }
    /// Gives back what [`Self::alloc_kernel`] handed out, with the same order.
    pub fn free_kernel(&self, pfn: Pfn, order: Order) {
        self.poison(&[pfn]);
        let cpu = self.machine.cpu().id();
        self.allocator
            .free_owned(&self.frames, cpu, pfn, order, Kind::Kernel);
    }

    /// 2^order frames with one reference, not zeroed.
    #[inline]
    pub(crate) fn alloc(
        &self,
        order: Order,
        kind: Kind,
        reserve: Reserve,
    ) -> Result<Pfn, OutOfMemory> {
        let request = self.request(order, kind, reserve);
        match self.allocator.alloc_from_list(&self.frames, request) {
            Some(pfn) => Ok(self.check_poison(pfn, order)),
            // The request anew: built before the branch, it costs the fast path registers.
            None => self.alloc_slowly(order, kind, reserve),
        }
    }
    #[inline(always)]
    fn request(&self, order: Order, kind: Kind, reserve: Reserve) -> AllocRequest {
        AllocRequest {
            cpu: self.machine.cpu().id(),
            order,
            kind,
            reserve,
        }
    }
    #[inline(never)]
    fn alloc_slowly(&self, order: Order, kind: Kind, reserve: Reserve) -> Result<Pfn, OutOfMemory> {
        let request = self.request(order, kind, reserve);
        let alloc = || self.allocator.alloc_slowly(&self.frames, request);
        alloc()
            .or_else(|| (self.free_idle_zeros() > 0).then(alloc).flatten())
            .or_else(|| self.stalled(request))
            .map(|pfn| self.check_poison(pfn, order))
            .ok_or(OutOfMemory)
    }
    /// Counts a failure (not that of a large folio or piece of heap, which a smaller one replaces),
    /// and tries the reserve while [`Self::urgently`] runs.
    #[cold]
    fn stalled(&self, request: AllocRequest) -> Option<Pfn> {
        let AllocRequest { order, reserve, .. } = request;
        if order > Order(0) && (reserve != Reserve::Kernel || order > Order(3)) {
            return None;
        }
        self.count(Event::AllocStall, 1);
        let urgent = reserve == Reserve::User && self.urgent.load(Ordering::Relaxed) > 0;
        let allocator = urgent.then_some(&self.allocator)?;
        let reserve = Reserve::Urgent;
        allocator.alloc(&self.frames, AllocRequest { reserve, ..request })
    }
    /// Lets user memory have half of the reserve while `f` runs: for faults that cannot wait for
    /// free memory. The caller reclaims memory as soon as it can.
    pub fn urgently<R>(&self, f: impl FnOnce() -> R) -> R {
        // Relaxed: an allocation on another CPU at the same time may have a part of it, too.
        self.urgent.fetch_add(1, Ordering::Relaxed);
        let result = f();
        self.urgent.fetch_sub(1, Ordering::Relaxed);
        result
    }
    /// The number of failed allocations ([`Event::AllocStall`]): when it grew during a call that
    /// failed, memory was the reason.
    #[inline]
    pub fn stalls(&self) -> u64 {
        self.stats.get(Event::AllocStall as usize)
    }
    /// One zeroed frame for a page table or for user memory.
    #[inline]
    pub(crate) fn alloc_zeroed(&self, kind: Kind, reserve: Reserve) -> Result<Pfn, OutOfMemory> {
        let pfn = self.alloc(Order(0), kind, reserve)?;
        self.zero(pfn, Order(0));
        Ok(pfn)
    }
    /// Frees blocks whose last reference is gone (and whose flush is done: see `tlb::gather`).
    #[inline]
    pub(crate) fn free(&self, blocks: &[Pfn]) {
        for &pfn in blocks {
            let meta = self.frames.get(pfn);
            let order = meta.order();
            if order != Order(0) && meta.kind() == Kind::Anon {
                self.large_folio_ends(pfn, order);
            }
        }
        self.poison(blocks);
        self.allocator
            .free(&self.frames, self.machine.cpu().id(), blocks);
    }
    /// [`Self::free`] of one block.
    #[inline(always)]
    pub(crate) fn free_one(&self, pfn: Pfn) {
        if cfg!(debug_assertions) || self.frames.get(pfn).order() != Order(0) {
            return self.free(&[pfn]);
        }
        self.allocator
            .free_page(&self.frames, self.machine.cpu().id(), pfn);
    }
    /// Drains this CPU's lists, and the huge zero page if no leaf maps it, into the zones, and
    /// requests the same of the other CPUs; returns the number of frames.
    pub fn drain_pcp(&self) -> u64 {
        let zeros = self.free_idle_zeros();
        zeros + self.allocator.drain(&self.frames, self.machine.cpu().id())
    }
    /// Bookkeeping for a large private folio that is about to be freed or split.
    #[inline]
    pub(crate) fn large_folio_ends(&self, pfn: Pfn, order: Order) {
        if self.frames.get(pfn).deferred() {
            self.forget_deferred(pfn, order);
        }
        self.thp.stats.sub(order, Stat::NrAnon, 1);
    }
    /// Fills 2^order frames with zeros.
    #[inline]
    pub(crate) fn zero(&self, first: Pfn, order: Order) {
        self.count(Event::Zeroed, order.pages());
        self.machine.mem().zero(first, order);
    }

    /// The account of the references to private folios.
    #[inline]
    pub(crate) fn account(&self) -> Chosen<'_> {
        Chosen(&self.switches)
    }
    /// Counts the updates of the account and their read-modify-writes.
    #[inline]
    pub(crate) fn metered(&self, meter: Meter) {
        self.count(Event::AccountUpdates, meter.updates.into());
        self.count(Event::AccountAtomics, meter.rmws.into());
    }
    /// Does and counts one operation on the account of a private folio.
    #[inline(always)]
    pub(crate) fn with_account<R>(
        &self,
        head: Pfn,
        order: Order,
        operate: impl FnOnce(&Chosen<'_>, &FolioBook<'_>, &mut Meter) -> R,
    ) -> R {
        let mut meter = Meter::default();
        let result = operate(&self.account(), &self.frames.book(head, order), &mut meter);
        self.metered(meter);
        result
    }
    /// How many references a block in use has, by its head: of a private folio one for each page
    /// that an entry maps (a PMD leaf counts as 512), and pins; of an object's page one for each
    /// entry and one for the object. A private folio that is not mapped yet has a plain count, for
    /// its allocator only.
    pub fn references(&self, head: Pfn) -> u64 {
        let meta = self.frames.get(head);
        match meta.kind() {
            Kind::Anon => self
                .account()
                .references(&self.frames.book(head, meta.order())),
            _ => meta.refs(),
        }
    }
    /// The only address space that maps a private folio, if the account's scheme can name it; never
    /// one that shares its id.
    pub fn owner(&self, head: Pfn) -> Option<MmId> {
        let meta = self.frames.get(head);
        if meta.kind() != Kind::Anon {
            return None;
        }
        self.account().owner(&self.frames.book(head, meta.order()))
    }

    /// Counts an event.
    #[inline]
    pub(crate) fn count(&self, event: Event, n: u64) {
        self.stats.add(&self.machine, event, n);
    }
    /// Frames by use.
    pub fn counts(&self) -> FrameCounts {
        let counts = self.allocator.counts();
        let of = |kind: Kind| counts.used[kind as usize];
        let idle = self.idle_zeros();
        FrameCounts {
            total: counts.total,
            free: counts.free + idle,
            anon: of(Kind::Anon),
            object: of(Kind::Object),
            page_tables: of(Kind::Table),
            kernel: of(Kind::Kernel) - idle,
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
        match name {
            "pgalloc_normal" => Some(self.allocator.counts().allocated),
            "pgfree" => Some(self.allocator.counts().freed),
            "mm_ids_common" => Some(self.common_ids()),
            _ => self.stats.by_name(name),
        }
    }
}
