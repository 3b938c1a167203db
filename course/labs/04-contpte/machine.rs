//! A machine for tests: 16 entries, and a CPU that uses them with all liberties that the
//! architecture gives it. Its TLB holds whatever it has read until it is flushed, and reads ahead;
//! of a folded block it may use any one entry for all 16 pages, and mark any one as used.

use super::{Block, Change, ENTRIES, Entry, Used};
use crate::Random;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

/// The right to write, among others.
const WRITE: u32 = 1 << 1;

/// 16 entries that map consecutive frames from `first` on, to be read and written, unused.
pub fn entries(first: u64) -> [Option<Entry>; ENTRIES] {
    core::array::from_fn(|index| {
        Some(Entry {
            frame: first + index as u64,
            rights: WRITE | 1,
            contiguous: false,
            used: Used::default(),
        })
    })
}

/// Entries that CPUs use.
pub struct Machine {
    state: RefCell<State>,
    /// Pages of each folio.
    folio: u64,
}

struct State {
    entries: [Option<Entry>; ENTRIES],
    /// What is mapped, whatever the entries say meanwhile.
    mapped: [Option<Entry>; ENTRIES],
    /// What the TLB holds, with the index of the entry that it was read from.
    tlb: Vec<(usize, Entry)>,
    /// How each page was used.
    used: [Used; ENTRIES],
    random: Random,
    /// Whether another CPU uses the pages at each step of a solution.
    busy: bool,
}

impl Machine {
    /// A machine whose TLB is empty. A folio has so many pages, and begins at a multiple of that.
    pub fn new(entries: [Option<Entry>; ENTRIES], folio: u64) -> Machine {
        let of = |entry: Option<Entry>| entry.map(|entry| entry.used).unwrap_or_default();
        let state = RefCell::new(State {
            entries,
            mapped: entries,
            tlb: Vec::new(),
            used: entries.map(of),
            random: Random(1),
            busy: false,
        });
        Machine { state, folio }
    }
    /// Another CPU reads and writes pages that the seed picks, before each step of a solution.
    pub fn busy(self, seed: u64) -> Machine {
        let mut state = self.state.borrow_mut();
        (state.busy, state.random) = (true, Random(seed));
        drop(state);
        self
    }
    /// A program reads a page; `false`: it faults. Panics where it would read something else.
    pub fn read(&self, page: usize) -> bool {
        self.state.borrow_mut().use_page(page, false)
    }
    /// A program writes to a page; `false`: it faults. Panics where it would write elsewhere.
    pub fn write(&self, page: usize) -> bool {
        self.state.borrow_mut().use_page(page, true)
    }
    /// What the entries say.
    pub fn now(&self) -> [Option<Entry>; ENTRIES] {
        self.state.borrow().entries
    }
    /// How programs have used each page; what its entry said at the beginning counts.
    pub fn truth(&self) -> [Used; ENTRIES] {
        self.state.borrow().used
    }
    /// The same of all pages together.
    pub fn truth_of_all(&self) -> Used {
        self.truth().into_iter().fold(Used::default(), Used::or)
    }

    fn step(&self) {
        let mut state = self.state.borrow_mut();
        for _ in 0..if state.busy { 3 } else { 0 } {
            let page = state.random.below(ENTRIES as u64) as usize;
            let write = state.random.below(8) == 0;
            state.use_page(page, write);
        }
    }
}

impl Block for Machine {
    fn read(&self, index: usize) -> Option<Entry> {
        self.step();
        self.state.borrow().entries[index]
    }
    fn folio(&self, frame: u64) -> Range<u64> {
        let head = frame - frame % self.folio;
        head..head + self.folio
    }
}

impl Change for Machine {
    fn take(&mut self, index: usize) -> Option<Entry> {
        self.step();
        self.state.borrow_mut().entries[index].take()
    }
    fn write(&mut self, index: usize, entry: Entry) {
        self.step();
        self.state.borrow_mut().entries[index] = Some(entry);
    }
    fn flush(&mut self) {
        self.step();
        self.state.borrow_mut().tlb.clear();
    }
}

