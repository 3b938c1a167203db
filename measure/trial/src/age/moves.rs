//! What policies have in common that move memory.

use crate::HUGE;
use crate::lists::Lists;
use crate::owners::{Mobility, Owners};

/// Moves what is in a pageblock to where `room` says, which gives no frames of it; returns whether
/// all of it is free then. Who is `careful` moves nothing if something stays.
pub fn empty(
    lists: &mut Lists,
    owners: &mut Owners,
    block: usize,
    careful: bool,
    room: &mut dyn FnMut(&mut Lists, u8) -> Option<u32>,
) -> bool {
    let used = lists.parts(block).filter(|(_, free)| free.is_none());
    let objects = Vec::from_iter(used.map(|(first, _)| owners.at(first)));
    let stays = objects
        .iter()
        .position(|it| it.is_none_or(|it| it.mobility != Mobility::Movable));
    if careful && stays.is_some() {
        return false;
    }
    let before = owners.moved;
    for object in objects
        .iter()
        .take(stays.unwrap_or(objects.len()))
        .flatten()
    {
        let Some(to) = room(lists, object.order) else {
            break;
        };
        owners.move_to(object.first, to);
        lists.give(object.first, object.order);
    }
    let is_whole = lists.is_whole(block);
    if !is_whole {
        owners.in_vain += owners.moved - before;
    }
    is_whole
}

/// The emptiest movable pageblocks are moved into the fullest ones.
#[derive(Default)]
pub struct Emptiest {
    /// The pageblocks that are filled, by order.
    fill: [Option<usize>; HUGE as usize],
    /// Pageblocks in which something stays, and frames that were free when that was found.
    stays: Vec<bool>,
    free: u64,
}

impl Emptiest {
    /// Empties one of the pageblocks that `may` names of those that `goes` does, into others of
    /// these.
    pub fn compact(
        &mut self,
        lists: &mut Lists,
        owners: &mut Owners,
        goes: impl Fn(&Lists, usize) -> bool,
        may: impl Fn(usize) -> bool,
    ) -> bool {
        let free = lists.free_frames();
        if self.stays.is_empty() || free.abs_diff(self.free) > 4 << HUGE {
            self.stays = vec![false; lists.types.len()];
            self.free = free;
        }
        loop {
            let partly = |block: &usize| (1..1 << HUGE).contains(&lists.free_in[*block]);
            let is_one = |block: &usize| {
                partly(block) && goes(lists, *block) && may(*block) && !self.stays[*block]
            };
            let blocks = (0..lists.types.len()).filter(is_one);
            let Some(block) = blocks.max_by_key(|block| lists.free_in[*block]) else {
                return false;
            };
            let room = &mut |lists: &mut Lists, order: u8| {
                let place = &mut self.fill[order as usize];
                let fits = |at: &usize| *at != block && goes(lists, *at);
                let at = place.filter(fits);
                if let Some(first) = at.and_then(|at| lists.take_in(at, order)) {
                    return Some(first);
                }
                *place = fullest(lists, order, |at| at != block && goes(lists, at));
                lists.take_in((*place)?, order)
            };
            if empty(lists, owners, block, true, room) {
                return true;
            }
            self.stays[block] = true;
        }
    }
}

/// The pageblock with the fewest free frames, one of them of this order.
fn fullest(lists: &Lists, order: u8, to: impl Fn(usize) -> bool) -> Option<usize> {
    let mut least = (1 << HUGE, None);
    for block in 0..lists.types.len() {
        let free = lists.free_in[block];
        let fits = |(_, it): (u32, Option<u8>)| it.is_some_and(|it| it >= order);
        if (1 << order..least.0).contains(&free) && to(block) && lists.parts(block).any(fits) {
            least = (free, Some(block));
        }
    }
    least.1
}
