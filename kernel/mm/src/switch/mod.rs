//! The values of the switches in one memory manager, and typed questions about them. The switches
//! themselves are a table of one row each ([`switches`], `kernel/switches/src/table.rs`).

mod accounting;

pub use accounting::{AccountScheme, Accounting, page_counts};
pub use switches::Switch;

use crate::arch::Level;
use crate::sync::{AtomicU32, Ordering};
use ::own::{Batching, MmId};

/// [`Switch::Fork`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForkBy {
    /// One account update for each entry.
    Pte,
    /// One for each run of entries of one folio.
    Batch,
    /// Tables of PTEs are shared until one changes.
    Share,
}

/// [`Switch::SwapIn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapIn {
    /// Each page by itself.
    Page,
    /// As much of a folio as there is memory for.
    Whole,
    /// The same while memory is not short; then what is used.
    Adaptive,
}

/// The switches of one memory manager.
pub struct Switches {
    numbers: [AtomicU32; switches::COUNT],
    /// [`Accounting`], as the numbers have it.
    accounting: AtomicU32,
    /// [`Switches::fork_slowly`], as the numbers have it.
    slowly: AtomicU32,
    /// [`Switches::by_page`], as the numbers have it: bit 0 references, bit 1 mappings.
    singly: AtomicU32,
}

impl Default for Switches {
    fn default() -> Self {
        let mut all = Switch::all();
        let mut initial = || all.next().map_or(0, Switch::initial);
        Switches {
            numbers: core::array::from_fn(|_| AtomicU32::new(initial())),
            accounting: AtomicU32::new(Accounting::of(Switch::initial).0),
            slowly: AtomicU32::new(0),
            singly: AtomicU32::new(0),
        }
    }
}

impl Switches {
    /// The number of a switch's word.
    #[inline]
    pub fn get(&self, switch: Switch) -> u32 {
        self.numbers[switch as usize].load(Ordering::Relaxed)
    }
    /// The word that a switch is set to.
    pub fn word(&self, switch: Switch) -> &'static str {
        switch.words()[self.get(switch) as usize]
    }
    /// Sets a switch to a word, by number; panics when there is no such word. A [`Switch::boot`]
    /// switch must not change once there are address spaces.
    pub fn set(&self, switch: Switch, number: u32) {
        assert!((number as usize) < switch.words().len());
        self.numbers[switch as usize].store(number, Ordering::Relaxed);
        let accounting = Accounting::of(|switch| self.get(switch));
        self.accounting.store(accounting.0, Ordering::Relaxed);
        let one_by_one = |switch: Switch| u32::from(self.get(switch) == 0);
        let singly = one_by_one(Switch::Refs) | one_by_one(Switch::Rmap) << 1;
        self.singly.store(singly, Ordering::Relaxed);
        let slowly = self.fork() == ForkBy::Pte || singly != 0;
        self.slowly.store(slowly.into(), Ordering::Relaxed);
    }
    /// [`Switch::Move`]: the level of the largest entries that mremap moves whole.
    #[inline]
    pub fn move_level(&self) -> Level {
        match self.get(Switch::Move) {
            0 => Level::Pte,
            1 => Level::Pmd,
            2 => Level::Pud,
            _ => Level::Pgd,
        }
    }
    /// Which updates of the account are batched for a run of entries; `None`: all are.
    #[inline]
    pub fn by_page(&self) -> Option<Batching> {
        match self.singly.load(Ordering::Relaxed) {
            0 => None,
            singly => Some(Batching {
                refs: singly & 1 == 0,
                maps: singly & 2 == 0,
            }),
        }
    }
    /// [`Switch::Split`]: page by page.
    #[inline]
    pub fn splits_by_page(&self) -> bool {
        self.get(Switch::Split) == 0
    }
    /// How the account is kept.
    #[inline]
    pub fn accounting(&self) -> Accounting {
        Accounting(self.accounting.load(Ordering::Relaxed))
    }
    /// [`Switch::Fork`].
    #[inline]
    pub fn fork(&self) -> ForkBy {
        match self.get(Switch::Fork) {
            0 => ForkBy::Pte,
            1 => ForkBy::Batch,
            _ => ForkBy::Share,
        }
    }
    /// [`Switch::SwapIn`].
    pub fn swap_in(&self) -> SwapIn {
        match self.get(Switch::SwapIn) {
            0 => SwapIn::Page,
            1 => SwapIn::Whole,
            _ => SwapIn::Adaptive,
        }
    }
    /// Whether fork does anything one by one: entries, references or mappings.
    #[inline]
    pub fn fork_slowly(&self) -> bool {
        self.slowly.load(Ordering::Relaxed) != 0
    }
    /// [`Switch::Ids`].
    #[inline]
    pub fn unique_ids(&self) -> u16 {
        match self.get(Switch::Ids) {
            0 => 1,
            _ => MmId::LAST,
        }
    }
}

/// Whether a switch that is off at number 0 is on.
macro_rules! questions {
    ($($(#[$doc:meta])* $question:ident = $switch:ident;)*) => {
        impl Switches {
            $($(#[$doc])*
            #[inline]
            pub fn $question(&self) -> bool {
                self.get(Switch::$switch) != 0
            })*
        }
    };
}
questions! {
    /// [`Switch::Contpte`].
    contpte = Contpte;
    /// [`Switch::Subids`]: worked out once for each address space.
    subids_stored = Subids;
    /// [`Switch::Writer`]: an exclusive writer needs no read-modify-writes.
    writer_exclusive = Writer;
    /// [`Switch::Seq`]: by an add.
    seq_add = Seq;
    /// [`Switch::Zap`]: in runs of one folio.
    zap_batch = Zap;
    /// [`Switch::Cow`]: what surrounds the page, too, be it at once or as writes go on.
    cow_around = Cow;
    /// [`Switch::Reuse`]: all of the folio.
    reuse_around = Reuse;
}

impl Switches {
    /// [`Switch::Cow`]: what surrounds the page only where writes came through what is beside it.
    #[inline]
    pub fn cow_grows(&self) -> bool {
        self.get(Switch::Cow) == 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ids_are_their_numbers() {
        let switches = Switches::default();
        for (number, word) in Switch::Ids.words().iter().enumerate() {
            switches.set(Switch::Ids, number as u32);
            assert_eq!(word.parse(), Ok(switches.unique_ids()));
        }
    }

    #[test]
    fn by_default_the_most_is_on() {
        let switches = Switches::default();
        assert_eq!(switches.accounting(), Accounting::PLAIN);
        assert_eq!(switches.accounting().scheme(), AccountScheme::Unified);
        assert_eq!(switches.fork(), ForkBy::Share);
        assert!(Switch::Account.boot() && !Switch::Fork.boot());
        switches.set(Switch::Account, Switch::Account.number("digits").unwrap());
        assert_eq!(switches.accounting().scheme(), AccountScheme::Digits);
        assert!(!switches.accounting().counts_pages() && switches.by_page().is_none());
    }
}
