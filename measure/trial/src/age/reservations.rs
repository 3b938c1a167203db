//! Reservations (FreeBSD): the first page of each 2 MiB of a process takes a whole pageblock, and
//! the others come into their places in it. Who finds nothing else breaks the oldest reservation.
//! Nothing is moved.

use crate::HUGE;
use crate::linux::{claim_whole, steal};
use crate::lists::Lists;
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Place, Policy, Want};
use std::collections::{HashMap, VecDeque};

/// A pageblock for 2 MiB of a process.
struct Reservation {
    /// Where they begin.
    of: Place,
    /// A bit for each page that is there.
    there: [u64; 8],
}

impl Reservation {
    /// The bits of 2^order pages from one on, a word of them at most.
    fn bits(page: u32, order: u8) -> (usize, u64) {
        let ones = u64::MAX >> (64 - (1 << order));
        (page as usize / 64, ones << (page % 64))
    }
}

/// Lists, and reservations in front of them.
pub struct Reservations {
    lists: Lists,
    by_block: Vec<Option<Reservation>>,
    /// The pageblock of each 2 MiB of a process.
    blocks: HashMap<Place, usize>,
    /// The oldest first; some of them have gone.
    oldest: VecDeque<usize>,
}

impl Reservations {
    /// All of so many frames, a power of two, is free.
    pub fn new(frames: u32) -> Reservations {
        let region = frames.ilog2() as u8;
        let lists = Lists::all_free(frames, region, region);
        Reservations {
            by_block: lists.types.iter().map(|_| None).collect(),
            lists,
            blocks: HashMap::new(),
            oldest: VecDeque::new(),
        }
    }
    /// The place of pages in their reservation, which may be a new one.
    fn in_place(&mut self, place: Place, order: u8) -> Option<u32> {
        let page = place.page % (1 << HUGE);
        let of = Place {
            page: place.page - page,
            ..place
        };
        let block = match self.blocks.get(&of) {
            Some(block) => *block,
            None => {
                let first = self.lists.take_smallest(0, Mobility::Movable, HUGE)?;
                let block = first as usize >> HUGE;
                let there = [0; 8];
                self.by_block[block] = Some(Reservation { of, there });
                self.blocks.insert(of, block);
                self.oldest.push_back(block);
                block
            }
        };
        let (word, bits) = Reservation::bits(page, order);
        let there = &mut self.by_block[block].as_mut()?.there[word];
        if *there & bits != 0 {
            return None;
        }
        *there |= bits;
        Some(((block as u32) << HUGE) + page)
    }
    /// Gives back what is not used of the oldest reservation.
    fn break_one(&mut self) -> bool {
        while let Some(block) = self.oldest.pop_front() {
            let Some(Reservation { of, there }) = self.by_block[block].take() else {
                continue;
            };
            self.blocks.remove(&of);
            let unused = |page: &u32| there[*page as usize / 64] >> (page % 64) & 1 == 0;
            let pages = (0..1 << HUGE).filter(unused);
            let first = (block as u32) << HUGE;
            let before = self.lists.free_frames();
            pages.for_each(|page| self.lists.give(first + page, 0));
            if self.lists.free_frames() > before {
                return true;
            }
        }
        false
    }
    fn plain(&mut self, want: Want) -> Option<u32> {
        let lists = &mut self.lists;
        lists
            .take_smallest(0, want.mobility, want.order)
            .or_else(|| claim_whole(lists, 0, want))
            .or_else(|| steal(lists, 0, want))
    }
}

impl Policy for Reservations {
    fn take(&mut self, want: Want, _: &mut Owners) -> Option<u32> {
        let small = want.place.filter(|_| want.order < HUGE);
        if let Some(first) = small.and_then(|place| self.in_place(place, want.order)) {
            return Some(first);
        }
        loop {
            if let Some(first) = self.plain(want) {
                return Some(first);
            }
            if want.order >= HUGE || !self.break_one() {
                return None;
            }
        }
    }
    fn give(&mut self, Object { first, order, .. }: Object) {
        let block = first as usize >> HUGE;
        let Some(reservation) = &mut self.by_block[block] else {
            return self.lists.give(first, order);
        };
        let (word, bits) = Reservation::bits(first % (1 << HUGE), order);
        reservation.there[word] &= !bits;
        if reservation.there == [0; 8] {
            self.blocks.remove(&reservation.of);
            self.by_block[block] = None;
            self.lists.give((block as u32) << HUGE, HUGE);
        }
    }
    fn compact(&mut self, _: u8, _: &mut Owners) -> bool {
        false
    }
}
