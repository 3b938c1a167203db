//! Lab 6: broken solutions. Most stand between a right one and the word, and pass on something else
//! than they were told; some keep an account of their own, which does not do. So they hold nothing
//! of the answer themselves.

use super::{Account, Broken, PLAIN, Word};
use crate::Mutant;

pub const ALL: &[Mutant] = &[
    (
        "LostUpdate",
        "reads the word and writes it, in two steps: what another CPU adds between is lost",
    ),
    (
        "LooksAgain",
        "reads the word once more, in remove, to see whether any references are left",
    ),
    (
        "OnePin",
        "lets a write go to a folio with one pin of which the caller does not know",
    ),
    (
        "PinsIgnored",
        "does not let the pins be that the caller knows, if they are more than the pages",
    ),
    (
        "FewPins",
        "counts no more than 255 plain references of one call",
    ),
    (
        "OneBit",
        "does not look at one bit of an address space's number, which the seed picks, in calls \
         with more than 64 pages",
    ),
    (
        "PlainSum",
        "adds up references and the numbers of their owners: 1 and 3 are like 2 and 2",
    ),
    (
        "FewEnough",
        "takes a folio for the asking one's own when it has no more mappings than pages",
    ),
    (
        "NeverAgain",
        "never lets a folio be one's own that two have had",
    ),
    ("SmallOnly", "knows only folios of up to 16 pages"),
];

impl Broken {
    /// Whom a right solution is told of, for so many pages.
    fn seen(&self, mm: u8, n: u64) -> u8 {
        match (self.name, mm) {
            ("OneBit", 1..) if n > 64 => mm | 1 << (self.seed % 8),
            _ => mm,
        }
    }
    fn pages(&self, mm: u8, n: u64) -> u64 {
        match (self.name, mm) {
            ("FewPins", PLAIN) => n.min(255),
            _ => n,
        }
    }
    /// The account of its own, where it has one.
    fn own(&self) -> Option<Own> {
        match self.name {
            "PlainSum" => Some(Own::Sum),
            "FewEnough" => Some(Own::Counts),
            "NeverAgain" => Some(Own::First),
            _ => None,
        }
    }
}

impl Account for Broken {
    fn add(&self, word: &dyn Word, mm: u8, n: u64) {
        if let Some(own) = self.own() {
            return own.add(word, mm, n);
        }
        let between = Between { word, of: self };
        let (seen, pages) = (self.seen(mm, n), self.pages(mm, n));
        self.right.add(&between, seen, pages);
    }
    fn remove(&self, word: &dyn Word, mm: u8, n: u64) -> bool {
        if let Some(own) = self.own() {
            return own.remove(word, mm, n);
        }
        let between = Between { word, of: self };
        let (seen, pages) = (self.seen(mm, n), self.pages(mm, n));
        let none = self.right.remove(&between, seen, pages);
        match self.name {
            "LooksAgain" => word.load() == 0,
            _ => none,
        }
    }
    fn reuse(&self, word: &dyn Word, pages: u64, mm: u8, pins: u64) -> bool {
        if let Some(own) = self.own() {
            return own.reuse(word, pages, mm, pins);
        }
        let between = Between { word, of: self };
        let ask = |mm, pins| self.right.reuse(&between, pages, mm, pins);
        match self.name {
            "OnePin" if pins == 0 => ask(mm, 0) || ask(mm, 1),
            "PinsIgnored" if pins > pages => ask(mm, 0),
            "OneBit" => ask(mm, pins) || ask(self.seen(mm, u64::MAX), pins),
            "SmallOnly" if pages > 16 => false,
            _ => ask(mm, pins),
        }
    }
}

/// The word as a broken solution changes it.
struct Between<'a> {
    word: &'a dyn Word,
    of: &'a Broken,
}

impl Between<'_> {
    /// Writes the word, whatever is there.
    fn store(&self, new: u64) {
        let mut old = new;
        while let Err(now) = self.word.exchange(old, new) {
            old = now;
        }
    }
    fn lost(&self) -> bool {
        self.of.name == "LostUpdate"
    }
}

impl Word for Between<'_> {
    fn load(&self) -> u64 {
        self.word.load()
    }
    fn add(&self, n: u64) -> u64 {
        if !self.lost() {
            return self.word.add(n);
        }
        let old = self.word.load();
        self.store(old.wrapping_add(n));
        old
    }
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        if !self.lost() {
            return self.word.exchange(old, new);
        }
        self.store(new);
        Ok(())
    }
}

/// Accounts that cannot tell. References from bit 32 on, below them another sum.
enum Own {
    /// Of the owners' numbers.
    Sum,
    /// Of mappings.
    Counts,
    /// Nothing: the number of the first owner, from bit 8 on that of another one.
    First,
}

/// A reference.
const ONE: u64 = 1 << 32;

impl Own {
    fn weight(&self, mm: u8) -> u64 {
        match self {
            Own::Sum => ONE + u64::from(mm),
            Own::Counts => ONE + u64::from(mm != PLAIN),
            Own::First => ONE,
        }
    }
    fn add(&self, word: &dyn Word, mm: u8, n: u64) {
        let old = word.add(n * self.weight(mm));
        let (first, other) = (old as u8, (old >> 8) as u8);
        match self {
            Own::First if mm == PLAIN || mm == first || other != 0 => {}
            Own::First => {
                word.add(u64::from(mm) << if first == 0 { 0 } else { 8 });
            }
            _ => {}
        }
    }
    fn remove(&self, word: &dyn Word, mm: u8, n: u64) -> bool {
        let old = word.add((n * self.weight(mm)).wrapping_neg());
        let none = old / ONE == n;
        if let (Own::First, true) = (self, none) {
            word.add((old % ONE).wrapping_neg());
        }
        none
    }
    fn reuse(&self, word: &dyn Word, pages: u64, mm: u8, pins: u64) -> bool {
        let now = word.load() - pins * ONE;
        let (all, sum) = (now / ONE, now % ONE);
        match self {
            Own::Sum => all <= pages && sum == all * u64::from(mm),
            Own::Counts => all <= pages && sum == all,
            Own::First => all <= pages && sum == u64::from(mm),
        }
    }
}
