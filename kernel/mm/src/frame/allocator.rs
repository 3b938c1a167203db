//! The page allocator: zones with their buddy lists, and the per-CPU lists in front of them. A
//! value without a machine: callers pass the id of their CPU.
//!
//! ```text
//!  alloc --- the CPU's list --- refill --- zone (buddy, reserve) --- drain the lists, once more --- None
//!  free ---- the CPU's list --- full, or memory is tight --- zone
//! ```

use super::meta::Kind;
use super::pcp::{List, Local, Pieces, add};
use super::table::FrameTable;
use super::zone::{AllocRequest, Reserve, Zone};
use crate::addr::{Order, Pfn, PfnRange};
use crate::mutant::{self, Mutant};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use alloc::boxed::Box;

/// Frames below 4 GiB are what devices with 32-bit addresses can reach: Linux's zone DMA32.
const DMA32_END: Pfn = Pfn(1 << 20);

/// So many blocks freed at once are worth a turn of the zone's lock.
const MANY: usize = 16;

/// The page allocator.
pub struct Allocator {
    /// The metadata of all frames.
    pub(crate) table: FrameTable,
    /// From low addresses to high ones.
    pub(super) zones: Box<[Zone]>,
    pub(super) cpus: Box<[Local]>,
    /// Frames it was given.
    pub(crate) total: u64,
    /// Free memory is below the watermark of every zone: frees bypass the lists.
    tight: AtomicBool,
    /// Frames that are out of use for good.
    retired: AtomicU64,
    /// Allocations that still succeed before one fails on purpose; `u64::MAX` for "never".
    fail_in: AtomicU64,
}

impl Allocator {
    /// An allocator for `cpus` CPUs, of the frames in `free`.
    pub fn new(table: FrameTable, free: &[PfnRange], cpus: usize) -> Self {
        let PfnRange { start, end } = table.span();
        let border = DMA32_END.clamp(start, end);
        let spans = [
            ("DMA32", PfnRange::new(start, border)),
            ("Normal", PfnRange::new(border, end)),
        ];
        let zones: Box<[Zone]> = spans
            .into_iter()
            .filter(|(_, span)| !span.is_empty())
            .map(|(name, span)| Zone::new(name, span, &table, free))
            .collect();
        let total = zones.iter().map(|zone| zone.managed).sum();
        Allocator {
            table,
            cpus: (0..cpus).map(|_| Local::new(total, cpus)).collect(),
            zones,
            total,
            tight: AtomicBool::new(false),
            retired: AtomicU64::new(0),
            fail_in: AtomicU64::new(u64::MAX),
        }
    }

    /// Takes a block with one reference; `None` when there is none so far into the reserve.
    #[inline(always)]
    pub fn alloc(&self, request: AllocRequest) -> Option<Pfn> {
        match self.alloc_from_list(request) {
            Some(pfn) => Some(pfn),
            None => self.alloc_slowly(request),
        }
    }

    /// Fast path: a block from the CPU's list. It calls nothing, so it saves no registers.
    #[inline(always)]
    pub(crate) fn alloc_from_list(&self, request: AllocRequest) -> Option<Pfn> {
        let local = &self.cpus[request.cpu];
        if self.fail_in.load(Ordering::Relaxed) != u64::MAX {
            return None;
        }
        let index = local.list_for(request.order, request.kind)?.pop()?;
        Some(hand_out(&self.table, local, index, request))
    }

    /// Slow path, after [`Self::alloc_from_list`] found nothing.
    #[inline(never)]
    pub(crate) fn alloc_slowly(&self, request: AllocRequest) -> Option<Pfn> {
        let local = &self.cpus[request.cpu];
        if self.fails() {
            return None;
        }
        let list = local.list_for(request.order, request.kind);
        let cached = list.and_then(List::pop);
        let index = cached.or_else(|| self.take_from_zones(local, request))?;
        Some(hand_out(&self.table, local, index, request))
    }

