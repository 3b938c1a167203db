//! Allocation of frames: the page allocator, and what is tried when it has none.

use super::{Mm, OutOfMemory, Result};
use crate::addr::{Order, Pfn};
use crate::arch::{Cpu, Machine, PhysMem};
use crate::frame::slots::UNIT;
use crate::frame::zone::Reserve;
use crate::frame::{AllocRequest, Kind};
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::sync::Ordering;
use crate::thp::{Huge, PMD_ORDER, Stat};

impl<M: Machine> Mm<M> {
    /// 2^order frames for the kernel itself (heap, stacks); not zeroed. May use the reserve that
    /// user allocations may not.
    pub fn alloc_kernel(&self, order: Order) -> Option<Pfn> {
        self.alloc(order, Kind::Kernel, Reserve::Kernel).ok()
    }
    /// Gives back what [`Self::alloc_kernel`] handed out, with the same order.
    pub fn free_kernel(&self, pfn: Pfn, order: Order) {
        self.poison(&[pfn]);
        let cpu = self.machine.cpu().id();
        self.allocator.free_owned(cpu, pfn, order, Kind::Kernel);
    }

    /// 2^order frames with one reference, not zeroed.
    #[inline]
    pub(crate) fn alloc(&self, order: Order, kind: Kind, reserve: Reserve) -> Result<Pfn> {
        let request = self.request(order, kind, reserve);
        match self.allocator.alloc_from_list(request) {
            Some(pfn) => Ok(self.check_poison(pfn, order)),
            // The request anew: built before the branch, it costs the fast path registers.
            None => self.alloc_slowly(order, kind, reserve),
        }
    }
    /// A request of the CPU that runs. In line: it stays in registers.
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
    fn alloc_slowly(&self, order: Order, kind: Kind, reserve: Reserve) -> Result<Pfn> {
        let request = self.request(order, kind, reserve);
        let alloc = || self.allocator.alloc_slowly(request);
        if self.allocator.is_tight() && self.slots().total() != 0 {
            self.machine.memory_is_tight();
        }
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
        self.stalls.fetch_add(1, Ordering::Relaxed);
        let urgent = reserve == Reserve::User && self.urgent.load(Ordering::Relaxed) > 0;
        let allocator = urgent.then_some(&self.allocator)?;
        let reserve = Reserve::Urgent;
        allocator.alloc(AllocRequest { reserve, ..request })
    }
    /// Whether a folio of this order is to be waited for when there is none, not replaced by
    /// smaller ones: it has at most 64 kB, and memory is tight, so that what is stored next may
    /// leave as much side by side. If it is not tight, it is in pieces ([`Self::may_compact`]).
    pub fn is_worth_waiting(&self, order: Order) -> bool {
        (1..=UNIT.0).contains(&order.0) && self.slots().total() != 0 && self.allocator.is_tight()
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
        self.stalls.load(Ordering::Relaxed)
    }
    /// One zeroed frame for a page table or for user memory.
    #[inline]
    pub(crate) fn alloc_zeroed(&self, kind: Kind, reserve: Reserve) -> Result<Pfn> {
        let pfn = self.alloc(Order(0), kind, reserve)?;
        self.zero(pfn, Order(0));
        Ok(pfn)
    }
    /// Frees blocks whose last reference is gone (and whose flush is done: see `tlb::gather`).
    #[inline]
    pub(crate) fn free(&self, blocks: &[Pfn]) {
        for (at, &pfn) in blocks.iter().enumerate() {
            let (kind, order, hugetlb) = self.frames().get(pfn).kind_order_hugetlb();
            if order == Order(0) {
                continue;
            }
            if hugetlb || kind != Kind::Anon {
                return self.free_with_others(blocks, at);
            }
            self.large_folio_ends(pfn, order);
        }
        self.to_allocator(blocks);
    }
    /// Gives blocks to the allocator, in line as [`Self::free`] is.
    #[inline(always)]
    fn to_allocator(&self, blocks: &[Pfn]) {
        self.poison(blocks);
        self.allocator.free(self.machine.cpu().id(), blocks);
    }
    /// [`Self::free`] of blocks of which the one at `at` is the first large one that is no private
    /// folio, or is a huge page.
    #[cold]
    #[inline(never)]
    fn free_with_others(&self, blocks: &[Pfn], at: usize) {
        let (before, rest) = blocks.split_at(at);
        self.to_allocator(before);
        for block in rest.chunks(1) {
            let (kind, order, hugetlb) = self.frames().get(block[0]).kind_order_hugetlb();
            if hugetlb && !mutant::on(Mutant::FreeHugePages) {
                self.give_huge(block[0]);
                continue;
            }
            if !hugetlb && (kind == Kind::Anon || order == Order(0)) {
                self.free(block);
                continue;
            }
            if !hugetlb && kind == Kind::Object && order == PMD_ORDER {
                self.count_huge(Huge::Shmem, 1u64.wrapping_neg());
            }
            self.to_allocator(block);
        }
    }
    /// [`Self::free`] of one block.
    #[inline(always)]
    pub(crate) fn free_one(&self, pfn: Pfn) {
        let (kind, order) = self.frames().get(pfn).kind_and_order();
        if cfg!(debug_assertions) || order != Order(0) {
            return self.free(&[pfn]);
        }
        self.allocator.free_page(self.machine.cpu().id(), pfn, kind);
    }
    /// Drains this CPU's lists, and the huge zero page if no leaf maps it, into the zones, and
    /// requests the same of the other CPUs; returns the number of frames.
    pub fn drain_pcp(&self) -> u64 {
        let zeros = self.free_idle_zeros();
        zeros + self.allocator.drain(self.machine.cpu().id())
    }
    /// Bookkeeping for a large private folio that is about to be freed or split.
    #[inline]
    pub(crate) fn large_folio_ends(&self, pfn: Pfn, order: Order) {
        self.end_deferred(pfn, order);
        self.uncount_folios(order, Stat::NrAnon, 1);
    }
    /// Fills 2^order frames with zeros.
    #[inline]
    pub(crate) fn zero(&self, first: Pfn, order: Order) {
        self.count(Event::Zeroed, order.pages());
        self.machine.mem().zero(first, order);
    }
}
