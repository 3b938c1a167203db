//! What starts from hardware: page faults; and what touches user memory as hardware would.

mod access;
mod anon;
mod cow;
mod file;
mod fresh;
mod pin;
mod populate;
mod resolve;
mod stack;

pub use pin::Pin;
pub(crate) use populate::Stopped;

/// What the instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loaded.
    Read,
    /// Stored.
    Write,
    /// Fetched an instruction.
    Exec,
}

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Go on: repeat the instruction.
    Done,
    /// SIGSEGV, SEGV_MAPERR.
    NotMapped,
    /// SIGSEGV, SEGV_ACCERR.
    Denied,
    /// SIGBUS, BUS_ADRERR: past the end of the object.
    Bus,
    /// No memory: the OOM killer's business.
    NoMem,
}

impl From<crate::manager::OutOfMemory> for Resolution {
    fn from(_: crate::manager::OutOfMemory) -> Resolution {
        Resolution::NoMem
    }
}
