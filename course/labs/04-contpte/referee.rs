//! What the kernel checks of a solution at each call. A wrong step ends it, in words: "lab: ...".

use super::{Block, Change, Contpte, ENTRIES, Entry, Used};
use alloc::format;
use alloc::string::String;
use core::array;
use core::ops::Range;

/// All 16.
const ALL: u16 = u16::MAX;

/// Asks whether a block may fold. Panics where it may not, and the answer is that it may.
pub fn may_fold(solution: &dyn Contpte, block: &dyn Block) -> bool {
    let answer = solution.may_fold(block);
    if answer && let Some(why) = why_not(block) {
        panic!("lab: may_fold: {why}");
    }
    answer
}

fn why_not(block: &dyn Block) -> Option<String> {
    let mut one: Option<Entry> = None;
    for index in 0..ENTRIES {
        let Some(entry) = block.read(index) else {
            return Some(format!("entry {index} is absent"));
        };
        let first = *one.get_or_insert(entry);
        let (frame, next) = (entry.frame, first.frame + index as u64);
        if frame != next {
            return Some(format!(
                "entry {index} maps frame {frame:#x}, {next:#x} would follow"
            ));
        }
        if entry.rights != first.rights {
            let (own, others) = (entry.rights, first.rights);
            return Some(format!(
                "entry {index} has rights {own:#b}, entry 0 {others:#b}"
            ));
        }
    }
    let frame = one?.frame;
    if frame & (ENTRIES as u64 - 1) != 0 {
        return Some(format!("entry 0 maps frame {frame:#x}, no multiple of 16"));
    }
    let folio = block.folio(frame);
    let outside = folio.start > frame || folio.end < frame + ENTRIES as u64;
    let Range { start, end } = folio;
    outside.then(|| format!("frame {frame:#x} is of the folio {start:#x}-{end:#x}: too short"))
}

/// Has the block at `start` folded.
pub fn fold(solution: &dyn Contpte, block: &mut dyn Change, start: u64) {
    let mut watched = Watched::new(block, start, true);
    solution.fold(&mut watched);
    watched.finish();
}

/// Has the folded block at `start` taken apart.
pub fn unfold(solution: &dyn Contpte, block: &mut dyn Change, start: u64) {
    let mut watched = Watched::new(block, start, false);
    solution.unfold(&mut watched);
    watched.finish();
}

/// Asks how a folded block was used; the hardware may set more bits meanwhile.
pub fn used(solution: &dyn Contpte, block: &dyn Block) -> Used {
    let before = said(block);
    let answer = solution.used(block);
    if answer.or(before) != answer {
        panic!("lab: used: entries of the block say {before:?}, and the answer is {answer:?}");
    }
    if answer != before {
        let after = said(block);
        if after.or(answer) != after {
            panic!("lab: used: the answer is {answer:?}, and the entries say {after:?}");
        }
    }
    answer
}

fn said(block: &dyn Block) -> Used {
    let each = (0..ENTRIES).filter_map(|index| block.read(index));
    each.fold(Used::default(), |sum, entry| sum.or(entry.used))
}

/// A block, and what was done to it.
struct Watched<'a> {
    block: &'a mut dyn Change,
    start: u64,
    /// What is to become of the contiguous bit.
    contiguous: bool,
    /// What each entry said last, of those that were taken: one bit each.
    last: [Option<Entry>; ENTRIES],
    taken: u16,
    written: u16,
    /// Whether a flush came after the last one was taken.
    flushed: bool,
    /// What the taken ones said, and what the written ones do.
    old: Used,
    new: Used,
    /// Whether all of it was right.
    right: bool,
}

impl<'a> Watched<'a> {
    fn new(block: &'a mut dyn Change, start: u64, contiguous: bool) -> Self {
        Watched {
            block,
            start,
            contiguous,
            last: [None; ENTRIES],
            taken: 0,
            written: 0,
            flushed: false,
            old: Used::default(),
            new: Used::default(),
            right: false,
        }
    }

    fn wrong(&self, index: usize, why: &str) -> ! {
        let verb = if self.contiguous { "fold" } else { "unfold" };
        let at = self.start + index as u64 * 4096;
        panic!("lab: {verb}: entry {index} at {at:#x}: {why}");
    }

    /// Panics unless the entry may be written now, and so.
    fn check(&self, index: usize, entry: Entry) {
        if self.taken & 1 << index == 0 {
            self.wrong(index, "it is written while it is valid");
        }
        if self.taken != ALL {
            let valid = self.taken.trailing_ones();
            self.wrong(
                index,
                &format!("it is written while entry {valid} is valid"),
            );
        }
        if !self.flushed {
            self.wrong(
                index,
                "it is written before a flush: a TLB may hold what it said",
            );
        }
        if entry.contiguous != self.contiguous {
            self.wrong(
                index,
                &format!("its contiguous bit is {}", entry.contiguous),
            );
        }
        let same = |old: Entry| (old.frame, old.rights) == (entry.frame, entry.rights);
        let old = self.last[index];
        if !old.is_some_and(same) {
            self.wrong(
                index,
                &format!("it said {old:x?}, and is to say {entry:x?}"),
            );
        }
        // Apart, each has to say what the block did.
        if !self.contiguous && entry.used != self.old {
            let (old, new) = (self.old, entry.used);
            self.wrong(
                index,
                &format!("the block was {old:?}, and it is to say {new:?}"),
            );
        }
    }

    fn finish(mut self) {
        if self.written != ALL {
            let left = self.written.trailing_ones() as usize;
            self.wrong(left, "it is not written: all 16 belong to the block");
        }
        if self.new != self.old {
            let (old, new) = (self.old, self.new);
            self.wrong(0, &format!("the 16 entries said {old:?}, and now {new:?}"));
        }
        self.right = true;
    }
}

/// After a wrong step the block is as it was before: the simulated machine ends in order, and looks
/// for a shorter way to the same step.
impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.right {
            return;
        }
        let now: [_; ENTRIES] = array::from_fn(|index| self.block.take(index));
        self.block.flush();
        for (index, now) in now.into_iter().enumerate() {
            if let Some(entry) = self.last[index].or(now) {
                self.block.write(index, entry);
            }
        }
    }
}

impl Block for Watched<'_> {
    fn read(&self, index: usize) -> Option<Entry> {
        self.block.read(index)
    }
    fn folio(&self, frame: u64) -> Range<u64> {
        self.block.folio(frame)
    }
}

impl Change for Watched<'_> {
    fn take(&mut self, index: usize) -> Option<Entry> {
        let last = self.block.take(index);
        if let Some(entry) = last {
            self.last[index] = last;
            self.old = self.old.or(entry.used);
            self.flushed = false;
        }
        self.taken |= 1 << index;
        last
    }
    fn write(&mut self, index: usize, entry: Entry) {
        self.check(index, entry);
        self.new = self.new.or(entry.used);
        self.written |= 1 << index;
        self.block.write(index, entry);
    }
    fn flush(&mut self) {
        self.block.flush();
        self.flushed = true;
    }
}
