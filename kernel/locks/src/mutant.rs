//! Faults to be switched on in the models, which must find them. Anywhere else there are none.

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A CPU that waits for a lock draws a ticket that nobody heeds.
    PassTheLine,
    /// Who has a ticket does not wait for its number.
    ServeAnyTicket,
    /// A lock is opened before others can see what was written under it.
    OpenUnordered,
    /// A lock that was opened and is open counts as undisturbed.
    ReopenedIfOpen,
    /// A reader looks for a writer before the writer can see it.
    ReadWithoutFence,
    /// A reader may see that the lock is shared before it sees the writer that shares it.
    ShareUnordered,
    /// A reader whose turn it is gives the lock up before it says that it reads.
    MarkTooLate,
    /// A writer does not wait for readers.
    WriteBesideReaders,
    /// The holder of a bit does not count its turn.
    TurnNotCounted,
    /// A CPU arrives at a rendezvous without what it wrote before.
    ArriveUnordered,
    /// A CPU does not wait for the end of a rendezvous.
    AttendWithoutWait,
    /// The count of those that have arrived is reset after they were asked.
    CountAfterRequest,
}

impl Mutant {
    /// All of them.
    pub const ALL: &'static [Mutant] = &[
        Mutant::PassTheLine,
        Mutant::ServeAnyTicket,
        Mutant::OpenUnordered,
        Mutant::ReopenedIfOpen,
        Mutant::ReadWithoutFence,
        Mutant::ShareUnordered,
        Mutant::MarkTooLate,
        Mutant::WriteBesideReaders,
        Mutant::TurnNotCounted,
        Mutant::ArriveUnordered,
        Mutant::AttendWithoutWait,
        Mutant::CountAfterRequest,
    ];
}

#[cfg(loom)]
std::thread_local! {
    // loom runs all threads of a model on one of the host's.
    static ON: core::cell::Cell<Option<Mutant>> = core::cell::Cell::new(of_process());
}

/// The one that is on wherever none is set: `MUTANT=NAME` in the environment, of a whole run of
/// tests.
#[cfg(loom)]
fn of_process() -> Option<Mutant> {
    let name = std::env::var("MUTANT").ok()?;
    let named = |mutant: &Mutant| format!("{mutant:?}") == name;
    Mutant::ALL.iter().copied().find(named)
}

/// Switches a fault on in the models that this thread runs.
#[cfg(loom)]
pub fn set(mutant: Mutant) {
    ON.set(Some(mutant));
}

/// Whether a fault is on.
#[inline(always)]
pub(crate) fn on(mutant: Mutant) -> bool {
    #[cfg(loom)]
    return ON.get() == Some(mutant);
    #[cfg(not(loom))]
    {
        let _ = mutant;
        false
    }
}
