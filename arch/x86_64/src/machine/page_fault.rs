//! Page faults as the CPU reports them.

use mm::fault::Access;

/// Vector of #PF.
pub(crate) const PAGE_FAULT: u64 = 14;

/// The kind of access, from a page fault's error code (SDM Vol 3, 4.7): W bit 1, I/D bit 4, PK bit
/// 5. `None`: its protection key refuses it.
#[inline]
pub(crate) fn access_of(error: u64) -> Option<Access> {
    const FETCH: u64 = 1 << 4;
    const KEY: u64 = 1 << 5;
    // One test for both: most faults are neither.
    match error & (FETCH | KEY) {
        0 if error & 1 << 1 != 0 => Some(Access::Write),
        0 => Some(Access::Read),
        FETCH => Some(Access::Exec),
        _ => None,
    }
}
