//! What is checked of a solution at each call and each step. A wrong one ends it, in words: "lab:
//! ...". What it held then goes back to whom it belongs, so that nothing is lost.

use super::{Buddy, Cpu, Lists, MAX_ORDER, frames};
use alloc::format;
use core::ops::Range;

/// The owner of the lists: the machine of the tests, or the kernel.
pub trait Owner: Cpu {
    /// Takes back frames that a wrong solution has taken out.
    fn restore(&mut self, frames: Range<u64>);
}

/// Has a block taken out of the lists.
pub fn take(solution: &dyn Buddy, lists: &mut dyn Owner, order: u8) -> Option<u64> {
    let mut watched = Watched::new(lists, "take", order, 0);
    let answer = solution.take(&mut watched, order);
    match answer {
        Some(frame) => watched.leaves(frame),
        None => watched.nothing_fits(),
    }
    watched.finish();
    answer
}

/// Has a block, which the caller owns, put into the lists.
pub fn give(solution: &dyn Buddy, lists: &mut dyn Owner, frame: u64, order: u8) {
    let mut watched = Watched::new(lists, "give", order, 0);
    watched.hold(frame..frame + frames(order));
    solution.give(&mut watched, frame, order);
    watched.finish();
}

/// Has the empty cache filled.
pub fn refill(solution: &dyn Buddy, cpu: &mut dyn Owner, order: u8, most: usize) {
    let mut watched = Watched::new(cpu, "refill", order, most);
    solution.refill(&mut watched, order, most);
    if watched.lists.count() == 0 {
        watched.nothing_fits();
    }
    watched.finish();
}

/// Has room made in the full cache.
pub fn drain(solution: &dyn Buddy, cpu: &mut dyn Owner, order: u8) {
    let before = cpu.count();
    let mut watched = Watched::new(cpu, "drain", order, 0);
    solution.drain(&mut watched, order);
    if watched.lists.count() >= before {
        watched.wrong(&format!("the cache has {before} blocks, as before"));
    }
    watched.finish();
}

/// How many ranges of frames may be out of the lists at the same time.
const RANGES: usize = 32;

/// The lists, and what a solution has taken out of them and not yet put anywhere.
struct Watched<'a> {
    lists: &'a mut dyn Owner,
    verb: &'static str,
    /// Order of the blocks that it is about.
    order: u8,
    /// How many of them may still be put in the cache.
    room: usize,
    /// The first `ranges` are ranges that are out.
    held: [(u64, u64); RANGES],
    ranges: usize,
}

impl<'a> Watched<'a> {
    fn new(lists: &'a mut dyn Owner, verb: &'static str, order: u8, room: usize) -> Self {
        let held = [(0, 0); RANGES];
        Watched {
            lists,
            verb,
            order,
            room,
            held,
            ranges: 0,
        }
    }

