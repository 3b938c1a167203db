//! Buddy lists (Knuth, TAOCP 1, 2.5) as models of policies need them: by region, by the type of the
//! pageblock, and by order; the block that was freed last is the first to go.

use crate::HUGE;
use crate::owners::Mobility;

/// Types of pageblocks, and lengths of their lists' rows.
const TYPES: usize = 3;
const ORDERS: usize = 24;
const NONE: u32 = u32::MAX;
/// Marks the first frame of a free block, beside its order.
const FREE: u8 = 0x80;

/// A free block.
#[derive(Clone, Copy)]
pub struct Free {
    /// Its first frame.
    pub first: u32,
    /// log2 of its frames.
    pub order: u8,
}

/// Free memory.
pub struct Lists {
    /// log2 of the frames of a region, and of the largest block.
    region: u8,
    largest: u8,
    state: Vec<u8>,
    links: Vec<[u32; 2]>,
    heads: Vec<[[u32; ORDERS]; TYPES]>,
    nonempty: Vec<[u32; TYPES]>,
    /// What the pageblocks are for.
    pub types: Vec<Mobility>,
    /// Free frames by pageblock, and by region.
    pub free_in: Vec<u16>,
    pub free: Vec<u32>,
}

impl Lists {
    /// For so many frames, in regions of 2^region of them; none is free so far.
    pub fn new(frames: u32, region: u8, largest: u8) -> Lists {
        let (regions, blocks) = (frames as usize >> region, frames as usize >> HUGE);
        Lists {
            region,
            largest,
            state: vec![0; frames as usize],
            links: vec![[NONE; 2]; frames as usize],
            heads: vec![[[NONE; ORDERS]; TYPES]; regions],
            nonempty: vec![[0; TYPES]; regions],
            types: vec![Mobility::Movable; blocks],
            free_in: vec![0; blocks],
            free: vec![0; regions],
        }
    }
    /// As [`Self::new`], and all of them are free and movable.
    pub fn all_free(frames: u32, region: u8, largest: u8) -> Lists {
        let mut lists = Lists::new(frames, region, largest);
        let blocks = (0..frames).step_by(1 << largest);
        blocks.for_each(|first| lists.give(first, largest));
        lists
    }
    /// All free frames.
    pub fn free_frames(&self) -> u64 {
        self.free.iter().map(|free| u64::from(*free)).sum()
    }
    /// The order of the free block that begins at a frame.
    fn free_order(&self, first: u32) -> Option<u8> {
        let state = self.state[first as usize];
        (state & FREE != 0).then_some(state & !FREE)
    }
    /// Memory of a whole pageblock is movable, whatever it was.
    fn place(&self, first: u32, order: u8) -> (usize, usize) {
        let of = match order >= HUGE {
            true => Mobility::Movable,
            false => self.types[first as usize >> HUGE],
        };
        (first as usize >> self.region, of as usize)
    }
    fn push(&mut self, first: u32, order: u8) {
        let (region, of) = self.place(first, order);
        let head = &mut self.heads[region][of][order as usize];
        self.links[first as usize] = [*head, NONE];
        if let Some(next) = self.links.get_mut(*head as usize) {
            next[1] = first;
        }
        *head = first;
        self.nonempty[region][of] |= 1 << order;
        self.state[first as usize] = FREE | order;
    }
    fn unlink(&mut self, first: u32, order: u8) {
        let (region, of) = self.place(first, order);
        let [next, before] = self.links[first as usize];
        if let Some(link) = self.links.get_mut(next as usize) {
            link[1] = before;
        }
        match self.links.get_mut(before as usize) {
            Some(link) => link[0] = next,
            None => {
                self.heads[region][of][order as usize] = next;
                if next == NONE {
                    self.nonempty[region][of] &= !(1 << order);
                }
            }
        }
        self.state[first as usize] = 0;
    }