    /// Gives back blocks whose last reference is gone. Panics on a frame that is free, that was
    /// never handed out, that is not the first of its block, or that has references.
    #[inline]
    pub fn free(&self, cpu: usize, blocks: &[Pfn]) {
        self.free_each(&self.table, &self.cpus[cpu], blocks);
    }
    /// [`Self::free`] to the lists of one CPU. In line: a copy for each caller's number of blocks.
    #[inline(always)]
    fn free_each(&self, table: &FrameTable, local: &Local, blocks: &[Pfn]) {
        let many = blocks.len() >= MANY;
        let mut rest = blocks;
        while let Some((&pfn, behind)) = rest.split_first() {
            let (kind, order) = unused(table, pfn);
            let has_room = |list: &List| !many || !list.is_full();
            if local.list_for(order, kind).is_some_and(has_room) {
                self.keep(table, local, pfn, kind, order);
                rest = behind;
                continue;
            }
            // Blocks of one kind in a row without a list, or many for which it has no room: they
            // go to the zone together, where neighbours merge first.
            table.get(pfn).set_cached(order);
            let mut row = 1;
            while let Some(&pfn) = rest.get(row)
                && unused(table, pfn) == (kind, order)
            {
                table.get(pfn).set_cached(order);
                row += 1;
            }
            let (row, behind) = rest.split_at(row);
            add(&local.freed[kind as usize], (row.len() as u64) << order.0);
            self.give(order, row.iter().map(|pfn| table.index(*pfn)));
            rest = behind;
        }
    }
    /// [`Self::free`] of one frame, which the caller knows to be a block of this kind.
    #[inline(always)]
    pub(crate) fn free_page(&self, cpu: usize, pfn: Pfn, kind: Kind) {
        let meta = self.table.get(pfn);
        if !kind.in_use() || meta.refs() != 0 {
            meta.bad_free(pfn, kind, Order(0));
        }
        self.keep(&self.table, &self.cpus[cpu], pfn, kind, Order(0));
    }

    /// Gives back a block of known order and kind by its only reference. Panics when its order or
    /// kind is another or there are more references.
    #[inline]
    pub fn free_owned(&self, cpu: usize, pfn: Pfn, order: Order, kind: Kind) {
        let meta = self.table.get(pfn);
        if !kind.in_use() || !meta.is(kind, order) || meta.refs() != 1 {
            meta.bad_free(pfn, kind, order);
        }
        meta.set_refs(0);
        self.keep(&self.table, &self.cpus[cpu], pfn, kind, order);
    }

    /// Takes a frame in use, which is a block without references, out of use for good.
    pub(crate) fn retire(&self, cpu: usize, pfn: Pfn) {
        let (kind, order) = unused(&self.table, pfn);
        assert!(order == Order(0), "{pfn:?} is retired with its block");
        let local = &self.cpus[cpu];
        add(&local.freed[kind as usize], 1);
        add(&local.allocated[Kind::Kernel as usize], 1);
        self.retired.fetch_add(1, Ordering::Relaxed);
        // It counts as the kernel's: another kind would cost each free a comparison.
        let meta = self.table.get(pfn);
        meta.set(Kind::Kernel, Order(0));
        meta.set_hwpoison();
    }

    /// Counts frames in use as another kind.
    pub(crate) fn recount(&self, cpu: usize, from: Kind, to: Kind, pages: u64) {
        let local = &self.cpus[cpu];
        add(&local.freed[from as usize], pages);
        add(&local.allocated[to as usize], pages);
    }

    /// Makes a block in use, to which nobody else has a reference, one of another kind, with one
    /// reference.
    pub(crate) fn make_other(&self, cpu: usize, pfn: Pfn, order: Order, from: Kind, to: Kind) {
        self.recount(cpu, from, to, order.pages());
        let meta = self.table.get(pfn);
        meta.set(to, order);
        meta.set_refs(1);
    }

    /// Frames that are out of use for good. Relaxed: the number stands for itself.
    pub(crate) fn retired(&self) -> u64 {
        self.retired.load(Ordering::Relaxed)
    }

    /// Frees a block to its list or to its zone.
    #[inline(always)]
    fn keep(&self, table: &FrameTable, local: &Local, pfn: Pfn, kind: Kind, order: Order) {
        add(&local.freed[kind as usize], order.pages());
        table.get(pfn).set_cached(order);
        let (index, list) = (table.index(pfn), local.list_for(order, kind));
        let kept = list.is_some_and(|list| !self.is_tight() && list.push(index));
        if !kept {
            self.to_zones(local, list, index, order);
        }
    }

    /// Drains the lists of this CPU into the zones, where blocks merge; returns the number of
    /// frames. Other CPUs are requested to do the same, and do when they next enter a zone.
    pub fn drain(&self, cpu: usize) -> u64 {
        self.ask_others();
        self.drain_own(&self.cpus[cpu])
    }
    /// Drains the lists of this CPU if another one has requested that.
    #[inline]
    pub(crate) fn drain_if_asked(&self, cpu: usize) {
        let local = &self.cpus[cpu];
        if local.asked.load(Ordering::Relaxed) {
            self.drain_own(local);
        }
    }
    fn ask_others(&self) {
        for other in self.cpus.iter().filter(|other| other.cached() != 0) {
            match mutant::on(Mutant::DrainOthers) {
                true => drop(self.drain_own(other)),
                false => other.asked.store(true, Ordering::Relaxed),
            }
        }
    }
    fn drain_own(&self, local: &Local) -> u64 {
        let drained = local.cached();
        for list in &local.lists {
            list.remove_oldest(usize::MAX, |blocks| self.give(list.order, blocks));
        }
        local.asked.store(false, Ordering::Relaxed);
        drained
    }

