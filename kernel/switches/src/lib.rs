//! The switches of the memory manager: every mechanism can be turned off or down, on the kernel's
//! command line and at run time, and the tests pass either way.
//!
//! One row of [`table`] makes a switch: its words, its default, its file in `/sys/kernel/mm/quire`,
//! its row in docs/switches.md, its place in the settings that are tested in pairs, and `./run.sh
//! bench --set`. `mm::switch` gives them to the memory manager. The table is a crate of its own, so
//! that the host's tools have it without the memory manager.
#![no_std]

mod table;

pub use table::Switch;

/// When a switch can be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At boot, on the command line, only: memory in use depends on it.
    Boot,
    /// At any time.
    RunTime,
}

/// The place of a switch in the pairwise test.
#[derive(Clone, Copy, Debug)]
pub enum Pairs {
    /// Each of these settings, words of the kernel's command line, meets each setting of every
    /// other switch.
    Settings(&'static [&'static str]),
    /// The settings of another switch set this one, too.
    With(Switch),
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    switch: Switch,
    name: &'static str,
    doc: &'static [&'static str],
    words: &'static [&'static str],
    default: &'static str,
    when: When,
    pairs: Pairs,
}

impl Switch {
    /// Every switch, in the order of the table.
    pub fn all() -> impl Iterator<Item = Switch> {
        table::ROWS.iter().map(|row| row.switch)
    }
    /// The switch of this name.
    pub fn by_name(name: &str) -> Option<Switch> {
        Switch::all().find(|switch| switch.name() == name)
    }
    const fn row(self) -> &'static Row {
        &table::ROWS[self as usize]
    }
    /// Its name: `contpte=off` on the command line, `/sys/kernel/mm/quire/contpte`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }
    /// The lines of its documentation.
    pub const fn doc(self) -> &'static [&'static str] {
        self.row().doc
    }
    /// Whether it can be chosen at boot only, because memory in use depends on it.
    pub const fn boot(self) -> bool {
        matches!(self.row().when, When::Boot)
    }
    /// Its words by number, from the least mechanism to the most.
    pub const fn words(self) -> &'static [&'static str] {
        self.row().words
    }
    /// The number of the default word.
    pub const fn initial(self) -> u32 {
        self.place(self.row().default)
    }
    /// The number of a word that it has; panics when it has not.
    pub const fn place(self, word: &str) -> u32 {
        let mut number = 0;
        while !same(self.words()[number], word) {
            number += 1;
        }
        number as u32
    }
    /// Its place in the pairwise test.
    pub const fn pairs(self) -> Pairs {
        self.row().pairs
    }
    /// The number of a word; NULs and blanks around it do not count.
    pub fn number(self, text: &str) -> Option<u32> {
        let word = text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
        let place = self.words().iter().position(|known| *known == word);
        Some(place? as u32)
    }
}

/// Number of switches.
pub const COUNT: usize = table::ROWS.len();

/// Whether two words are equal, at compile time.
const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::format;
    use std::vec::Vec;

    #[test]
    fn every_switch_stands_at_its_place() {
        for (place, switch) in Switch::all().enumerate() {
            assert_eq!(switch as usize, place);
            assert_eq!(Switch::by_name(switch.name()), Some(switch));
            assert!((switch.initial() as usize) < switch.words().len());
            assert!(!switch.doc().is_empty());
        }
        assert_eq!(Switch::all().count(), COUNT);
    }

    #[test]
    fn words_are_stripped_and_others_refused() {
        assert_eq!(Switch::Contpte.number("on\n\0"), Some(1));
        assert_eq!(Switch::Move.number(" pte"), Some(0));
        assert_eq!(Switch::Move.number("p4d"), None);
        assert_eq!(Switch::by_name("move"), Some(Switch::Move));
        assert_eq!(Switch::Account.number("two-slot"), Some(2));
    }

    /// Every word of each switch can be chosen, by name or as the default.
    #[test]
    fn every_word_is_in_the_pairwise_test() {
        let settings = |switch: Switch| match switch.pairs() {
            Pairs::Settings(settings) => settings,
            Pairs::With(_) => &[],
        };
        for switch in Switch::all() {
            let with = match switch.pairs() {
                Pairs::Settings(_) => switch,
                Pairs::With(other) => other,
            };
            let words: Vec<&str> = settings(with).iter().flat_map(|s| s.split(' ')).collect();
            for (number, word) in switch.words().iter().enumerate() {
                let setting = format!("{}={word}", switch.name());
                let default = number == switch.initial() as usize;
                assert!(default || words.contains(&&*setting), "{setting}");
            }
        }
    }

    /// A mistake in a setting would try the default.
    #[test]
    fn settings_name_switches_and_their_words() {
        for switch in Switch::all() {
            let Pairs::Settings(settings) = switch.pairs() else {
                continue;
            };
            assert!(settings.len() > 1, "{switch:?}");
            for word in settings.iter().flat_map(|setting| setting.split(' ')) {
                let (name, value) = word.split_once('=').expect("NAME=WORD");
                let of = Switch::by_name(name).expect(word);
                assert!(of.number(value).is_some(), "{word}");
                let with = matches!(of.pairs(), Pairs::With(other) if other == switch);
                assert!(
                    of == switch || with,
                    "{word} is not a setting of {switch:?}"
                );
            }
        }
    }

    #[test]
    fn words_are_compared_whole() {
        assert!(same("pmd", "pmd") && same("", ""));
        assert!(!same("pmd", "pm") && !same("pm", "pmd") && !same("pmd", "pud"));
    }
}
