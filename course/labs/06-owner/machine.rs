//! A machine for tests: one folio, who has it, and other CPUs that do what they may with it while a
//! solution is at work.

use super::{PLAIN, Subject, Word};
use crate::Random;
use core::cell::{Cell, RefCell};

/// How many there are to refer to a folio, [`PLAIN`] included.
const OWNERS: usize = 256;
/// What others do in one call of a solution, at most.
const MOST: u32 = 3;

/// A folio, with the account that a solution keeps.
pub struct Folio<'a> {
    solution: &'a Subject,
    pages: u64,
    word: Cell<u64>,
    /// How many references each has, as it is.
    held: RefCell<[u64; OWNERS]>,
    /// What other CPUs do next, where there are some.
    others: RefCell<Option<Random>>,
    /// Who cannot do anything now, as its page tables are locked.
    locked: Cell<[u8; 2]>,
    /// Calls that are not done: one, or two where one CPU meets another.
    depth: Cell<u32>,
    /// What others may still do in this call.
    left: Cell<u32>,
    /// How often the answer was that no references are left.
    freed: Cell<u32>,
    /// Of which owner it is asked whether the folio is its own, but for some pins, and whether it
    /// was at any time since.
    asked: Cell<Option<(u8, u64, bool)>>,
}

impl<'a> Folio<'a> {
    /// A folio of so many pages, a power of two up to 512, that nobody refers to.
    pub fn new(solution: &'a Subject, pages: u64) -> Folio<'a> {
        Folio {
            solution,
            pages,
            word: Cell::new(0),
            held: RefCell::new([0; OWNERS]),
            others: RefCell::default(),
            locked: Cell::new([PLAIN; 2]),
            depth: Cell::new(0),
            left: Cell::new(0),
            freed: Cell::new(0),
            asked: Cell::new(None),
        }
    }
    /// Other address spaces that have the folio fork, unmap and unpin it, as the seed picks, before
    /// each step of a solution.
    pub fn busy(self, seed: u64) -> Folio<'a> {
        self.others.replace(Some(Random(seed)));
        self
    }
    /// Address space `mm` maps `n` pages more; [`PLAIN`]: a pin of them. One of those that have the
    /// folio already lets it do so.
    pub fn add(&self, mm: u8, n: u64) {
        let now = self.held(mm) + n;
        let most = if mm == PLAIN { 1 << 16 } else { self.pages };
        assert!(n > 0 && now <= most, "the test has {mm} map {now} pages");
        self.locked.set([mm, self.first_but(mm)]);
        self.do_add(mm, n);
    }
    /// It has unmapped `n` pages. Returns whether the folio is free. Panics where the answer is
    /// another than that.
    pub fn remove(&self, mm: u8, n: u64) -> bool {
        let held = self.held(mm);
        assert!(
            n > 0 && n <= held,
            "the test has {mm} unmap {n} pages of {held}"
        );
        self.locked.set([mm, mm]);
        self.do_remove(mm, n);
        let (left, freed) = (self.references(), self.freed.take());
        match (left, freed) {
            (0, 0) => {
                panic!("{mm} had the last {n} references, and the answer is that some are left")
            }
            (0, 1) => assert!(
                self.word.get() == 0,
                "no references are left, and the word is not 0"
            ),
            (0, _) => panic!("two calls have both found that no references are left"),
            (_, 0) => {}
            (left, _) => panic!("{left} references are left, and the answer is that none are"),
        }
        left == 0
    }
    /// Whether address space `mm`, which maps the folio, may write to it. Panics where it may and
    /// must not.
    pub fn reuse(&self, mm: u8) -> bool {
        self.reuse_but(mm, 0)
    }
    /// The same where `mm` knows of so many pins, which are its own: they are there.
    pub fn reuse_but(&self, mm: u8, pins: u64) -> bool {
        let maps = mm != PLAIN && self.held(mm) > 0;
        assert!(maps, "the test has {mm} write to what it does not map");
        let pinned = self.held(PLAIN);
        assert!(
            pins <= pinned,
            "the test has {mm} know of {pins} pins of {pinned}"
        );
        self.locked.set([mm, PLAIN]);
        self.asked.set(Some((mm, pins, false)));
        self.look();
        let answer = self.call(|| self.solution.reuse(self, self.pages, mm, pins));
        let was = self.asked.take().is_some_and(|(_, _, was)| was);
        let (held, all) = (self.held(mm), self.references());
        assert!(
            was || !answer,
            "{mm} has {held} of {all} references, {pins} are its pins, and it may write: others see that"
        );
        answer
    }
    /// How many references an owner has.
    pub fn held(&self, mm: u8) -> u64 {
        self.held.borrow()[usize::from(mm)]
    }
    /// How many there are.
    pub fn references(&self) -> u64 {
        self.held.borrow().iter().sum()
    }

    /// The first that has the folio and is another one.
    fn first_but(&self, mm: u8) -> u8 {
        let other = (1..=u8::MAX).find(|other| *other != mm && self.held(*other) > 0);
        other.unwrap_or(PLAIN)
    }
    fn do_add(&self, mm: u8, n: u64) {
        self.held.borrow_mut()[usize::from(mm)] += n;
        self.look();
        self.call(|| self.solution.add(self, mm, n));
    }
    fn do_remove(&self, mm: u8, n: u64) {
        self.held.borrow_mut()[usize::from(mm)] -= n;
        self.look();
        let free = self.call(|| self.solution.remove(self, mm, n));
        self.freed.set(self.freed.get() + u32::from(free));
    }
    fn call<R>(&self, work: impl FnOnce() -> R) -> R {
        let depth = self.depth.get();
        if depth == 0 {
            self.left.set(MOST);
        }
        self.depth.set(depth + 1);
        let result = work();
        self.depth.set(depth);
        result
    }
    /// Notes whether the folio is the asking one's own.
    fn look(&self) {
        if let Some((mm, pins, was)) = self.asked.get() {
            let own = self.held(mm) + pins == self.references() && self.held(PLAIN) == pins;
            self.asked.set(Some((mm, pins, was || own)));
        }
    }

    /// Another CPU does something before the next step.
    fn step(&self) {
        if self.depth.get() != 1 || self.left.get() == 0 {
            return;
        }
        let mut others = self.others.borrow_mut();
        let Some(random) = others.as_mut() else {
            return;
        };
        let locked = self.locked.get();
        let able = |mm: &u8| !locked.contains(mm) && self.held(*mm) > 0;
        let able = (1..=u8::MAX).filter(able).nth(random.below(4) as usize);
        let (Some(mm), verb) = (able, random.below(3)) else {
            return;
        };
        let (held, child) = (self.held(mm), 1 + random.below(8) as u8);
        let n = 1 + random.below(held);
        drop(others);
        self.left.set(self.left.get() - 1);
        match verb {
            0 if !locked.contains(&child) && child != mm => {
                let room = self.pages - self.held(child);
                if room > 0 {
                    self.do_add(child, n.min(room));
                }
            }
            1 => self.do_remove(mm, n),
            _ => self.do_remove(mm, held),
        }
    }
}

impl Word for Folio<'_> {
    fn load(&self) -> u64 {
        self.step();
        self.word.get()
    }
    fn add(&self, n: u64) -> u64 {
        self.step();
        let old = self.word.get();
        self.word.set(old.wrapping_add(n));
        old
    }
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        self.step();
        let now = self.word.get();
        if now != old {
            return Err(now);
        }
        self.word.set(new);
        Ok(())
    }
}