    fn wrong(&self, why: &str) -> ! {
        panic!("lab: {}: {why}", self.verb);
    }
    /// What the table says of a frame that is not the solution's to use.
    fn says(&self, frame: u64) -> &'static str {
        match self.lists.order(frame) {
            Some(_) => "it is free: a block in the lists begins with it",
            None => "it was not taken out of the lists",
        }
    }

    /// Notes a range that is out.
    fn hold(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        // With those that lie beside it, it is one.
        let beside = |held: &(u64, u64), (start, end)| held.1 == start || held.0 == end;
        while let Some(at) = self.held[..self.ranges]
            .iter()
            .position(|held| beside(held, (start, end)))
        {
            let held = self.held[at];
            (start, end) = (start.min(held.0), end.max(held.1));
            self.ranges -= 1;
            self.held.swap(at, self.ranges);
        }
        if self.ranges == RANGES {
            self.lists.restore(start..end);
            self.wrong("more blocks are out of the lists than it can need");
        }
        self.held[self.ranges] = (start, end);
        self.ranges += 1;
    }

    /// Notes that a block is not out any more; panics unless all of it was.
    fn release(&mut self, what: &str, frame: u64, order: u8) {
        if order > MAX_ORDER || !frame.is_multiple_of(frames(order)) {
            self.wrong(&format!(
                "{what}: there is no block of order {order} at frame {frame:#x}"
            ));
        }
        let end = frame + frames(order);
        let held = &self.held[..self.ranges];
        let Some(at) = held
            .iter()
            .position(|held| held.0 <= frame && frame < held.1)
        else {
            let says = self.says(frame);
            self.wrong(&format!("{what}: frame {frame:#x}, order {order}: {says}"));
        };
        let (start, last) = self.held[at];
        if last < end {
            let says = self.says(last);
            self.wrong(&format!(
                "{what}: the block of order {order} at frame {frame:#x} has the frame {last:#x}: \
                 {says}"
            ));
        }
        self.ranges -= 1;
        self.held.swap(at, self.ranges);
        for rest in [start..frame, end..last] {
            if !rest.is_empty() {
                self.hold(rest);
            }
        }
    }

    /// The answer is this block.
    fn leaves(&mut self, frame: u64) {
        self.release("the answer", frame, self.order);
    }
    /// Panics where there is memory for a block.
    fn nothing_fits(&self) {
        let fit = self.lists.orders() >> self.order;
        if fit != 0 {
            let order = fit.trailing_zeros() as u8 + self.order;
            let frame = self.lists.first(order).unwrap_or_default();
            self.wrong(&format!(
                "no block of order {}, though the one of order {order} at frame {frame:#x} is free",
                self.order
            ));
        }
    }
    fn finish(self) {
        if let Some((start, end)) = self.held[..self.ranges].first() {
            self.wrong(&format!("the frames {start:#x} to {end:#x} are lost"));
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        for (start, end) in &self.held[..self.ranges] {
            self.lists.restore(*start..*end);
        }
    }
}

impl Lists for Watched<'_> {
    fn orders(&self) -> u32 {
        self.lists.orders()
    }
    fn first(&self, order: u8) -> Option<u64> {
        (order <= MAX_ORDER).then(|| self.lists.first(order))?
    }
    fn order(&self, frame: u64) -> Option<u8> {
        self.lists.order(frame)
    }
    fn remove(&mut self, frame: u64, order: u8) {
        match self.lists.order(frame) {
            Some(found) if found == order => {}
            Some(found) => self.wrong(&format!(
                "remove: frame {frame:#x}, order {order}: the free block there has order {found}"
            )),
            None => self.wrong(&format!(
                "remove: frame {frame:#x}, order {order}: no free block begins there"
            )),
        }
        self.lists.remove(frame, order);
        self.hold(frame..frame + frames(order));
    }
    fn push(&mut self, frame: u64, order: u8) {
        if order < MAX_ORDER && self.lists.order(frame ^ frames(order)) == Some(order) {
            let buddy = frame ^ frames(order);
            self.wrong(&format!(
                "push: frame {frame:#x}, order {order}: its buddy at frame {buddy:#x} is free, too: \
                 the two are one block of order {}",
                order + 1
            ));
        }
        self.release("push", frame, order);
        self.lists.push(frame, order);
    }
}

impl Cpu for Watched<'_> {
    fn count(&self) -> usize {
        self.lists.count()
    }
    fn batch(&self) -> usize {
        self.lists.batch()
    }
    fn keep(&mut self, frame: u64) {
        if self.room == 0 {
            self.wrong(&format!(
                "keep: frame {frame:#x}: the cache may have no more"
            ));
        }
        self.release("keep", frame, self.order);
        self.room -= 1;
        self.lists.keep(frame);
    }
    fn oldest(&mut self) -> Option<u64> {
        let frame = self.lists.oldest()?;
        self.hold(frame..frame + frames(self.order));
        Some(frame)
    }
}
