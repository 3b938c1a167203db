//! STUB of proc.
pub fn kernel_fault(_addr: mm::addr::VirtAddr, _access: mm::fault::Access) -> bool {
    false
}
