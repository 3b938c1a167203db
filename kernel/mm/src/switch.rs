//! Switches: every mechanism can be turned off or down, on the kernel's command line and at run
//! time, and the tests pass either way.

use crate::arch::Level;
use crate::sync::{AtomicU32, Ordering};
use ::own::{Batching, MmId};

/// A mechanism with a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Switch {
    /// Complete blocks of PTEs get the contiguous bit, where the hardware has one. What is folded
    /// already stays so until it is changed.
    Contpte,
    /// The largest entries that mremap moves whole.
    Move,
    /// How the account of a folio's owners is kept.
    Account,
    /// Counts of the mappings of single pages beside the account: by read-modify-writes, or where
    /// there is a seqcount under it.
    PageCounts,
    /// `account=digits`: sub-ids looked up (at least 4 values), or worked out once for each address
    /// space (from 1 value on).
    Subids,
    /// `account=digits`: whether a writer that is alone goes without read-modify-writes.
    Writer,
    /// `account=digits`: how such a writer finds out that it is alone.
    Seq,
    /// How fork goes over the parent's entries: one by one, in runs of one folio, or it shares
    /// whole tables.
    Fork,
    /// How unmapping goes over entries: one by one, or in runs of one folio.
    Zap,
    /// How many references to a folio fork and unmapping count at once: one for each page, or those
    /// of a run of entries.
    Refs,
    /// How many mappings they enter in the account at once.
    Rmap,
    /// How splitting a PMD leaf tells the account: mappings of 512 pages, one by one, for the one
    /// that goes; or, since the leaf counts as 512 already, all at once.
    Split,
    /// What is copied on a write to a page that others have: that page, or what surrounds it of its
    /// folio, too.
    Cow,
    /// What becomes writable when a write finds that all of a folio is ours: that page, or all of
    /// the folio.
    Reuse,
    /// How many address spaces have ids of their own in the account; those beyond share one.
    Ids,
}

/// [`Switch::Account`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountScheme {
    /// References, and mapcounts of single pages.
    PerPage,
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

/// The account as it is kept: the scheme and what is counted beside it, in one word, so that one
/// load tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept(u32);

impl Kept {
    /// The default, without counts of single pages.
    pub const PLAIN: Kept = Kept(Switch::Account.default());

    const COUNTED: u32 = 1 << 8;
    const IN_SECTION: u32 = 1 << 9;

    /// The scheme.
    #[inline]
    pub fn scheme(self) -> AccountScheme {
        match self.0 as u8 {
            0 => AccountScheme::PerPage,
            1 => AccountScheme::Total,
            2 => AccountScheme::TwoSlot,
            3 => AccountScheme::FirstOwner,
            4 => AccountScheme::Digits,
            _ => AccountScheme::Unified,
        }
    }
    /// Mappings of single pages are counted, too.
    #[inline]
    pub fn counts_pages(self) -> bool {
        self.0 & Kept::COUNTED != 0
    }
    /// They change in the sections of a seqcount, if the scheme has one.
    #[inline]
    pub fn in_section(self) -> bool {
        self.0 & Kept::IN_SECTION != 0
    }

