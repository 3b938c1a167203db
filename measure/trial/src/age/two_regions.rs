//! Two regions with a border that moves (Contiguitas, ISCA 2023): what cannot be moved is below it.
//! What is pinned is moved there before.

use crate::HUGE;
use crate::lists::Lists;
use crate::moves::{Emptiest, empty};
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Policy, Want};

/// By how many pageblocks the border moves at once: 64 MiB.
const STEP: usize = 32;

/// Two lists, each of what is on its side of the border.
pub struct TwoRegions {
    fixed: Lists,
    movable: Lists,
    moves: Emptiest,
    /// The first pageblock of what can be moved.
    border: usize,
}

impl TwoRegions {
    /// All of so many frames, a power of two, is free; a sixteenth for what cannot be moved.
    pub fn new(frames: u32) -> TwoRegions {
        let (region, border) = (frames.ilog2() as u8, frames >> HUGE >> 4);
        let mut it = TwoRegions {
            fixed: Lists::new(frames, region, region),
            movable: Lists::new(frames, region, region),
            moves: Emptiest::default(),
            border: border as usize,
        };
        (0..border).for_each(|block| it.fixed.give(block << HUGE, HUGE));
        (border..frames >> HUGE).for_each(|block| it.movable.give(block << HUGE, HUGE));
        it
    }
    fn side(&mut self, first: u32) -> &mut Lists {
        match (first as usize >> HUGE) < self.border {
            true => &mut self.fixed,
            false => &mut self.movable,
        }
    }
    /// Moves the border up, and what is in the way.
    fn grow(&mut self, owners: &mut Owners) -> bool {
        let before = self.border;
        for block in before..(before + STEP).min(self.movable.types.len()) {
            let room = &mut |lists: &mut Lists, order| {
                // Frames of the pageblock itself wait until it is empty.
                let mut own = Vec::new();
                let found = loop {
                    match lists.take_smallest(0, Mobility::Movable, order) {
                        Some(first) if first as usize >> HUGE == block => own.push(first),
                        other => break other,
                    }
                };
                own.into_iter().for_each(|first| lists.give(first, order));
                found
            };
            let goes =
                self.movable.is_whole(block) || empty(&mut self.movable, owners, block, true, room);
            let Some(first) = goes.then(|| self.movable.take_whole(block)).flatten() else {
                break;
            };
            self.border += 1;
            self.fixed.give(first, HUGE);
        }
        self.border > before
    }
    /// Moves it down over what is free, if much is.
    fn shrink(&mut self) {
        while self.fixed.free[0] as usize > STEP << (HUGE + 1)
            && let Some(first) = self.fixed.take_whole(self.border - 1)
        {
            self.border -= 1;
            self.movable.give(first, HUGE);
        }
    }
}

impl Policy for TwoRegions {
    fn take(&mut self, want: Want, owners: &mut Owners) -> Option<u32> {
        if want.mobility == Mobility::Movable {
            return self.movable.take_smallest(0, Mobility::Movable, want.order);
        }
        let own = |it: &mut Self| it.fixed.take_smallest(0, Mobility::Movable, want.order);
        own(self).or_else(|| self.grow(owners).then(|| own(self)).flatten())
    }
    fn give(&mut self, object: Object) {
        self.side(object.first).give(object.first, object.order);
        if (object.first as usize >> HUGE) + 1 == self.border {
            self.shrink();
        }
    }
    fn compact(&mut self, _: u8, owners: &mut Owners) -> bool {
        let TwoRegions { movable, moves, .. } = self;
        moves.compact(movable, owners, |_, _| true, |_| true)
    }
    fn pin(&mut self, id: u32, owners: &mut Owners) {
        let Object { first, order, .. } = owners.get(id);
        let want = Want {
            order,
            mobility: Mobility::Unmovable,
            place: None,
        };
        if let Some(to) = self.take(want, owners) {
            owners.move_to(first, to);
            self.side(first).give(first, order);
        }
        owners.pin(id);
    }
}
