//! Page faults, and accesses that fault pages in as hardware would.

mod access;
mod anon;
mod claim;
mod copy_ahead;
mod copying;
mod cow;
mod file;
mod file_large;
mod fresh;
mod huge;
mod keys;
mod pin;
mod populate;
mod read_locked;
mod read_locked_huge;
mod request;
mod resolve;
mod stack;
mod userfault;

use crate::addr::Order;
use crate::frame::table::SwapSlot;
pub use crate::vma::Question;
pub(crate) use keys::refused_by_key;
pub use pin::Pin;
pub(crate) use populate::{Stopped, natural_access};
pub(crate) use request::attrs as fresh_attrs;
pub use userfault::Asked;

/// Kind of the faulting access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loaded.
    Read,
    /// Stored.
    Write,
    /// Fetched an instruction.
    Exec,
}

/// Result of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Resolved: the instruction restarts.
    Done,
    /// SIGSEGV, SEGV_MAPERR.
    NotMapped,
    /// SIGSEGV, SEGV_MAPERR: a guard (MADV_GUARD_INSTALL).
    Guard,
    /// SIGSEGV, SEGV_ACCERR.
    Denied,
    /// SIGBUS, BUS_ADRERR: past the end of the object, or no huge page left. A write is tried again
    /// after [`crate::AddressSpace::take_huge_back`].
    Bus,
    /// SIGBUS, BUS_MCEERR_AR: the memory of the page, of this order, has failed, or UFFDIO_POISON
    /// took it away.
    Poisoned(Order),
    /// The VMA's monitor decides ([`crate::AddressSpace::asked`]); to be tried again then.
    Userfault,
    /// Out of memory: for the OOM killer.
    NoMem,
    /// There is no folio of this order, as memory is tight or in pieces: to be tried again once
    /// there may be, by [`crate::AddressSpace::fault_anyhow`].
    Short(Order),
    /// Not possible with the VMAs that a verb has left for a pause: to be tried again after
    /// [`crate::AddressSpace::wait_for`].
    Claimed,
    /// The page is stored: to be tried again after [`crate::AddressSpace::wait_for`].
    Stored(SwapSlot),
}

impl From<crate::manager::OutOfMemory> for Resolution {
    fn from(_: crate::manager::OutOfMemory) -> Resolution {
        Resolution::NoMem
    }
}
