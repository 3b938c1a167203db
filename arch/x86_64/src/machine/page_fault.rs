//! Page faults as the CPU reports them.

use mm::fault::Access;

/// Vector of #PF.
pub(crate) const PAGE_FAULT: u64 = 14;

/// The kind of access, from a page fault's error code (SDM Vol 3, 4.7): W bit 1, I/D bit 4.
#[inline]
pub(crate) fn access_of(error: u64) -> Access {
    if error & 1 << 4 != 0 {
        Access::Exec
    } else if error & 1 << 1 != 0 {
        Access::Write
    } else {
        Access::Read
    }
}
