//! Switches: every mechanism can be turned off, on the kernel's command line and at run time, and the tests pass either way.

use crate::sync::{AtomicBool, Ordering};

/// A mechanism that can be turned off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Switch {
    /// Complete blocks of PTEs get the contiguous bit, where the hardware has one. What is folded already stays so until
    /// it is changed.
    Contpte,
}

impl Switch {
    /// Every switch with its name: `contpte=off` on the command line, `/sys/kernel/mm/quire/contpte`.
    pub const ALL: &'static [(Switch, &'static str)] = &[(Switch::Contpte, "contpte")];

    /// The switch of this name.
    pub fn by_name(name: &str) -> Option<Switch> {
        let found = Switch::ALL.iter().find(|(_, known)| *known == name)?;
        Some(found.0)
    }
}

/// What `on` and `off` mean; NULs and blanks around them do not count.
pub fn on_or_off(text: &str) -> Option<bool> {
    match text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace()) {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// The switches of one memory manager.
pub struct Switches([AtomicBool; Switch::ALL.len()]);

impl Default for Switches {
    fn default() -> Self {
        Switches([AtomicBool::new(true)])
    }
}

impl Switches {
    /// Whether the mechanism is on.
    #[inline]
    pub fn is_on(&self, switch: Switch) -> bool {
        self.0[switch as usize].load(Ordering::Relaxed)
    }
    /// Turns it on or off.
    pub fn set(&self, switch: Switch, on: bool) {
        self.0[switch as usize].store(on, Ordering::Relaxed);
    }
    /// [`Switch::Contpte`].
    #[inline]
    pub fn contpte(&self) -> bool {
        self.is_on(Switch::Contpte)
    }
    /// Sets [`Switch::Contpte`].
    pub fn set_contpte(&self, on: bool) {
        self.set(Switch::Contpte, on);
    }
}
