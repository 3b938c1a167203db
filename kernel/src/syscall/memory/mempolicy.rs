//! get_mempolicy(2), move_pages(2), migrate_pages(2). There is one memory node, and each policy is
//! the default one: what is to be on that node is there.

use super::in_space;
use super::process_vm::space_of;
use crate::base::errno::{Errno, Result};
use crate::base::machine::Space;
use crate::base::user_ptr::UserPtr;
use crate::process::task::{Pid, Task};
use crate::sched;
use linux_raw_sys::general::CAP_SYS_NICE;
use linux_raw_sys::mempolicy as abi;
use mm::addr::{PAGE_SIZE, VirtAddr};

/// Pages between two pauses.
const STEP: u64 = 512;
/// The most bits that a mask of nodes has: as in Linux, those of a page.
const MASK: u64 = 8 * PAGE_SIZE;

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

/// The memory of a process, as [`space_of`]; 0: the caller's.
fn space(task: &Task, pid: Pid) -> Result<Space> {
    match pid {
        0 => task.space.get().ok_or(Errno::ESRCH),
        pid => space_of(task, pid),
    }
}

/// move_pages(2): on which node each page is, or why it is on none: EFAULT, it is not mapped, or is
/// the page of zeros; ENOENT, it is absent. ENODEV: a node other than 0 is wanted for one; EPERM:
/// as [`space_of`], or MPOL_MF_MOVE_ALL without CAP_SYS_NICE.
pub fn move_pages(
    task: &Task,
    pid: Pid,
    count: u64,
    pages: UserPtr<u64>,
    nodes: UserPtr<i32>,
    status: UserPtr<i32>,
    flags: u32,
) -> Result<u64> {
    if flags & !(abi::MPOL_MF_MOVE | abi::MPOL_MF_MOVE_ALL) != 0 {
        return Err(Errno::EINVAL);
    }
    let may = || task.process().credentials(|it| it.may(CAP_SYS_NICE));
    if flags & abi::MPOL_MF_MOVE_ALL != 0 && !may() {
        return Err(Errno::EPERM);
    }
    let space = space(task, pid)?;
    for n in 0..count {
        let page = pages.element(n).read()?;
        if let Some(nodes) = nodes.given()
            && nodes.element(n).read()? != 0
        {
            return Err(Errno::ENODEV);
        }
        status.element(n).write(&node_of(&space, VirtAddr(page)))?;
        if n % STEP == STEP - 1 && sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(0)
}

/// The node of a page, or a negative error.
fn node_of(space: &Space, at: VirtAddr) -> i32 {
    match space.page_info(at.align_down(PAGE_SIZE)) {
        info if !info.mapped || info.zero_page => -Errno::EFAULT.0,
        info if !info.present => -Errno::ENOENT.0,
        _ => 0,
    }
}

/// migrate_pages(2): the number of pages that could not be moved, which is 0. EINVAL: memory is to
/// go to nodes of which none exists.
pub fn migrate_pages(
    task: &Task,
    pid: Pid,
    most: u64,
    from: UserPtr<u64>,
    to: UserPtr<u64>,
) -> Result<u64> {
    let (_, to) = (has_node(from, most)?, has_node(to, most)?);
    space(task, pid)?;
    match to {
        true => Ok(0),
        false => Err(Errno::EINVAL),
    }
}

/// Whether a mask with so many bits, the last of which counts for nothing, has node 0. EINVAL: it
/// has others, or is longer than a page.
fn has_node(mask: UserPtr<u64>, most: u64) -> Result<bool> {
    let Some(mask) = mask.given().filter(|_| most > 1) else {
        return Ok(false);
    };
    let bits = most - 1;
    if bits > MASK {
        return Err(Errno::EINVAL);
    }
    let mut has = false;
    for n in 0..bits.div_ceil(64) {
        let unused = (64 * (n + 1)).saturating_sub(bits);
        let word = mask.element(n).read()? & (u64::MAX >> unused);
        if word & !u64::from(n == 0) != 0 {
            return Err(Errno::EINVAL);
        }
        has |= word != 0;
    }
    Ok(has)
}