    /// From what the switches say.
    fn of(get: impl Fn(Switch) -> u32) -> Kept {
        let (scheme, counts) = (get(Switch::Account), get(Switch::PageCounts));
        let bits = [
            (scheme == 0 || counts != 0, Kept::COUNTED),
            (counts == 2, Kept::IN_SECTION),
        ];
        let on = bits.into_iter().filter(|(on, _)| *on);
        Kept(on.fold(scheme, |word, (_, bit)| word | bit))
    }
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

/// Whether a kernel's command line asks for counts of single pages, which need room of their own
/// ([`crate::manager::PageCount`]).
pub fn page_counts(line: &str) -> bool {
    let switches = Switches::default();
    let words = line.split_whitespace().take_while(|word| *word != "--");
    for (name, value) in words.filter_map(|word| word.split_once('=')) {
        let switch = Switch::by_name(name);
        if let Some((switch, number)) = switch.and_then(|s| Some((s, s.number(value)?))) {
            switches.set(switch, number);
        }
    }
    switches.kept().counts_pages()
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

const SWITCHES: [Words; 15] = [
    word(Switch::Contpte, "contpte", &["off", "on"], 1),
    word(Switch::Move, "move", &["pte", "pmd", "pud", "pgd"], 3),
    at_boot(word(
        Switch::Account,
        "account",
        &[
            "per-page", "total", "two-slot", "owner", "digits", "unified",
        ],
        5,
    )),
    at_boot(word(
        Switch::PageCounts,
        "mapcounts",
        &["none", "atomic", "seqcount"],
        0,
    )),
    at_boot(word(Switch::Subids, "subids", &["lookup", "stored"], 1)),
    at_boot(word(Switch::Writer, "writer", &["shared", "exclusive"], 1)),
    at_boot(word(Switch::Seq, "seq", &["cmpxchg", "add"], 1)),
    word(Switch::Fork, "fork", &["per-pte", "batch", "share"], 1),
    word(Switch::Zap, "zap", &["per-pte", "batch"], 1),
    word(Switch::Refs, "refs", &["per-pte", "batch"], 1),
    word(Switch::Rmap, "rmap", &["per-pte", "batch"], 1),
    word(Switch::Split, "split", &["per-pte", "batch"], 1),
    word(Switch::Cow, "cow", &["page", "around"], 1),
    word(Switch::Reuse, "reuse", &["page", "around"], 1),
    at_boot(word(Switch::Ids, "ids", &["1", "32766"], 1)),
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
    /// The number of the word that it begins with.
    const fn default(self) -> u32 {
        SWITCHES[self as usize].default
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
pub struct Switches {
    numbers: [AtomicU32; SWITCHES.len()],
    /// [`Kept`], as the numbers have it.
    kept: AtomicU32,
    /// Whether anything goes one by one in fork, as they have it.
    slowly: AtomicU32,
    /// What goes to the account one by one: 1 references, 2 mappings.
    singly: AtomicU32,
}

impl Default for Switches {
    fn default() -> Self {
        let numbers = core::array::from_fn(|i| AtomicU32::new(SWITCHES[i].default));
        let kept = AtomicU32::new(Kept::of(Switch::default).0);
        Switches {
            numbers,
            kept,
            slowly: AtomicU32::new(0),
            singly: AtomicU32::new(0),
        }
    }
}

impl Switches {
    /// What it is set to.
    #[inline]
    pub fn get(&self, switch: Switch) -> u32 {
        self.numbers[switch as usize].load(Ordering::Relaxed)
    }
    /// What it is set to, as a word.
    pub fn word(&self, switch: Switch) -> &'static str {
        switch.words()[self.get(switch) as usize]
    }
    /// Sets it to a word, by number; a number without a word is our own mistake and panics. One
    /// that is [`Switch::boot`] must not change once there are address spaces.
    pub fn set(&self, switch: Switch, number: u32) {
        assert!((number as usize) < switch.words().len());
        self.numbers[switch as usize].store(number, Ordering::Relaxed);
        let kept = Kept::of(|switch| self.get(switch));
        self.kept.store(kept.0, Ordering::Relaxed);
        let one_by_one = |switch: Switch| u32::from(self.get(switch) == 0);
        let singly = one_by_one(Switch::Refs) | one_by_one(Switch::Rmap) << 1;
        self.singly.store(singly, Ordering::Relaxed);
        let slowly = self.fork() == ForkBy::Pte || singly != 0;
        self.slowly.store(slowly.into(), Ordering::Relaxed);
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
    /// What goes to the account at once of a run of entries; `None`: everything.
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
    pub fn kept(&self) -> Kept {
        Kept(self.kept.load(Ordering::Relaxed))
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
    /// Whether fork does anything one by one: entries, references or mappings.
    #[inline]
    pub fn fork_slowly(&self) -> bool {
        self.slowly.load(Ordering::Relaxed) != 0
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
    /// [`Switch::Ids`].
    #[inline]
    pub fn unique_ids(&self) -> u16 {
        match self.get(Switch::Ids) {
            0 => 1,
            _ => MmId::LAST,
        }
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
        assert_eq!(Switch::Account.number("two-slot"), Some(2));
        let switches = Switches::default();
        for (number, word) in Switch::Ids.words().iter().enumerate() {
            switches.set(Switch::Ids, number as u32);
            assert_eq!(word.parse(), Ok(switches.unique_ids()));
        }
    }

    #[test]
    fn who_counts_single_pages() {
        assert!(!page_counts("account=digits fork=batch"));
        assert!(!page_counts("-- account=per-page"));
        assert!(!page_counts("account=per-page account=total"));
        assert!(page_counts("quiet account=per-page -- sh"));
        assert!(page_counts("mapcounts=seqcount account=digits"));
    }

    #[test]
    fn by_default_the_most_is_on_that_never_costs() {
        let switches = Switches::default();
        assert_eq!(switches.kept(), Kept::PLAIN);
        assert_eq!(switches.kept().scheme(), AccountScheme::Unified);
        assert_eq!(switches.fork(), ForkBy::Batch);
        assert!(Switch::Account.boot() && !Switch::Fork.boot());
        switches.set(Switch::Account, Switch::Account.number("digits").unwrap());
        assert_eq!(switches.kept().scheme(), AccountScheme::Digits);
        assert!(!switches.kept().counts_pages() && switches.by_page().is_none());
    }
}
