//! Lab 2: broken solutions. Each stands between a right one and the lists, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Broken, Buddy, Cpu, Lists, MAX_ORDER, frames};
use crate::Mutant;

pub const ALL: &[Mutant] = &[
    ("NoMerge", "does not look for buddies"),
    (
        "OneSide",
        "does not merge with a buddy that lies behind the block, from order 10 on",
    ),
    (
        "BlindToOne",
        "does not see that a buddy is free when it has one order of 10 to 16, which the seed picks",
    ),
    (
        "HalfFree",
        "takes a buddy for free of which only the first part is",
    ),
    ("TooLarge", "makes blocks of two times the largest order"),
    (
        "LosesHalf",
        "forgets a half when it splits a block for one order of 6 to 13, which the seed picks",
    ),
    ("WrongHalf", "answers with the half that it has put back"),
    (
        "Largest",
        "splits the largest block that there is, for orders from 4 on",
    ),
    (
        "RefillsFew",
        "puts at most 16 blocks in the cache, however many it may have",
    ),
    (
        "DrainsFew",
        "takes 8 blocks out of the cache when it is full, whatever a batch is",
    ),
];

/// Which question is answered.
#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Take,
    Give,
    Refill,
    Drain,
}

/// What stands between.
struct Between<'a, L: ?Sized> {
    lists: &'a mut L,
    of: &'a Broken,
    verb: Verb,
    /// The block that is given, or the order that is wanted; the order grows with each merge.
    frame: u64,
    order: u8,
    /// The order at first.
    asked: u8,
    /// The last block of the wanted order that was put back.
    pushed: Option<u64>,
}

impl Broken {
    fn between<'a, L: Lists + ?Sized>(
        &'a self,
        lists: &'a mut L,
        verb: Verb,
        (frame, order): (u64, u8),
    ) -> Between<'a, L> {
        Between {
            lists,
            of: self,
            verb,
            frame,
            order,
            asked: order,
            pushed: None,
        }
    }
    /// One of so many orders, from the first on.
    fn one_of(&self, orders: u64, first: u8) -> u8 {
        first + (self.seed % orders) as u8
    }
}

impl<L: Lists + ?Sized> Between<'_, L> {
    fn is(&self, name: &str, verb: Verb) -> bool {
        self.of.name == name && self.verb == verb
    }
}

impl<L: Lists + ?Sized> Lists for Between<'_, L> {
    fn orders(&self) -> u32 {
        let orders = self.lists.orders();
        match orders.checked_ilog2() {
            Some(largest) if self.is("Largest", Verb::Take) && self.asked >= 4 => 1 << largest,
            _ => orders,
        }
    }
    fn first(&self, order: u8) -> Option<u64> {
        let shown = self.orders() & 1 << order != 0;
        shown.then(|| self.lists.first(order))?
    }
    fn order(&self, frame: u64) -> Option<u8> {
        let order = self.lists.order(frame)?;
        match self.of.name {
            "NoMerge" => None,
            "OneSide" if self.verb == Verb::Give && frame > self.frame && order >= 10 => None,
            "BlindToOne" if order == self.of.one_of(7, 10) => None,
            "HalfFree" if self.verb == Verb::Give => Some(order.max(self.order)),
            _ => Some(order),
        }
    }
    fn remove(&mut self, frame: u64, order: u8) {
        self.lists.remove(frame, order);
        self.order += 1;
    }
    fn push(&mut self, frame: u64, order: u8) {
        let buddy = frame ^ frames(order);
        // The half that lies beside the answer.
        let last = order == self.asked && order == self.of.one_of(8, 6);
        if self.is("LosesHalf", Verb::Take) && last {
            return;
        }
        if self.of.name == "TooLarge"
            && order == MAX_ORDER
            && self.lists.order(buddy) == Some(order)
        {
            self.lists.remove(buddy, order);
            return self.lists.push(frame.min(buddy), order + 1);
        }
        self.pushed = Some(frame);
        self.lists.push(frame, order);
    }
}

impl Cpu for Between<'_, dyn Cpu + '_> {
    fn count(&self) -> usize {
        self.lists.count()
    }
    fn batch(&self) -> usize {
        match self.of.name {
            "DrainsFew" => 8,
            _ => self.lists.batch(),
        }
    }
    fn keep(&mut self, frame: u64) {
        self.lists.keep(frame);
    }
    fn oldest(&mut self) -> Option<u64> {
        self.lists.oldest()
    }
}

impl Buddy for Broken {
    fn take(&self, lists: &mut dyn Lists, order: u8) -> Option<u64> {
        let mut between = self.between(lists, Verb::Take, (0, order));
        let answer = self.right.take(&mut between, order)?;
        match between.pushed {
            // The last half has the order of the answer.
            Some(other) if self.name == "WrongHalf" => Some(other),
            _ => Some(answer),
        }
    }
    fn give(&self, lists: &mut dyn Lists, frame: u64, order: u8) {
        let mut between = self.between(lists, Verb::Give, (frame, order));
        self.right.give(&mut between, frame, order);
    }
    fn refill(&self, cpu: &mut dyn Cpu, order: u8, most: usize) {
        let most = if self.name == "RefillsFew" {
            most.min(16)
        } else {
            most
        };
        let mut between = self.between(cpu, Verb::Refill, (0, order));
        self.right.refill(&mut between, order, most);
    }
    fn drain(&self, cpu: &mut dyn Cpu, order: u8) {
        let mut between = self.between(cpu, Verb::Drain, (0, order));
        self.right.drain(&mut between, order);
    }
}
