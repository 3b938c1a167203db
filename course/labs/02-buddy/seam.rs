//! Lab 2: free lists and per-CPU lists by the student's code. Each step is checked before it is
//! done; a wrong one panics, in words that a student can go on with.

use super::allocator::Allocator;
use super::buddy::{Buddy, largest_blocks};
use super::meta::Kind;
use super::pageblock::{Mobility, PAGEBLOCK};
use super::pcp::List;
use super::table::FrameTable;
use super::zone::{AllocRequest, Zone};
use crate::addr::{Order, Pfn, PfnRange};
use crate::switch::Switches;
use crate::sync::{AtomicBool, Ordering};
use alloc::sync::Arc;
use core::ops::Range;
use labs::buddy::referee::{self, Owner};
use labs::buddy::{Cpu, Lists, Solution};

/// Whether the student's code is in use.
#[derive(Default)]
pub(super) struct Lab(Arc<AtomicBool>);

impl Lab {
    #[inline]
    pub fn on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// [`Buddy`]'s `take`, of exactly the order `least`.
#[inline(never)]
pub(super) fn take(
    buddy: &mut Buddy,
    table: &FrameTable,
    least: Order,
    want: Mobility,
) -> Option<Pfn> {
    let mut lists = Given::taking(buddy, table, least, want);
    referee::take(&Solution, &mut lists, least.0).map(Pfn)
}

/// [`Buddy::free`].
#[inline(never)]
pub(super) fn give(buddy: &mut Buddy, table: &FrameTable, pfn: Pfn, order: Order) {
    table.get(pfn).set(Kind::Reserved, Order(0));
    referee::give(&Solution, &mut Given::new(buddy, table), pfn.0, order.0);
}

impl Allocator {
    /// Has the switch of the lab count.
    pub(crate) fn follow(&self, switches: &Switches) {
        for zone in &self.zones {
            zone.buddy.lock().lab.0 = switches.in_lab.clone();
        }
    }
    /// Has the student make room in a full list; `false`: the kernel does. Its blocks may be of
    /// several zones where there is more than one.
    pub(super) fn drain_in_lab(&self, list: &List) -> bool {
        let [zone] = &*self.zones else { return false };
        if !zone.in_lab() || list.capacity() == 0 {
            return false;
        }
        // The lists may have been drained for another CPU just now.
        if list.is_full() {
            zone.drain(&self.table, list);
            self.note();
        }
        true
    }
}

impl Zone {
    /// Whether the student's code is in use.
    pub(super) fn in_lab(&self) -> bool {
        self.look(|buddy| buddy.lab.on())
    }
    /// Has the student make room in the full list of a CPU.
    fn drain(&self, table: &FrameTable, list: &List) {
        let mut buddy = self.buddy.lock();
        let mut lists = Given::new(&mut buddy, table);
        lists.list = Some(list);
        referee::drain(&Solution, &mut lists, list.order.0);
        drop(lists);
        self.note(&buddy);
    }
    /// Has the student fill the empty list of a CPU.
    pub(super) fn refill(&self, table: &FrameTable, request: AllocRequest, list: &List) {
        let mut buddy = self.buddy.lock();
        let most = self.wanted(&buddy, request, list.refill_most());
        if most > 0 {
            let want = Mobility::of(request.kind);
            let mut lists = Given::taking(&mut buddy, table, request.order, want);
            lists.list = Some(list);
            referee::refill(&Solution, &mut lists, request.order.0, most);
        }
        self.note(&buddy);
    }
}

/// What the student is given.
struct Given<'a> {
    buddy: &'a mut Buddy,
    table: &'a FrameTable,
    list: Option<&'a List>,
    /// Blocks that were taken out of the list, the oldest.
    drained: usize,
    /// Of which mobility memory is taken, and in blocks of which order at least.
    want: Option<(Mobility, Order)>,
    /// The lists to take it from while there is none of this mobility, and the order there.
    elsewhere: Option<(Mobility, Order)>,
}

