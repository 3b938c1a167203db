//! Switches: every mechanism can be turned off or down, on the kernel's command line and at run time, and the tests pass
//! either way.

use crate::arch::Level;
use crate::sync::{AtomicU32, Ordering};

/// A mechanism with a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Switch {
    /// Complete blocks of PTEs get the contiguous bit, where the hardware has one. What is folded already stays so until
    /// it is changed.
    Contpte,
    /// The largest entries that mremap moves whole.
    Move,
    /// How the account of a folio's owners is kept.
    Account,
    /// `account=digits`: sub-ids looked up (at least 4 values), or worked out once for each address space (from 1 value on).
    Subids,
    /// `account=digits`: whether a writer that is alone goes without read-modify-writes.
    Writer,
    /// `account=digits`: how such a writer finds out that it is alone.
    Seq,
    /// How fork goes over the parent's entries: one by one, in runs of one folio, or it shares whole tables.
    Fork,
    /// How unmapping goes over entries: one by one, or in runs of one folio.
    Zap,
    /// What is copied on a write to a page that others have: that page, or what surrounds it of its folio, too.
    Cow,
    /// What becomes writable when a write finds that all of a folio is ours: that page, or all of the folio.
    Reuse,
}

/// [`Switch::Account`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountScheme {
    /// References and total mapcount.
    Total,
    /// Two slots for address spaces.
    TwoSlot,
    /// The first owner, and a count of the others' mappings.
    FirstOwner,
    /// The sums of sub-ids.
    Digits,
    /// The ownership word.
    Unified,
}

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

/// A switch's name, its words from the least mechanism to the most, and the place of the default.
struct Words {
    switch: Switch,
    name: &'static str,
    words: &'static [&'static str],
    default: u32,
    /// It can be chosen at boot only.
    boot: bool,
}

/// A switch that can be turned at run time, too.
const fn word(
    switch: Switch,
    name: &'static str,
    words: &'static [&'static str],
    default: u32,
) -> Words {
    Words {
        switch,
        name,
        words,
        default,
        boot: false,
    }
}

/// A switch that memory in use depends on.
const fn at_boot(words: Words) -> Words {
    Words {
        boot: true,
        ..words
    }
}

const SWITCHES: [Words; 10] = [
    word(Switch::Contpte, "contpte", &["off", "on"], 1),
    word(Switch::Move, "move", &["pte", "pmd", "pud", "pgd"], 3),
    at_boot(word(
        Switch::Account,
        "account",
        &["total", "two-slot", "owner", "digits", "unified"],
        4,
    )),
    at_boot(word(Switch::Subids, "subids", &["lookup", "stored"], 1)),
    at_boot(word(Switch::Writer, "writer", &["shared", "exclusive"], 1)),
    at_boot(word(Switch::Seq, "seq", &["cmpxchg", "add"], 1)),
    word(Switch::Fork, "fork", &["per-pte", "batch", "share"], 1),
    word(Switch::Zap, "zap", &["per-pte", "batch"], 1),
    word(Switch::Cow, "cow", &["page", "around"], 1),
    word(Switch::Reuse, "reuse", &["page", "around"], 1),
];

impl Switch {
    /// Every switch.
    pub fn all() -> impl Iterator<Item = Switch> {
        SWITCHES.iter().map(|s| s.switch)
    }
    /// The switch of this name.
    pub fn by_name(name: &str) -> Option<Switch> {
        SWITCHES.iter().find(|s| s.name == name).map(|s| s.switch)
    }
    /// Its name: `contpte=off` on the command line, `/sys/kernel/mm/quire/contpte`.
    pub fn name(self) -> &'static str {
        SWITCHES[self as usize].name
    }
    /// Whether it can be chosen at boot only, because memory in use depends on it.
    pub fn boot(self) -> bool {
        SWITCHES[self as usize].boot
    }
    /// What it can be set to, by number.
    pub fn words(self) -> &'static [&'static str] {
        SWITCHES[self as usize].words
    }
    /// The number of a word; NULs and blanks around it do not count.
    pub fn number(self, text: &str) -> Option<u32> {
        let word = text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
        let place = self.words().iter().position(|known| *known == word)?;
        Some(place as u32)
    }
}

