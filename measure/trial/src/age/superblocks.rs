//! Superpageblocks of 1 GiB (van Riel, 2026): what cannot be moved goes where some of it is
//! already, as long as there is room or some can be made there.

use crate::linux::{claim, steal};
use crate::lists::Lists;
use crate::moves::Emptiest;
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Policy, Want};
use crate::{GIGABYTE, HUGE};

/// So many blocks are taken before the superpageblocks are put in order anew.
const TURN: u32 = 256;

/// Types within superpageblocks.
pub struct Superblocks {
    lists: Lists,
    moves: Emptiest,
    /// The superpageblocks, the fullest first: those with memory that cannot be moved, and others.
    tainted: Vec<usize>,
    clean: Vec<usize>,
    taken: u32,
}

impl Superblocks {
    /// All of so many frames is free.
    pub fn new(frames: u32) -> Superblocks {
        Superblocks {
            lists: Lists::all_free(frames, GIGABYTE, GIGABYTE),
            moves: Emptiest::default(),
            tainted: Vec::new(),
            clean: Vec::new(),
            taken: 0,
        }
    }
    fn put_in_order(&mut self) {
        let lists = &self.lists;
        let mut all = Vec::from_iter(0..lists.free.len());
        all.sort_by_key(|region| lists.free[*region]);
        let blocks = 1 << (GIGABYTE - HUGE);
        let types = |region: usize| &lists.types[region * blocks..(region + 1) * blocks];
        let is_tainted = |region: &usize| types(*region).iter().any(|it| *it != Mobility::Movable);
        (self.tainted, self.clean) = all.into_iter().partition(is_tainted);
        self.taken = 0;
    }
    fn in_regions(&mut self, want: Want, owners: &Owners, tainted: bool) -> Option<u32> {
        let regions = if tainted { &self.tainted } else { &self.clean };
        let lists = &mut self.lists;
        let own = |region: &usize| lists.take_smallest(*region, want.mobility, want.order);
        if let Some(first) = regions.iter().find_map(own) {
            return Some(first);
        }
        regions
            .iter()
            .find_map(|region| claim(lists, *region, want, owners))
    }
    /// Makes a pageblock free in a superpageblock that has memory that stays.
    fn make_room(&mut self, owners: &mut Owners) -> bool {
        let is_tainted = |block: usize| self.tainted.contains(&(block >> (GIGABYTE - HUGE)));
        let Superblocks { lists, moves, .. } = self;
        moves.compact(lists, owners, movable, is_tainted)
    }
}

fn movable(lists: &Lists, block: usize) -> bool {
    lists.types[block] == Mobility::Movable
}

impl Policy for Superblocks {
    fn take(&mut self, want: Want, owners: &mut Owners) -> Option<u32> {
        self.taken += 1;
        if self.taken > TURN || self.clean.is_empty() && self.tainted.is_empty() {
            self.put_in_order();
        }
        let stays = want.mobility != Mobility::Movable;
        if let Some(first) = self.in_regions(want, owners, stays) {
            return Some(first);
        }
        if stays
            && self.make_room(owners)
            && let Some(first) = self.in_regions(want, owners, stays)
        {
            return Some(first);
        }
        if let Some(first) = self.in_regions(want, owners, !stays) {
            self.put_in_order();
            return Some(first);
        }
        (0..self.lists.free.len()).find_map(|region| steal(&mut self.lists, region, want))
    }
    fn give(&mut self, object: Object) {
        self.lists.give(object.first, object.order);
    }
    fn compact(&mut self, _: u8, owners: &mut Owners) -> bool {
        let Superblocks { lists, moves, .. } = self;
        moves.compact(lists, owners, movable, |_| true)
    }
}
