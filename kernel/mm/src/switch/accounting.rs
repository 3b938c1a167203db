//! The switches that choose how the account is kept, as one word.

use super::{Switch, Switches};

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

/// The account as it is kept: the scheme and what is counted beside it, in one word, so that it is
/// read by one load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accounting(pub(super) u32);

impl Accounting {
    /// The default, without counts of single pages.
    pub const PLAIN: Accounting = Accounting(Switch::Account.initial());

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
    /// Whether mappings of single pages are counted, too.
    #[inline]
    pub fn counts_pages(self) -> bool {
        self.0 & Accounting::COUNTED != 0
    }
    /// Whether the counts of single pages change within the sections of the scheme's seqcount.
    #[inline]
    pub fn in_section(self) -> bool {
        self.0 & Accounting::IN_SECTION != 0
    }

    /// From the numbers of the switches.
    pub(super) fn of(get: impl Fn(Switch) -> u32) -> Accounting {
        let (scheme, counts) = (get(Switch::Account), get(Switch::PageCounts));
        let bits = [
            (scheme == 0 || counts != 0, Accounting::COUNTED),
            (counts == 2, Accounting::IN_SECTION),
        ];
        let on = bits.into_iter().filter(|(on, _)| *on);
        Accounting(on.fold(scheme, |word, (_, bit)| word | bit))
    }
}

/// Whether the settings `NAME=WORD` of a command line turn on counts of single pages, which need
/// room of their own ([`crate::manager::PageCount`]).
pub fn page_counts<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    let switches = Switches::default();
    for (name, value) in settings {
        let switch = Switch::by_name(name);
        if let Some((switch, number)) = switch.and_then(|s| Some((s, s.number(value)?))) {
            switches.set(switch, number);
        }
    }
    switches.accounting().counts_pages()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_ask_for_counts_of_single_pages() {
        assert!(!page_counts([("account", "digits"), ("fork", "batch")]));
        assert!(!page_counts([
            ("account", "per-page"),
            ("account", "total")
        ]));
        assert!(page_counts([("console", "ttyS0"), ("account", "per-page")]));
        assert!(page_counts([
            ("mapcounts", "seqcount"),
            ("account", "digits")
        ]));
    }
}
