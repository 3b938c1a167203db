//! The kernel's own page allocator, with what compaction asks of it
//! (`kernel/mm/src/verbs/compact.rs`).

use crate::HUGE;
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Policy, Want};
use mm::addr::{Order, Pfn, PfnRange};
use mm::frame::compact::{DEFERRED_FOR, Held, TRIES};
use mm::frame::zone::Reserve;
use mm::frame::{AllocRequest, Allocator, FrameMeta, FrameTable, Kind};

/// Where memory begins: at 4 GiB, so that it is one zone.
const FIRST: Pfn = Pfn(1 << 20);

/// What is built.
pub struct Built {
    frames: Allocator,
    freed: u64,
    /// How many were freed when compaction was in vain.
    in_vain: Option<u64>,
}

fn kind(of: Mobility) -> Kind {
    match of {
        Mobility::Movable => Kind::Anon,
        Mobility::Unmovable | Mobility::Reclaimable => Kind::Kernel,
    }
}

fn number(pfn: Pfn) -> u32 {
    (pfn - FIRST) as u32
}

impl Built {
    /// All of so many frames is free.
    pub fn new(frames: u32) -> Built {
        let metas = (0..frames).map(|_| FrameMeta::default()).collect();
        let table = FrameTable::new(FIRST, Box::leak::<'static>(metas));
        let all = PfnRange::new(FIRST, FIRST + u64::from(frames));
        Built {
            frames: Allocator::new(table, &[all], 1),
            freed: 0,
            in_vain: None,
        }
    }
    /// Tries to empty one more pageblock; `false`: there is none.
    fn empty_one(&self, owners: &mut Owners) -> bool {
        let zone = &self.frames.zones()[0];
        let Some(start) = zone.emptiest().filter(|_| zone.may_compact()) else {
            return false;
        };
        let first = number(start);
        let at = |n: u32| self.frames.table().get(start + u64::from(n));
        let (mut n, mut objects, mut goes) = (0, Vec::new(), true);
        while n < 1 << HUGE {
            let meta = at(n);
            if !meta.is_free() {
                // What is in the CPU's lists is nobody's, and cannot be had.
                goes &= meta.kind() == Kind::Anon && meta.order().0 < HUGE;
                objects.extend(owners.at(first + n));
            }
            n += 1 << meta.order().0;
        }
        if !goes {
            zone.note_stays(start);
            return true;
        }
        let before = owners.moved;
        let mut held = Held::of(start);
        self.frames.hold_free(0, zone, &mut held);
        let single = objects.iter().filter(|it| it.order == 0).count();
        let mut pages = Vec::new();
        self.frames
            .fill_up(0, zone, single as u64, &mut |pfn| pages.push(pfn));
        for object in objects {
            if object.mobility != Mobility::Movable {
                // That a page is pinned shows when it is to be moved.
                break;
            }
            let order = Order(object.order);
            let to = match object.order {
                0 => pages.pop(),
                _ => self.frames.fill_up_with(0, zone, order),
            };
            let Some(to) = to else {
                break;
            };
            owners.move_to(object.first, number(to));
            let old = FIRST + u64::from(object.first);
            self.frames.hold_used(0, &mut held, old, Kind::Anon, order);
        }
        for page in pages {
            self.frames.free_owned(0, page, Order(0), Kind::Anon);
        }
        self.frames.let_go(0, &held);
        if !held.is_whole() {
            zone.note_stays(start);
            owners.in_vain += owners.moved - before;
        }
        true
    }
}

impl Policy for Built {
    fn take(&mut self, want: Want, _: &mut Owners) -> Option<u32> {
        let reserve = match want.mobility {
            Mobility::Movable => Reserve::User,
            Mobility::Unmovable | Mobility::Reclaimable => Reserve::Kernel,
        };
        let pfn = self.frames.alloc(AllocRequest {
            cpu: 0,
            order: Order(want.order),
            kind: kind(want.mobility),
            reserve,
        })?;
        Some(number(pfn))
    }
    fn give(&mut self, object: Object) {
        self.freed += 1 << object.order;
        let pfn = FIRST + u64::from(object.first);
        let kind = self.frames.table().get(pfn).kind();
        self.frames.free_owned(0, pfn, Order(object.order), kind);
    }
    fn compact(&mut self, order: u8, owners: &mut Owners) -> bool {
        if self
            .in_vain
            .is_some_and(|then| self.freed - then < DEFERRED_FOR)
        {
            return false;
        }
        self.frames.drain(0);
        let (zone, mut tries) = (&self.frames.zones()[0], 0);
        while !zone.has_block(Order(order)) && tries < TRIES && self.empty_one(owners) {
            tries += 1;
        }
        let found = zone.has_block(Order(order));
        self.in_vain = (!found).then_some(self.freed);
        if !found {
            zone.forget_stays();
        }
        found
    }
}
