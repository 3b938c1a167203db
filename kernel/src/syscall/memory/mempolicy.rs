//! get_mempolicy(2). There is one memory node, and each policy is the default one.

use super::in_space;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::Task;
use linux_raw_sys::mempolicy as abi;
use mm::addr::VirtAddr;

/// get_mempolicy(2). EFAULT: no memory at the address.
pub fn get_mempolicy(
    task: &Task,
    mode: UserPtr<i32>,
    nodes: UserPtr<u64>,
    most: u64,
    at: VirtAddr,
    flags: u32,
) -> Result<u64> {
    let has = |flag| flags & flag != 0;
    let known = abi::MPOL_F_NODE | abi::MPOL_F_ADDR | abi::MPOL_F_MEMS_ALLOWED;
    let node_of_policy = has(abi::MPOL_F_NODE) && !has(abi::MPOL_F_ADDR);
    let allowed = has(abi::MPOL_F_MEMS_ALLOWED);
    if has(!known)
        || allowed && has(abi::MPOL_F_NODE | abi::MPOL_F_ADDR)
        // Only that of an interleaved policy.
        || !allowed && (node_of_policy || !has(abi::MPOL_F_ADDR) && at.0 != 0)
        || nodes.given().is_some() && most < 1
    {
        return Err(Errno::EINVAL);
    }
    if has(abi::MPOL_F_ADDR) {
        let mapped = in_space(task, |space| space.vma_at(at)).is_some();
        if !mapped {
            return Err(Errno::EFAULT);
        }
    }
    // MPOL_DEFAULT; the number of the node is 0, too.
    mode.write_given(&0)?;
    let set = u64::from(allowed);
    nodes.write_given(&set)?;
    Ok(0)
}