/// The switches of one memory manager.
pub struct Switches([AtomicU32; SWITCHES.len()]);

impl Default for Switches {
    fn default() -> Self {
        Switches(core::array::from_fn(|i| {
            AtomicU32::new(SWITCHES[i].default)
        }))
    }
}

impl Switches {
    /// What it is set to.
    #[inline]
    pub fn get(&self, switch: Switch) -> u32 {
        self.0[switch as usize].load(Ordering::Relaxed)
    }
    /// What it is set to, as a word.
    pub fn word(&self, switch: Switch) -> &'static str {
        switch.words()[self.get(switch) as usize]
    }
    /// Sets it to a word, by number; a number without a word is our own mistake and panics. One that is [`Switch::boot`] must
    /// not change once there are address spaces.
    pub fn set(&self, switch: Switch, number: u32) {
        assert!((number as usize) < switch.words().len());
        self.0[switch as usize].store(number, Ordering::Relaxed);
    }
    /// [`Switch::Contpte`].
    #[inline]
    pub fn contpte(&self) -> bool {
        self.get(Switch::Contpte) != 0
    }
    /// Sets [`Switch::Contpte`].
    pub fn set_contpte(&self, on: bool) {
        self.set(Switch::Contpte, on.into());
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
    /// [`Switch::Account`].
    #[inline]
    pub fn account(&self) -> AccountScheme {
        match self.get(Switch::Account) {
            0 => AccountScheme::Total,
            1 => AccountScheme::TwoSlot,
            2 => AccountScheme::FirstOwner,
            3 => AccountScheme::Digits,
            _ => AccountScheme::Unified,
        }
    }
    /// [`Switch::Subids`]: worked out once for each address space.
    #[inline]
    pub fn subids_stored(&self) -> bool {
        self.get(Switch::Subids) != 0
    }
    /// [`Switch::Writer`]: one that is alone goes without read-modify-writes.
    #[inline]
    pub fn writer_exclusive(&self) -> bool {
        self.get(Switch::Writer) != 0
    }
    /// [`Switch::Seq`]: by an add.
    #[inline]
    pub fn seq_add(&self) -> bool {
        self.get(Switch::Seq) != 0
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
    /// [`Switch::Zap`]: in runs of one folio.
    #[inline]
    pub fn zap_batch(&self) -> bool {
        self.get(Switch::Zap) != 0
    }
    /// [`Switch::Cow`]: what surrounds the page, too.
    #[inline]
    pub fn cow_around(&self) -> bool {
        self.get(Switch::Cow) != 0
    }
    /// [`Switch::Reuse`]: all of the folio.
    #[inline]
    pub fn reuse_around(&self) -> bool {
        self.get(Switch::Reuse) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_stands_at_its_place() {
        for (place, switch) in SWITCHES.iter().enumerate() {
            assert_eq!(switch.switch as usize, place);
            assert!((switch.default as usize) < switch.words.len());
        }
    }

    #[test]
    fn words_are_stripped_and_others_refused() {
        assert_eq!(Switch::Contpte.number("on\n\0"), Some(1));
        assert_eq!(Switch::Move.number(" pte"), Some(0));
        assert_eq!(Switch::Move.number("p4d"), None);
        assert_eq!(Switch::by_name("move"), Some(Switch::Move));
        assert_eq!(Switch::Account.number("two-slot"), Some(1));
    }

    #[test]
    fn by_default_the_most_is_on_that_never_costs() {
        let switches = Switches::default();
        assert_eq!(switches.account(), AccountScheme::Unified);
        assert_eq!(switches.fork(), ForkBy::Batch);
        assert!(Switch::Account.boot() && !Switch::Fork.boot());
        switches.set(Switch::Account, Switch::Account.number("digits").unwrap());
        assert_eq!(switches.account(), AccountScheme::Digits);
    }
}
