//! System-wide calls (uname(2), sysinfo(2), reboot(2)), getrandom(2), and settings of a process
//! (prctl(2), prlimit(2)).

use crate::arch::cpu;
use crate::base::cpus;
use crate::base::errno::{Errno, Result};
use crate::base::hostname;
use crate::base::machine::mm;
use crate::base::random;
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::process::task::{self, Pid, Process, Task};
use crate::sched::timers;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::{general as abi, prctl as pr};
use mm::Mdwe;
use mm::thp::{Disable, Permit};

/// uname -r: the Linux whose interface this is.
pub const RELEASE: &str = "6.12.0-quire";
/// uname -v
pub const VERSION: &str = concat!("#1 Quire ", env!("CARGO_PKG_VERSION"));

/// `struct utsname`: six strings of 65 bytes.
pub type Utsname = [u8; 6 * 65];

/// uname(2).
pub fn uname(into: UserPtr<Utsname>) -> Result<u64> {
    let host = hostname::get();
    let fields: [&[u8]; 6] = [
        b"Linux",
        &host,
        RELEASE.as_bytes(),
        VERSION.as_bytes(),
        cpu::NAME.as_bytes(),
        b"(none)",
    ];
    let mut bytes: Utsname = [0; 6 * 65];
    for (field, slot) in fields.iter().zip(bytes.chunks_exact_mut(65)) {
        slot[..field.len()].copy_from_slice(field);
    }
    into.write(&bytes)?;
    Ok(0)
}

/// sethostname(2).
pub fn sethostname(from: UserBytes) -> Result<u64> {
    let mut name = [0; 64];
    let name = name.get_mut(..from.len as usize).ok_or(Errno::EINVAL)?;
    from.read(name)?;
    hostname::set(name).map(|()| 0)
}

/// `struct sysinfo`: uptime, three loads, total, free, shared, buffers, total and free swap (8
/// bytes each), processes (2 bytes, padded), total and free high memory, the unit.
pub type SystemInfo = [u64; 14];

/// sysinfo(2).
pub fn sysinfo(into: UserPtr<SystemInfo>) -> Result<u64> {
    let frames = mm().counts();
    let unit = 4096u64;
    let words = [
        timers::now() / 1_000_000_000,
        0,
        0,
        0,
        frames.total * unit,
        frames.free * unit,
        frames.object * unit,
        0,
        mm().slots().total() * unit,
        mm().slots().free() * unit,
        task::counts().total as u64 & 0xffff,
        0,
        0,
        1,
    ];
    into.write(&words)?;
    Ok(0)
}

bitflags::bitflags! {
    /// GRND_*. The generator is always ready: none has an effect.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RandomFlags: u32 {
        /// GRND_NONBLOCK.
        const NONBLOCK = abi::GRND_NONBLOCK;
        /// GRND_RANDOM.
        const RANDOM = abi::GRND_RANDOM;
        /// GRND_INSECURE.
        const INSECURE = abi::GRND_INSECURE;
    }
}

super::door::flag_arguments!(RandomFlags: invalid);

