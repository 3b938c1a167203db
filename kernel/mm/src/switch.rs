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
}

/// A switch's name, its words from the least mechanism to the most, and the place of the default.
struct Words {
    switch: Switch,
    name: &'static str,
    words: &'static [&'static str],
    default: u32,
}

const SWITCHES: [Words; 2] = [
    Words {
        switch: Switch::Contpte,
        name: "contpte",
        words: &["off", "on"],
        default: 1,
    },
    Words {
        switch: Switch::Move,
        name: "move",
        words: &["pte", "pmd", "pud"],
        default: 2,
    },
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
    /// Sets it to a word, by number; a number without a word is our own mistake and panics.
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
            _ => Level::Pud,
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
    }
}
