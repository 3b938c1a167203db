//! Trees of 64 MiB, each for one use while it is in it (LLFree, ATC 2023): large blocks, what can
//! be moved, and what cannot. Who runs out of its tree takes the fullest of its use that has room.

use crate::HUGE;
use crate::lists::Lists;
use crate::moves::Emptiest;
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Policy, Want};

/// log2 of the frames of a tree.
const TREE: u8 = 14;

/// Trees with their uses.
pub struct Trees {
    lists: Lists,
    moves: Emptiest,
    /// The use of each, until it is free as a whole.
    uses: Vec<Option<usize>>,
    /// The tree that each use takes from.
    current: [usize; 3],
}

impl Trees {
    /// All of so many frames is free.
    pub fn new(frames: u32) -> Trees {
        let lists = Lists::all_free(frames, TREE, TREE);
        Trees {
            uses: vec![None; lists.free.len()],
            lists,
            moves: Emptiest::default(),
            current: [0, 1, 2],
        }
    }
    /// Another tree with such a block: one of this use, one that is free, one of another use.
    fn other(&self, of: usize, order: u8) -> Option<usize> {
        let has = |tree: &usize| {
            self.lists
                .find(*tree, Mobility::Movable, order, false)
                .is_some()
        };
        let rank = |tree: &usize| match self.uses[*tree] {
            Some(its) if its == of => 0,
            None => 1,
            Some(_) => 2,
        };
        (0..self.uses.len())
            .filter(has)
            .min_by_key(|tree| (rank(tree), self.lists.free[*tree]))
    }
}

impl Policy for Trees {
    fn take(&mut self, want: Want, _: &mut Owners) -> Option<u32> {
        let of = match want.mobility {
            Mobility::Movable if want.order >= HUGE => 0,
            Mobility::Movable => 1,
            Mobility::Unmovable | Mobility::Reclaimable => 2,
        };
        let tree = self.current[of];
        if self.uses[tree] == Some(of)
            && let Some(first) = self
                .lists
                .take_smallest(tree, Mobility::Movable, want.order)
        {
            return Some(first);
        }
        let tree = self.other(of, want.order)?;
        if self.uses[tree].is_none() {
            self.uses[tree] = Some(of);
        }
        if self.uses[tree] == Some(of) {
            self.current[of] = tree;
        }
        self.lists
            .take_smallest(tree, Mobility::Movable, want.order)
    }
    fn give(&mut self, object: Object) {
        self.lists.give(object.first, object.order);
        let tree = object.first as usize >> TREE;
        if self.lists.free[tree] == 1 << TREE {
            self.uses[tree] = None;
        }
    }
    fn compact(&mut self, _: u8, owners: &mut Owners) -> bool {
        let Trees {
            lists, moves, uses, ..
        } = self;
        let fixed = |block: usize| uses[block >> (TREE - HUGE)] == Some(2);
        moves.compact(lists, owners, |_, block| !fixed(block), |_| true)
    }
}