impl<'a> Given<'a> {
    fn new(buddy: &'a mut Buddy, table: &'a FrameTable) -> Self {
        Given {
            buddy,
            table,
            list: None,
            drained: 0,
            want: None,
            elsewhere: None,
        }
    }
    fn taking(buddy: &'a mut Buddy, table: &'a FrameTable, least: Order, want: Mobility) -> Self {
        let elsewhere = match buddy.smallest(table, least, want) {
            Some(_) => None,
            None => buddy.elsewhere(table, least, want),
        };
        let mut given = Given::new(buddy, table);
        given.want = Some((want, least));
        given.elsewhere = elsewhere.map(|(from, (_, order))| (from, order));
        given
    }

    /// Of which mobility the lists are that the student sees, and which are not empty.
    fn shown(&self) -> (Mobility, u32) {
        let from = |(of, least): (Mobility, Order)| {
            let all = self.buddy.lists[of as usize].nonempty;
            (of, all >> least.0 << least.0)
        };
        let own = from(self.want.unwrap_or((Mobility::Movable, Order(0))));
        match self.elsewhere {
            Some(other) if own.1 == 0 => from(other),
            _ => own,
        }
    }
    fn is_here(&self, frame: u64) -> bool {
        self.buddy.pageblocks.covers(Pfn(frame)) && self.table.try_get(Pfn(frame)).is_some()
    }
}

impl Lists for Given<'_> {
    fn orders(&self) -> u32 {
        self.shown().1
    }
    fn first(&self, order: u8) -> Option<u64> {
        let (of, orders) = self.shown();
        let some = orders & 1 << order != 0;
        some.then(|| self.buddy.head(self.table, Order(order), of).0)
    }
    fn order(&self, frame: u64) -> Option<u8> {
        if !self.is_here(frame) {
            return None;
        }
        let meta = self.table.get(Pfn(frame));
        meta.is_free().then_some(meta.order().0)
    }
    fn remove(&mut self, frame: u64, order: u8) {
        let (pfn, order) = (Pfn(frame), Order(order));
        let home = self.buddy.home(pfn, order);
        self.buddy.unlink(self.table, pfn, order, home);
        self.buddy.free -= order.pages();
        if let Some((want @ Mobility::Unmovable, _)) = self.want
            && order >= PAGEBLOCK
        {
            self.buddy.pageblocks.set(pfn, order, want);
        }
    }
    fn push(&mut self, frame: u64, order: u8) {
        let (pfn, order) = (Pfn(frame), Order(order));
        if order >= PAGEBLOCK {
            let movable = Mobility::Movable;
            self.buddy.pageblocks.set(pfn, order, movable);
        }
        let home = self.buddy.home(pfn, order);
        self.buddy.push(self.table, pfn, order, home);
        self.buddy.free += order.pages();
    }
}

impl Cpu for Given<'_> {
    fn count(&self) -> usize {
        self.list.map_or(0, |list| list.len() - self.drained)
    }
    fn batch(&self) -> usize {
        self.list.map_or(0, List::batch)
    }
    fn keep(&mut self, frame: u64) {
        if let Some(list) = self.list {
            self.table.get(Pfn(frame)).set_cached(list.order);
            list.push(self.table.index(Pfn(frame)));
        }
    }
    fn oldest(&mut self) -> Option<u64> {
        let pfn = self.table.pfn(self.list?.oldest_but(self.drained)?);
        self.table.get(pfn).set(Kind::Reserved, Order(0));
        self.drained += 1;
        Some(pfn.0)
    }
}

impl Owner for Given<'_> {
    /// From now on the kernel's own code is used: the simulated machine ends in order.
    fn restore(&mut self, frames: Range<u64>) {
        self.buddy.lab.0.store(false, Ordering::Relaxed);
        let range = PfnRange::new(Pfn(frames.start), Pfn(frames.end));
        for (pfn, order) in largest_blocks(range) {
            self.buddy.free(self.table, pfn, order);
        }
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if let Some(list) = self.list.filter(|_| self.drained > 0) {
            list.remove_oldest(self.drained, |_| ());
        }
    }
}