    /// The smallest free block of at least this order, or the largest.
    pub fn find(&self, region: usize, of: Mobility, order: u8, largest: bool) -> Option<Free> {
        let of = of as usize;
        let fits = self.nonempty[region][of] >> order << order;
        let order = match largest {
            true => fits.checked_ilog2()? as u8,
            false if fits == 0 => return None,
            false => fits.trailing_zeros() as u8,
        };
        let first = self.heads[region][of][order as usize];
        Some(Free { first, order })
    }
    /// Takes 2^order frames of a free block, for a pageblock of that type if all of one is free.
    pub fn take(&mut self, found: Free, order: u8, of: Mobility) -> u32 {
        let first = found.first;
        self.unlink(first, found.order);
        if found.order >= HUGE {
            self.set_types(first, order, of);
        }
        for half in order..found.order {
            self.push(first + (1 << half), half);
        }
        self.state[first as usize] = order;
        self.count(first, order, u16::wrapping_sub, u32::wrapping_sub);
        first
    }
    /// Takes the smallest block that fits.
    pub fn take_smallest(&mut self, region: usize, of: Mobility, order: u8) -> Option<u32> {
        let found = self.find(region, of, order, false)?;
        Some(self.take(found, order, of))
    }
    /// As [`Self::take_smallest`], of a pageblock that stays of its type.
    pub fn take_as_it_is(&mut self, region: usize, of: Mobility, order: u8) -> Option<u32> {
        let found = self.find(region, of, order, false)?;
        let of = self.types[found.first as usize >> HUGE];
        Some(self.take(found, order, of))
    }
    /// Takes a free block of a pageblock.
    pub fn take_in(&mut self, block: usize, order: u8) -> Option<u32> {
        let free = |(first, order): (u32, Option<u8>)| {
            Some(Free {
                first,
                order: order?,
            })
        };
        let found = self
            .parts(block)
            .filter_map(free)
            .find(|it| it.order >= order)?;
        (found.order < HUGE).then(|| self.take(found, order, self.types[block]))
    }
    /// Takes a pageblock that is free as a whole.
    pub fn take_whole(&mut self, block: usize) -> Option<u32> {
        let wanted = (block as u32) << HUGE;
        let head = |order: &u8| wanted >> order << order;
        let whole =
            (HUGE..=self.largest).find(|order| self.state[head(order) as usize] == FREE | order)?;
        self.unlink(head(&whole), whole);
        for half in HUGE..whole {
            self.push(head(&half) ^ 1 << half, half);
        }
        self.state[wanted as usize] = HUGE;
        self.count(wanted, HUGE, u16::wrapping_sub, u32::wrapping_sub);
        Some(wanted)
    }
    /// Gives back a block, which merges with its buddies.
    pub fn give(&mut self, mut first: u32, mut order: u8) {
        self.count(first, order, u16::wrapping_add, u32::wrapping_add);
        self.state[first as usize] = 0;
        while order < self.largest {
            let buddy = first ^ 1 << order;
            if self.state[buddy as usize] != FREE | order {
                break;
            }
            self.unlink(buddy, order);
            (first, order) = (first & buddy, order + 1);
        }
        if order >= HUGE {
            self.set_types(first, order, Mobility::Movable);
        }
        self.push(first, order);
    }
    fn set_types(&mut self, first: u32, order: u8, of: Mobility) {
        let block = first as usize >> HUGE;
        self.types[block..block + (1 << order.saturating_sub(HUGE))].fill(of);
    }
    fn count(&mut self, first: u32, order: u8, one: fn(u16, u16) -> u16, all: fn(u32, u32) -> u32) {
        let block = first as usize >> HUGE;
        for free in &mut self.free_in[block..block + (1 << order.saturating_sub(HUGE))] {
            *free = one(*free, 1 << order.min(HUGE));
        }
        let region = &mut self.free[first as usize >> self.region];
        *region = all(*region, 1 << order);
    }

    /// The blocks in a pageblock, which is not part of a larger one: the first frame of each, and
    /// the order of those that are free.
    pub fn parts(&self, block: usize) -> impl Iterator<Item = (u32, Option<u8>)> + use<'_> {
        let (mut at, end) = ((block as u32) << HUGE, (block as u32 + 1) << HUGE);
        std::iter::from_fn(move || {
            let first = at;
            at += 1 << (self.state.get(first as usize)? & !FREE).min(HUGE);
            (first < end).then(|| (first, self.free_order(first)))
        })
    }
    /// Makes a pageblock one of another type, with what is free in it.
    pub fn convert(&mut self, block: usize, of: Mobility) {
        let parts = Vec::from_iter(self.parts(block));
        let free = || {
            parts
                .iter()
                .filter_map(|(first, order)| Some((*first, (*order)?)))
        };
        free().for_each(|(first, order)| self.unlink(first, order));
        self.types[block] = of;
        free().for_each(|(first, order)| self.push(first, order));
    }
    /// Whether all of a pageblock is free.
    pub fn is_whole(&self, block: usize) -> bool {
        self.free_in[block] == 1 << HUGE
    }
}