/// The frame that an entry read at `from` answers with for a page. The TLB puts the page's number
/// into the low bits of a contiguous one.
fn answer((from, entry): (usize, Entry), page: usize) -> Option<u64> {
    match entry.contiguous {
        true => Some(entry.frame - entry.frame % ENTRIES as u64 + page as u64),
        false => (from == page).then_some(entry.frame),
    }
}

impl State {
    fn use_page(&mut self, page: usize, write: bool) -> bool {
        self.read_ahead(page);
        let Some(held) = self.held(page) else {
            return false;
        };
        let (_, entry) = self.tlb[held];
        self.check(page, held);
        let used = Used {
            accessed: true,
            dirty: write,
        };
        if write && entry.rights & WRITE == 0 || !self.mark(page, held, used) {
            return false;
        }
        self.used[page] = self.used[page].or(used);
        true
    }

    /// Reads the page's entry, or in a folded block any other, unless the TLB has that.
    fn read_ahead(&mut self, page: usize) {
        let from = self.any_of_block(page);
        let Some(entry) = self.entries[from] else {
            return;
        };
        let same = |(at, held): &(usize, Entry)| {
            held.contiguous == entry.contiguous
                && (held.contiguous || *at == from)
                && held.rights == entry.rights
                && answer((*at, *held), page) == answer((from, entry), page)
        };
        if !self.tlb.iter().any(same) {
            self.tlb.push((from, entry));
        }
    }

    /// The page's entry, or any of those that are folded with it.
    fn any_of_block(&mut self, page: usize) -> usize {
        let folded = |index: usize| self.entries[index].is_some_and(|entry| entry.contiguous);
        if !folded(page) {
            return page;
        }
        let all: Vec<usize> = (0..ENTRIES).filter(|index| folded(*index)).collect();
        all[self.random.below(all.len() as u64) as usize]
    }

    /// Where the TLB has the page. Two translations of different kinds are a conflict.
    fn held(&self, page: usize) -> Option<usize> {
        let covers = |held: &usize| answer(self.tlb[*held], page).is_some();
        let mut all = (0..self.tlb.len()).filter(covers);
        let first = all.next()?;
        for other in all {
            let (one, two) = (self.tlb[first].1, self.tlb[other].1);
            if one.contiguous != two.contiguous {
                panic!(
                    "TLB conflict: page {page} is held both alone and as a part of a block: \
                     between the old entry and the new one there was no flush while it was absent"
                );
            }
        }
        Some(first)
    }

    /// Whether the TLB translates the page to what is mapped there.
    fn check(&self, page: usize, held: usize) {
        let ((from, entry), mapped) = (self.tlb[held], self.mapped[page]);
        let frame = answer((from, entry), page);
        let Some(mapped) = mapped else {
            panic!("page {page} is absent, and entry {from} translates it, to {frame:#x?}");
        };
        if frame != Some(mapped.frame) {
            let mapped = mapped.frame;
            panic!(
                "page {page} is in frame {mapped:#x}, and entry {from} translates to {frame:#x?}"
            );
        }
        if entry.rights != mapped.rights {
            let (own, other) = (mapped.rights, entry.rights);
            panic!(
                "page {page} has rights {own:#b}, and is used with those of entry {from}, {other:#b}"
            );
        }
    }

    /// Marks the page as used, unless the TLB knows that it is; `false`: its entry is absent.
    fn mark(&mut self, page: usize, held: usize, used: Used) -> bool {
        let known = self.tlb[held].1.used;
        if known.or(used) == known {
            return true;
        }
        let at = self.any_of_block(page);
        let Some(entry) = &mut self.entries[at] else {
            return false;
        };
        entry.used = entry.used.or(used);
        self.tlb[held].1.used = known.or(used);
        true
    }
}