    /// A block from the zones, with a batch for the list if the order has one. On failure the lists
    /// are drained for a second try, but not for a large block of a user: a smaller folio will do.
    fn take_from_zones(&self, local: &Local, request: AllocRequest) -> Option<u32> {
        if local.asked.load(Ordering::Relaxed) {
            self.drain_own(local);
        }
        let found = self.try_zones(local, request);
        if found.is_some() || request.order != Order(0) && request.reserve == Reserve::User {
            return found;
        }
        self.ask_others();
        if self.drain_own(local) == 0 {
            return None;
        }
        self.try_zones(local, request)
    }

    /// High addresses first.
    fn try_zones(&self, local: &Local, request: AllocRequest) -> Option<u32> {
        let list = local.list_for(request.order, request.kind);
        let (table, mut zones) = (&self.table, self.zones.iter().rev());
        let found = match list.filter(|list| list.capacity() != 0) {
            Some(list) => zones.find_map(|zone| {
                let mut pieces = Pieces::new();
                zone.take_pieces(table, request, list.refill_most(), &mut pieces);
                list.refill(table, &pieces);
                list.pop()
            }),
            None => zones.find_map(|zone| Some(table.index(zone.alloc(table, request)?))),
        };
        self.note();
        found
    }

    /// Slow path of a free: makes room in a full list; a block without a list goes to its zone.
    #[inline(never)]
    fn to_zones(&self, local: &Local, list: Option<&List>, index: u32, order: Order) {
        if local.asked.load(Ordering::Relaxed) {
            self.drain_own(local);
        }
        if let Some(list) = list.filter(|_| !self.is_tight()) {
            list.remove_oldest(list.surplus(), |blocks| self.give(order, blocks));
            if list.push(index) {
                return;
            }
        }
        self.give(order, core::iter::once(index));
    }

    /// Gives blocks of 2^order frames to their zones.
    #[inline(never)]
    pub(super) fn give(&self, order: Order, blocks: impl Iterator<Item = u32> + Clone) {
        if let [zone] = &*self.zones {
            zone.free(&self.table, order, blocks);
            return self.note();
        }
        for zone in &self.zones {
            let here = |index: &u32| zone.span.contains(self.table.pfn(*index));
            let mut blocks = blocks.clone().filter(here).peekable();
            if blocks.peek().is_some() {
                zone.free(&self.table, order, blocks);
            }
        }
        self.note();
    }

    /// Notes whether memory is tight. Relaxed: a hint. Each allocation reads the line, so it is
    /// written only when that changes.
    pub(super) fn note(&self) {
        let tight = self.zones.iter().all(Zone::is_tight);
        if tight != self.is_tight() {
            self.tight.store(tight, Ordering::Relaxed);
        }
    }

    /// Whether this allocation is to fail on purpose; counts down to it.
    fn fails(&self) -> bool {
        let left = self.fail_in.load(Ordering::Relaxed);
        if left != u64::MAX {
            self.fail_in
                .store(left.saturating_sub(1), Ordering::Relaxed);
        }
        left == 0
    }
    /// Fault injection: lets `n` more allocations succeed and makes all after them fail, until it
    /// is called again; `None`: none fails.
    pub fn fail_after(&self, n: Option<u64>) {
        self.fail_in.store(n.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether free memory is short: it fell below the low mark of every zone.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }
    /// The metadata of the frames.
    #[inline]
    pub fn table(&self) -> &FrameTable {
        &self.table
    }
    /// The zones, from low addresses to high ones.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }
}

// Hot paths get the table as a reference of its own: what it holds is then known not to change when
// a word of the allocator or of a frame is written.

/// The kind and order of a block that is freed. Panics when it is none, or has references.
#[inline(always)]
fn unused(table: &FrameTable, pfn: Pfn) -> (Kind, Order) {
    let meta = table.get(pfn);
    let (kind, order) = meta.kind_and_order();
    if !kind.in_use() || meta.refs() != 0 {
        meta.bad_free(pfn, kind, order);
    }
    (kind, order)
}

/// Marks a block as in use, with one reference.
#[inline]
fn hand_out(table: &FrameTable, local: &Local, index: u32, request: AllocRequest) -> Pfn {
    let AllocRequest { order, kind, .. } = request;
    add(&local.allocated[kind as usize], order.pages());
    let meta = table.at(index);
    meta.set(kind, order);
    meta.set_refs(1);
    table.pfn(index)
}
