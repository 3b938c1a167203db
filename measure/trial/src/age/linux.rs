//! Linux's migrate types: what a type lacks is claimed of another's pageblocks, by the largest free
//! block; compaction by two scanners. With `defrag_mode` (Linux 6.15) memory is compacted before a
//! pageblock gets memory of two types.

use crate::HUGE;
use crate::lists::Lists;
use crate::moves::empty;
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Policy, Want};

/// The largest block that Linux has lists for.
const LARGEST: u8 = 10;
/// In `defrag_mode`, pageblocks that are scanned for who would take another type's memory, and
/// frames freed before that is done again.
const SCANNED: usize = 128;
const FREED: u64 = 1 << HUGE;
/// Free frames for each pageblock, up to which files are reclaimed for that: an eighth of memory.
const ROOM: u64 = 1 << HUGE >> 3;

/// Linux.
pub struct Linux {
    lists: Lists,
    defrag_mode: bool,
    /// Where the scanners are.
    low: usize,
    high: usize,
    /// After a failure so many tries are left out, twice as many each time, up to 2^6.
    skipped: u32,
    shift: u32,
    /// Frames freed, and how many were when `defrag_mode` scanned last.
    freed: u64,
    scanned_at: u64,
    wants_room: bool,
}

impl Linux {
    /// All of so many frames, a power of two, is free.
    pub fn new(frames: u32, defrag_mode: bool) -> Linux {
        Linux {
            lists: Lists::all_free(frames, frames.ilog2() as u8, LARGEST),
            defrag_mode,
            low: 0,
            high: frames as usize >> HUGE,
            skipped: 0,
            shift: 0,
            freed: 0,
            scanned_at: 0,
            wants_room: false,
        }
    }
    /// The scanner from below empties pageblocks into those that the one from above finds.
    fn scan(&mut self, owners: &mut Owners, most: usize) -> bool {
        let Linux {
            lists, low, high, ..
        } = self;
        for _ in 0..most {
            if *low >= *high {
                (*low, *high) = (0, lists.types.len());
                return false;
            }
            let block = *low;
            *low += 1;
            let partly = (1..1 << HUGE).contains(&lists.free_in[block]);
            if lists.types[block] != Mobility::Movable || !partly {
                continue;
            }
            let room = &mut |lists: &mut Lists, order| {
                while block + 1 < *high {
                    let at = *high - 1;
                    if lists.types[at] == Mobility::Movable
                        && let Some(first) = lists.take_in(at, order)
                    {
                        return Some(first);
                    }
                    *high -= 1;
                }
                None
            };
            if empty(lists, owners, block, false, room) {
                return true;
            }
        }
        false
    }
}

impl Policy for Linux {
    fn take(&mut self, want: Want, owners: &mut Owners) -> Option<u32> {
        let own = |lists: &mut Lists| lists.take_smallest(0, want.mobility, want.order);
        if let Some(first) = own(&mut self.lists) {
            return Some(first);
        }
        if !self.defrag_mode {
            return claim(&mut self.lists, 0, want, owners)
                .or_else(|| steal(&mut self.lists, 0, want));
        }
        if let Some(first) = claim_whole(&mut self.lists, 0, want) {
            return Some(first);
        }
        if self.freed >= self.scanned_at + FREED {
            self.scanned_at = self.freed;
            self.wants_room = self.lists.free_frames() < self.lists.types.len() as u64 * ROOM;
            if self.scan(owners, SCANNED) {
                return claim_whole(&mut self.lists, 0, want);
            }
        }
        own(&mut self.lists)
            .or_else(|| claim(&mut self.lists, 0, want, owners))
            .or_else(|| steal(&mut self.lists, 0, want))
    }
    fn give(&mut self, object: Object) {
        self.freed += 1 << object.order;
        self.lists.give(object.first, object.order);
    }
    fn wants_room(&mut self) -> bool {
        std::mem::take(&mut self.wants_room)
    }
    fn compact(&mut self, _: u8, owners: &mut Owners) -> bool {
        if self.shift != 0 && self.skipped < 1 << self.shift {
            self.skipped += 1;
            return false;
        }
        self.skipped = 0;
        let found = self.scan(owners, usize::MAX);
        self.shift = if found { 0 } else { (self.shift + 1).min(6) };
        found
    }
}

/// The types whose memory another one takes, the first first.
fn others(of: Mobility) -> [Mobility; 2] {
    match of {
        Mobility::Movable => [Mobility::Reclaimable, Mobility::Unmovable],
        Mobility::Unmovable => [Mobility::Reclaimable, Mobility::Movable],
        Mobility::Reclaimable => [Mobility::Unmovable, Mobility::Movable],
    }
}

/// Takes it of a pageblock that is free as a whole, and of its type from then on.
pub fn claim_whole(lists: &mut Lists, region: usize, want: Want) -> Option<u32> {
    let found = lists.find(region, Mobility::Movable, want.order.max(HUGE), false)?;
    Some(lists.take(found, want.order, want.mobility))
}

/// Takes it of the largest free block of another type, whose pageblock is of this one from then on:
/// half of it is free or used alike.
pub fn claim(lists: &mut Lists, region: usize, want: Want, owners: &Owners) -> Option<u32> {
    for other in others(want.mobility) {
        let Some(found) = lists.find(region, other, want.order, true) else {
            continue;
        };
        let block = found.first as usize >> HUGE;
        if found.order >= HUGE {
            return Some(lists.take(found, want.order, want.mobility));
        }
        let alike = |first| {
            let object = owners.at(first);
            let movable = object.is_some_and(|it| it.mobility == Mobility::Movable);
            match movable == (want.mobility == Mobility::Movable) {
                true => 1 << object.map_or(0, |it| it.order),
                false => 0,
            }
        };
        let parts = lists.parts(block);
        let ours = parts.map(|(first, free)| free.map_or_else(|| alike(first), |order| 1 << order));
        if ours.sum::<u32>() >= 1 << HUGE >> 1 {
            lists.convert(block, want.mobility);
            return lists.take_smallest(region, want.mobility, want.order);
        }
    }
    None
}

/// Takes the smallest block of another type.
pub fn steal(lists: &mut Lists, region: usize, want: Want) -> Option<u32> {
    let mut others = others(want.mobility).into_iter();
    others.find_map(|other| lists.take_as_it_is(region, other, want.order))
}