/// getrandom(2).
pub fn getrandom(into: UserBytes, flags: RandomFlags) -> Result<u64> {
    if flags.contains(RandomFlags::RANDOM | RandomFlags::INSECURE) {
        return Err(Errno::EINVAL);
    }
    let len = into.len.min(i32::MAX as u64 & !4095);
    let mut done = 0;
    let mut bytes = [0; 256];
    while done < len {
        let chunk = &mut bytes[..(len - done).min(256) as usize];
        random::fill(chunk);
        match into.write(done, chunk) {
            Ok(()) => done += chunk.len() as u64,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        if done < len && (crate::sched::breathe() || crate::process::signal::pending()) {
            break;
        }
    }
    Ok(done)
}

/// prctl(2): what concerns names, death and dumps; EINVAL for the rest, as for an option that a
/// kernel does not know.
pub fn prctl(task: &Task, option: u32, a: u64, b: u64, c: u64, d: u64) -> Result<u64> {
    let process = task.process();
    match option {
        pr::PR_SET_NAME => {
            let mut name = [0; 16];
            for (i, byte) in name[..15].iter_mut().enumerate() {
                *byte = UserPtr::from(a).element(i as u64).read()?;
                if *byte == 0 {
                    break;
                }
            }
            task.set_comm(&name);
        }
        pr::PR_GET_NAME => UserPtr::from(a).write(&task.comm_bytes())?,
        pr::PR_SET_PDEATHSIG if a <= 64 => process.parent_death_signal.store(a as i32, Relaxed),
        pr::PR_GET_PDEATHSIG => {
            UserPtr::from(a).write(&process.parent_death_signal.load(Relaxed))?
        }
        pr::PR_SET_DUMPABLE if a <= 1 => process.dumpable.store(a as u32, Relaxed),
        pr::PR_GET_DUMPABLE => return Ok(u64::from(process.dumpable.load(Relaxed))),
        pr::PR_SET_NO_NEW_PRIVS if a == 1 && b | c | d == 0 => {
            process.no_new_privs.store(true, Relaxed)
        }
        pr::PR_GET_NO_NEW_PRIVS if a | b | c | d == 0 => {
            return Ok(u64::from(process.no_new_privs.load(Relaxed)));
        }
        pr::PR_SET_CHILD_SUBREAPER => process.subreaper.store(a != 0, Relaxed),
        pr::PR_GET_CHILD_SUBREAPER => {
            UserPtr::from(a).write(&i32::from(process.subreaper.load(Relaxed)))?
        }
        // All is root's, and stays so.
        pr::PR_CAPBSET_READ if a <= u64::from(abi::CAP_LAST_CAP) => return Ok(1),
        pr::PR_GET_KEEPCAPS | pr::PR_GET_SECCOMP | pr::PR_GET_TIMING => return Ok(0),
        pr::PR_SET_TIMERSLACK => {}
        pr::PR_GET_TIMERSLACK => return Ok(50_000),
        pr::PR_SET_THP_DISABLE if c | d == 0 => {
            let disable = thp_disable(a != 0, b)?;
            let change = |permit: Permit| Permit::new(disable, permit.orders());
            process.space.with(|space| space.change_thp_permit(change));
        }
        pr::PR_GET_THP_DISABLE if a | b | c | d == 0 => {
            let disable = process.space.with(|space| space.thp_permit().disable());
            return Ok(disable.map_or(0, |disable| disable as u64));
        }
        pr::PR_SET_MDWE if b | c | d == 0 => {
            let mdwe = u32::try_from(a).ok().and_then(Mdwe::from_bits);
            let mdwe = mdwe.ok_or(Errno::EINVAL)?;
            let set = process.space.with(|space| space.set_mdwe(mdwe));
            set.unwrap_or(Ok(()))?;
        }
        pr::PR_GET_MDWE if a | b | c | d == 0 => {
            let mdwe = process.space.with(|space| space.mdwe().bits());
            return Ok(mdwe.unwrap_or(0).into());
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// PR_SET_THP_DISABLE's flag: areas with MADV_HUGEPAGE are exempt. Newer than the headers in use.
const PR_THP_DISABLE_EXCEPT_ADVISED: u64 = 1 << 1;

/// What PR_SET_THP_DISABLE's arguments ask for.
fn thp_disable(disable: bool, flags: u64) -> Result<Disable> {
    match (disable, flags) {
        (false, 0) => Ok(Disable::No),
        (true, 0) => Ok(Disable::Yes),
        (true, PR_THP_DISABLE_EXCEPT_ADVISED) => Ok(Disable::ExceptAdvised),
        _ => Err(Errno::EINVAL),
    }
}

/// personality(2): only ADDR_NO_RANDOMIZE has an effect.
pub fn personality(task: &Task, persona: u32) -> Result<u64> {
    const ASK: u32 = u32::MAX;
    let personality = &task.process().personality;
    let before = personality.load(Relaxed);
    if persona != ASK {
        personality.store(persona, Relaxed);
    }
    Ok(u64::from(before))
}

/// reboot(2): off and halt end the machine with status 0.
pub fn reboot(magic1: u32, magic2: u32, command: u32) -> Result<u64> {
    let second = [
        abi::LINUX_REBOOT_MAGIC2,
        abi::LINUX_REBOOT_MAGIC2A,
        abi::LINUX_REBOOT_MAGIC2B,
        abi::LINUX_REBOOT_MAGIC2C,
    ];
    if magic1 != abi::LINUX_REBOOT_MAGIC1 || !second.contains(&magic2) {
        return Err(Errno::EINVAL);
    }
    match command {
        abi::LINUX_REBOOT_CMD_POWER_OFF | abi::LINUX_REBOOT_CMD_HALT => {
            log::info!("reboot: power off");
            cpus::stop_others();
            cpu::exit(0)
        }
        abi::LINUX_REBOOT_CMD_RESTART | abi::LINUX_REBOOT_CMD_RESTART2 => {
            log::info!("reboot: restart");
            cpus::stop_others();
            cpu::reboot()
        }
        abi::LINUX_REBOOT_CMD_CAD_ON | abi::LINUX_REBOOT_CMD_CAD_OFF => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// `struct rlimit`: soft and hard limit.
pub type RLimit = [u64; 2];

/// getrlimit(2).
pub fn getrlimit(task: &Task, resource: u32, into: UserPtr<RLimit>) -> Result<u64> {
    prlimit(task, 0, resource, 0.into(), into)
}

/// setrlimit(2).
pub fn setrlimit(task: &Task, resource: u32, from: UserPtr<RLimit>) -> Result<u64> {
    let [soft, hard] = from.read()?;
    task.process()
        .change_limits(|limits| limits.set(resource as usize, soft, hard))?;
    Ok(0)
}

/// prlimit(2).
pub fn prlimit(
    task: &Task,
    pid: Pid,
    resource: u32,
    new: UserPtr<RLimit>,
    old: UserPtr<RLimit>,
) -> Result<u64> {
    let process: Arc<Process> = match pid {
        0 => task.process().clone(),
        pid => task::find(pid).ok_or(Errno::ESRCH)?,
    };
    let before = process.limits().get(resource as usize)?;
    if let Some(new) = new.given() {
        let [soft, hard] = new.read()?;
        process.change_limits(|limits| limits.set(resource as usize, soft, hard))?;
    }
    old.write_given(&[before.0, before.1])?;
    Ok(0)
}
