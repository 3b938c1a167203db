//! capget(2), capset(2): every process has the rights of root, whatever it gives up here.

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::{self, Capabilities, Pid, Task};

/// `struct __user_cap_header_struct`: version, process.
pub type Header = [u32; 2];
/// `struct __user_cap_data_struct`: effective, permitted, inheritable; 32 of each.
pub type Data = [u32; 3];

/// The versions, _LINUX_CAPABILITY_VERSION_*: the first has one [`Data`], the others have two.
const VERSIONS: [(u32, u64); 3] = [(0x1998_0330, 1), (0x2007_1026, 2), (0x2008_0522, 2)];

/// How many [`Data`] there are. EINVAL for an unknown version: then the header says the newest.
fn count(header: UserPtr<Header>) -> Result<u64> {
    let [version, _] = header.read()?;
    match VERSIONS.iter().find(|(known, _)| *known == version) {
        Some((_, count)) => Ok(*count),
        None => header
            .field(0)
            .write(&VERSIONS[2].0)
            .and(Err(Errno::EINVAL)),
    }
}

/// capget(2). EINVAL, ESRCH, EFAULT; a null pointer only asks for the version.
pub fn capget(task: &Task, header: UserPtr<Header>, data: UserPtr<Data>) -> Result<u64> {
    let count = match count(header) {
        Err(Errno::EINVAL) if data.given().is_none() => return Ok(0),
        count => count?,
    };
    let [_, pid] = header.read()?;
    let sets = match pid as Pid {
        0 => task.process().credentials(|it| it.capabilities),
        pid @ 1.. => {
            let of = task::find_task(pid).ok_or(Errno::ESRCH)?;
            of.process().credentials(|it| it.capabilities)
        }
        _ => return Err(Errno::EINVAL),
    };
    if data.given().is_none() {
        return Ok(0);
    }
    for n in 0..count {
        let part = |set: u64| (set >> (32 * n)) as u32;
        let words = [sets.effective, sets.permitted, sets.inheritable].map(part);
        data.element(n).write(&words)?;
    }
    Ok(0)
}

/// capset(2). EINVAL, EFAULT; EPERM: another process, or more than it has.
pub fn capset(task: &Task, header: UserPtr<Header>, data: UserPtr<Data>) -> Result<u64> {
    let count = count(header)?;
    let [_, pid] = header.read()?;
    if pid != 0 && pid as Pid != task.tid() {
        return Err(Errno::EPERM);
    }
    let mut sets = [0u64; 3];
    for n in 0..count {
        let words = data.element(n).read()?;
        for (set, word) in sets.iter_mut().zip(words) {
            *set |= u64::from(word) << (32 * n);
        }
    }
    let [effective, permitted, inheritable] = sets.map(|set| set & Capabilities::ALL);
    task.process().change_credentials(|credentials| {
        let old = &mut credentials.capabilities;
        if permitted & !old.permitted != 0 || effective & !permitted != 0 {
            return Err(Errno::EPERM);
        }
        *old = Capabilities {
            effective,
            permitted,
            inheritable,
        };
        Ok(0)
    })
}
