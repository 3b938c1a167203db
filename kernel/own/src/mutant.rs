//! Mutants: one broken rule each, that the models must catch. A test of the tests, behind the
//! feature `mutants`; without it `on` is the constant `false` and nothing is left of them.

/// A rule that is broken while the mutant is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// The ownership word of a large folio is read in two halves.
    TornRead,
    /// A reader of a seqcount does not look whether it is still the same.
    OneLook,
    /// The id that address spaces share is taken for one space's.
    CommonIsOne,
    /// A mapping by another than the first owner is not counted among the others'.
    OthersUncounted,
    /// Counts of single pages come without the note that a mapping came.
    NoNote,
}

impl Mutant {
    /// All of them.
    pub const ALL: &'static [Mutant] = &[
        Mutant::TornRead,
        Mutant::OneLook,
        Mutant::CommonIsOne,
        Mutant::OthersUncounted,
        Mutant::NoNote,
    ];
}

#[cfg(feature = "mutants")]
mod enabled {
    use super::Mutant;
    use core::cell::Cell;

    std::thread_local! {
        /// The one that is on in this thread: tests run side by side.
        static ON: Cell<Option<Mutant>> = Cell::new(of_process());
    }

    /// The one that is on wherever none is set: `MUTANT=NAME` in the environment, of a whole run
    /// of tests.
    fn of_process() -> Option<Mutant> {
        let name = std::env::var("MUTANT").ok()?;
        let named = |mutant: &Mutant| std::format!("{mutant:?}") == name;
        Mutant::ALL.iter().copied().find(named)
    }

    /// Whether the mutant is on in this thread.
    pub(crate) fn on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Turns one on in this thread, or leaves it to the process.
    pub fn set(mutant: Option<Mutant>) {
        ON.set(mutant.or_else(of_process));
    }
}

#[cfg(feature = "mutants")]
pub(crate) use enabled::on;
#[cfg(feature = "mutants")]
pub use enabled::set;

/// No mutant is ever on.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn on(_: Mutant) -> bool {
    false
}
