//! An atomic seqcount: readers notice that writers were at work, and several writers may be at work
//! at once.
//!
//! ```text
//!     bits 0..16  writers that share       16..32  writers that are alone, or hope to be       32..64  sections that ended
//! ```
//! A writer that finds the word without writers is alone: it may update with plain loads and
//! stores, and later writers wait for it. Otherwise it shares: it updates with atomic adds beside
//! the others. Either way it takes two read-modify-writes.
//!
//! A reader takes what it read for good if there was no writer before, and the word is the same
//! after. The same word after 2^32 sections would deceive it.

use crate::mutant::{self, Mutant};
use crate::sync::{self, AtomicU32, AtomicU64, Ordering, fence};

const SHARING: u64 = 1;
const ALONE: u64 = 1 << 16;
const ENDED: u64 = 1 << 32;
/// The writers of both kinds.
const WRITERS: u64 = ENDED - 1;

/// The word.
pub(crate) struct Seqcount<'a>(pub &'a AtomicU64);

/// How a writer tries to be alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Not at all: every writer shares.
    Share,
    /// By a compare-exchange; it fails when others are there.
    Exchange,
    /// By an add: when others are there, a second one takes it back.
    Add,
}

/// A writer's section; [`Section::end`] ends it.
#[must_use]
pub(crate) struct Section<'a> {
    word: &'a AtomicU64,
    /// Whether no other writer can be in a section.
    pub alone: bool,
    /// Read-modify-writes so far.
    rmws: u32,
}

impl<'a> Seqcount<'a> {
    /// Begins a section.
    #[inline]
    pub fn write(&self, entry: Entry) -> Section<'a> {
        let (alone, rmws) = match entry {
            Entry::Share => (false, self.share(SHARING)),
            Entry::Exchange => match self.exchange() {
                true => (true, 1),
                false => (false, 1 + self.share(SHARING)),
            },
            // Acquire pairs with the release in `Section::end`.
            Entry::Add => match self.0.fetch_add(ALONE, Ordering::Acquire) & WRITERS {
                0 => (true, 1),
                _ => (false, 1 + self.share(SHARING.wrapping_sub(ALONE))),
            },
        };
        // Pairs with the acquire fence in `read`: a reader that saw one of this section's values
        // also sees that it had begun.
        fence(Ordering::Release);
        Section {
            word: self.0,
            alone,
            rmws,
        }
    }

    #[inline]
    fn exchange(&self) -> bool {
        let idle = self.0.load(Ordering::Relaxed) & !WRITERS;
        // Acquire pairs with the release in `Section::end`.
        let taken =
            self.0
                .compare_exchange(idle, idle + ALONE, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    /// Becomes a sharing writer; waits for the one that is alone.
    fn share(&self, change: u64) -> u32 {
        let mut word = self
            .0
            .fetch_add(change, Ordering::Acquire)
            .wrapping_add(change);
        while word & WRITERS >= ALONE {
            sync::pause();
            word = self.0.load(Ordering::Acquire);
        }
        1
    }

    /// What `look` finds in a moment without writers.
    pub fn read<T>(&self, look: impl Fn() -> T) -> T {
        loop {
            // Acquire pairs with the release in `Section::end`: the values of the sections that
            // ended are seen.
            let before = self.0.load(Ordering::Acquire);
            if before & WRITERS == 0 {
                let found = look();
                // Pairs with the release fence in `write`.
                fence(Ordering::Acquire);
                if self.0.load(Ordering::Relaxed) == before || mutant::on(Mutant::OneLook) {
                    return found;
                }
            }
            sync::pause();
        }
    }
}

impl Section<'_> {
    /// Adds to one of the values that the seqcount covers; modulo 2^64.
    #[inline]
    pub fn add(&mut self, value: &AtomicU64, n: u64) {
        if self.alone {
            let sum = value.load(Ordering::Relaxed).wrapping_add(n);
            value.store(sum, Ordering::Relaxed);
        } else {
            value.fetch_add(n, Ordering::Relaxed);
            self.rmws += 1;
        }
    }

    /// As [`Section::add`] for a count of 32 bits; returns what was there.
    #[inline]
    pub fn add_to_count(&mut self, count: &AtomicU32, n: u32) -> u32 {
        if self.alone {
            let old = count.load(Ordering::Relaxed);
            count.store(old.wrapping_add(n), Ordering::Relaxed);
            old
        } else {
            self.rmws += 1;
            count.fetch_add(n, Ordering::Relaxed)
        }
    }

    /// Ends the section; returns how many read-modify-writes it took.
    #[inline]
    pub fn end(self) -> u32 {
        let kind = if self.alone { ALONE } else { SHARING };
        // Release pairs with the acquire of readers and of later writers.
        self.word.fetch_add(ENDED - kind, Ordering::Release);
        self.rmws + 1
    }
}
