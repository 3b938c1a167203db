//! Lab 4: broken solutions. Each stands between a right one and its block, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Block, Broken, Change, Contpte, ENTRIES, Entry, Used};
use crate::Mutant;
use core::ops::Range;

pub const ALL: &[Mutant] = &[
    (
        "NoFlush",
        "does not flush the TLB where entry 0 was not accessed",
    ),
    (
        "EarlyFlush",
        "flushes before it has made the entries absent",
    ),
    ("NoBreak", "writes over entries that are valid"),
    (
        "DirtyLost",
        "forgets, in fold, which entries were dirty, if an even number of them was",
    ),
    (
        "OwnAccessed",
        "leaves, in unfold, each entry accessed or not as it was alone, if none is dirty",
    ),
    (
        "StopsEarly",
        "does not look, in used, at what comes after an entry that was accessed",
    ),
    (
        "AnyRights",
        "does not compare one bit of the rights, from 2 on, which the seed picks",
    ),
    ("Misaligned", "lets a block begin at any frame"),
    ("TwoFolios", "lets a block lie in several folios"),
    (
        "TooStrict",
        "does not fold entries of which some are dirty and some are not",
    ),
];

/// Which question is answered.
#[derive(Clone, Copy, PartialEq)]
enum Verb {
    MayFold,
    Fold,
    Unfold,
    Used,
}

/// What stands between.
struct Between<'a> {
    block: &'a mut dyn Change,
    of: &'a Broken,
    verb: Verb,
    /// Whether anything was made absent.
    begun: bool,
    /// What the entries said when they were.
    last: [Used; ENTRIES],
}

impl<'a> Between<'a> {
    fn new(block: &'a mut dyn Change, of: &'a Broken, verb: Verb) -> Self {
        Between {
            block,
            of,
            verb,
            begun: false,
            last: [Used::default(); ENTRIES],
        }
    }
    fn is(&self, name: &str, verb: Verb) -> bool {
        self.of.name == name && self.verb == verb
    }
}

/// What is read, as a broken solution sees it.
fn seen(of: &Broken, verb: Verb, block: &dyn Block, index: usize) -> Option<Entry> {
    let mut entry = block.read(index)?;
    match (of.name, verb) {
        ("StopsEarly", Verb::Used) if (0..index).any(|before| accessed(block, before)) => {
            entry.used = Used::default();
        }
        ("AnyRights", Verb::MayFold) => entry.rights &= !(1 << (2 + of.seed % 30)),
        ("Misaligned", Verb::MayFold) => entry.frame -= shift(block),
        ("TooStrict", Verb::MayFold) => entry.rights |= u32::from(entry.used.dirty) << 31,
        _ => {}
    }
    Some(entry)
}

fn accessed(block: &dyn Block, index: usize) -> bool {
    block.read(index).is_some_and(|entry| entry.used.accessed)
}

/// By how much the first frame is not aligned.
fn shift(block: &dyn Block) -> u64 {
    block
        .read(0)
        .map_or(0, |first| first.frame % ENTRIES as u64)
}

fn folio(of: &Broken, block: &dyn Block, frame: u64) -> Range<u64> {
    match of.name {
        // As large as there may be, at the right alignment.
        "TwoFolios" => frame >> 9 << 9..(frame >> 9 << 9) + 512,
        _ => block.folio(frame),
    }
}

/// A block that is only read.
struct Seen<'a> {
    block: &'a dyn Block,
    of: &'a Broken,
    verb: Verb,
}

impl Block for Seen<'_> {
    fn read(&self, index: usize) -> Option<Entry> {
        seen(self.of, self.verb, self.block, index)
    }
    fn folio(&self, frame: u64) -> Range<u64> {
        folio(self.of, self.block, frame)
    }
}

impl Block for Between<'_> {
    fn read(&self, index: usize) -> Option<Entry> {
        self.block.read(index)
    }
    fn folio(&self, frame: u64) -> Range<u64> {
        self.block.folio(frame)
    }
}

impl Change for Between<'_> {
    fn take(&mut self, index: usize) -> Option<Entry> {
        if self.of.name == "EarlyFlush" && !self.begun {
            self.block.flush();
        }
        self.begun = true;
        let entry = match self.of.name {
            "NoBreak" => self.block.read(index),
            _ => self.block.take(index),
        }?;
        self.last[index] = entry.used;
        Some(entry)
    }
    fn write(&mut self, index: usize, mut entry: Entry) {
        let dirty = self.last.iter().filter(|used| used.dirty).count();
        if self.is("DirtyLost", Verb::Fold) {
            entry.used.dirty &= !dirty.is_multiple_of(2);
        }
        if self.is("OwnAccessed", Verb::Unfold) && dirty == 0 {
            entry.used.accessed = self.last[index].accessed;
        }
        self.block.write(index, entry);
    }
    fn flush(&mut self) {
        let skipped = match self.of.name {
            "NoFlush" => !self.last[0].accessed,
            name => name == "EarlyFlush",
        };
        if !skipped {
            self.block.flush();
        }
    }
}

impl Contpte for Broken {
    fn may_fold(&self, block: &dyn Block) -> bool {
        let (of, verb) = (self, Verb::MayFold);
        self.right.may_fold(&Seen { block, of, verb })
    }
    fn fold(&self, block: &mut dyn Change) {
        self.right.fold(&mut Between::new(block, self, Verb::Fold));
    }
    fn unfold(&self, block: &mut dyn Change) {
        self.right
            .unfold(&mut Between::new(block, self, Verb::Unfold));
    }
    fn used(&self, block: &dyn Block) -> Used {
        let (of, verb) = (self, Verb::Used);
        self.right.used(&Seen { block, of, verb })
    }
}
